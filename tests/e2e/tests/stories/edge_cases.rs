//! The edge cases of the specification. Story five covers an empty `expose`.

use k8s_openapi::api::core::v1::ConfigMap;
use llsd_api::Distribution;
use llsd_e2e::{Operator, condition, config_map, has_condition, minimal, named};
use serde_json::{Value, json};

/// The generated configuration of a resource, once it is ready.
async fn generated_config(operator: &Operator, name: &str) -> Value {
    let cr = operator.wait_until_ready(name).await;
    let map = operator.api::<ConfigMap>().get(&config_map(&cr)).await;
    let text = &map.unwrap().data.unwrap()["config.yaml"];
    serde_saphyr::from_str(text).unwrap()
}

/// Waits until a condition is `False`, and returns its reason and message.
async fn rejection(operator: &Operator, name: &str, kind: &str) -> (String, String) {
    let is_rejected = |cr: &Distribution| has_condition(cr, kind, "False");
    let cr = operator.wait_for(name, "rejected", is_rejected).await;
    let (_, reason, message) = condition(&cr, kind).unwrap();
    (reason, message)
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_settings_reach_the_configuration_of_the_provider() {
    let operator = Operator::start("settings").await;
    let mut resource = minimal();
    resource["spec"]["providers"]["inference"]["settings"] = json!({"max_tokens": 8192});
    operator.create(&resource).await;
    let file = generated_config(&operator, "minimal").await;
    let providers = file["providers"]["inference"].as_array().unwrap();
    let vllm = providers
        .iter()
        .find(|one| one["provider_type"] == "remote::vllm");
    assert_eq!(vllm.unwrap()["config"]["max_tokens"], 8192);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_api_stays_disabled_although_it_has_providers() {
    let operator = Operator::start("disabled").await;
    let mut resource = minimal();
    resource["spec"]["providers"]["safety"] = json!({"provider": "llama-guard"});
    resource["spec"]["disabled"] = json!(["safety"]);
    operator.create(&resource).await;
    let file = generated_config(&operator, "minimal").await;
    assert!(!file["apis"].as_array().unwrap().contains(&json!("safety")));
    assert_eq!(file["providers"].get("safety"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_referenced_objects_are_named() {
    let operator = Operator::start("edges").await;
    let mut secret = named("secret");
    secret["spec"]["providers"]["inference"]["apiKey"] =
        json!({"secretKeyRef": {"name": "missing", "key": "token"}});
    operator.create(&secret).await;
    let mut model = named("model");
    model["spec"]["resources"]["models"] = json!([{"name": "m", "provider": "undefined"}]);
    operator.create(&model).await;
    let file = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "future"}, "data": {"config.yaml": "version: 99\n"},
    });
    operator.apply(&[file]).await;
    let mut version = named("version");
    version["spec"]["distribution"] = json!({
        "image": "example.com/stack:1",
        "baseConfig": {"configMapName": "future"},
    });
    operator.create(&version).await;

    let (reason, message) = rejection(&operator, "secret", "SecretsResolved").await;
    assert_eq!(reason, "SecretNotFound");
    assert!(
        message.starts_with("Secret not found: missing"),
        "{message}"
    );
    let (_, message) = rejection(&operator, "model", "ConfigGenerated").await;
    assert!(
        message.contains("undefined") && message.contains("vllm"),
        "{message}"
    );
    let (reason, message) = rejection(&operator, "version", "ConfigGenerated").await;
    assert_eq!(reason, "UnsupportedConfigVersion");
    assert!(
        message.starts_with("Unsupported config.yaml version"),
        "{message}"
    );
}
