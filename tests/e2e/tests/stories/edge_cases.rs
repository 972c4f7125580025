//! The edge cases of the specification. An empty `expose` is in story five.

use k8s_openapi::api::core::v1::ConfigMap;
use llsd_api::Distribution;
use llsd_e2e::{Operator, condition, config_map, minimal, named};
use serde_json::{Value, json};

/// The server's file of a ready resource.
async fn file(operator: &Operator, name: &str) -> Value {
    let cr = operator.wait_until_ready(name).await;
    let map = operator.api::<ConfigMap>().get(&config_map(&cr)).await;
    let text = &map.unwrap().data.unwrap()["config.yaml"];
    serde_saphyr::from_str(text).unwrap()
}

/// Waits until a resource is refused, and gives the reason and the message.
async fn refusal(operator: &Operator, name: &str, kind: &str) -> (String, String) {
    let is_refused =
        |cr: &Distribution| condition(cr, kind).is_some_and(|(status, ..)| status == "False");
    let cr = operator.wait_for(name, "refused", is_refused).await;
    let (_, reason, message) = condition(&cr, kind).unwrap();
    (reason, message)
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_reach_the_providers_own_section() {
    let operator = Operator::start("settings").await;
    let mut resource = minimal();
    resource["spec"]["providers"]["inference"]["settings"] = json!({"max_tokens": 8192});
    operator.create(&resource).await;
    let file = file(&operator, "minimal").await;
    let providers = file["providers"]["inference"].as_array().unwrap();
    let vllm = providers
        .iter()
        .find(|one| one["provider_type"] == "remote::vllm");
    assert_eq!(vllm.unwrap()["config"]["max_tokens"], 8192);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_api_wins_over_its_providers() {
    let operator = Operator::start("disabled").await;
    let mut resource = minimal();
    resource["spec"]["providers"]["safety"] = json!({"provider": "llama-guard"});
    resource["spec"]["disabled"] = json!(["safety"]);
    operator.create(&resource).await;
    let file = file(&operator, "minimal").await;
    assert!(!file["apis"].as_array().unwrap().contains(&json!("safety")));
    assert_eq!(file["providers"].get("safety"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_resource_refers_to_and_is_not_there_is_named() {
    let operator = Operator::start("edges").await;
    let mut secret = named("secret");
    secret["spec"]["providers"]["inference"]["apiKey"] =
        json!({"secretKeyRef": {"name": "nowhere", "key": "token"}});
    operator.create(&secret).await;
    let mut model = named("model");
    model["spec"]["resources"]["models"] = json!([{"name": "m", "provider": "nobody"}]);
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

    let (reason, message) = refusal(&operator, "secret", "SecretsResolved").await;
    assert_eq!(reason, "SecretNotFound");
    assert!(
        message.starts_with("Secret not found: nowhere"),
        "{message}"
    );
    let (_, message) = refusal(&operator, "model", "ConfigGenerated").await;
    assert!(
        message.contains("nobody") && message.contains("vllm"),
        "{message}"
    );
    let (reason, message) = refusal(&operator, "version", "ConfigGenerated").await;
    assert_eq!(reason, "UnsupportedConfigVersion");
    assert!(
        message.starts_with("Unsupported config.yaml version"),
        "{message}"
    );
}
