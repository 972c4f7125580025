//! External providers, read from images in a real registry.

use k8s_openapi::api::core::v1::ConfigMap;
use llsd_api::Distribution;
use llsd_api::v1alpha2::ExternalProviderPhase;
use llsd_e2e::{
    Operator, STARTER, TestRegistry, condition, config_map, has_condition, minimal, on_image,
};
use llsd_servers::{Finding, NEWEST_LLAMA_STACK, Release, validate};
use llsd_testbed::Access;
use serde_json::{Value, json};

/// The release of the base configuration that the tests use.
const RELEASE: Release = NEWEST_LLAMA_STACK;
const DECLARATION: &str = "\
apiVersion: llamastack.io/v1alpha1
kind: ProviderPackage
metadata: {name: acme, version: 1.0.0, vendor: Acme}
spec:
  packageName: acme-inference
  providerType: remote::acme
  api: inference
  wheelPath: packages/acme_inference-1.0.0-py3-none-any.whl
";

fn resource(server: &str, external: Value) -> Value {
    let mut resource = on_image("minimal", server);
    resource["spec"]["externalProviders"] = json!({ "inference": [external] });
    resource
}

/// Asserts that the server release accepts the configuration. It cannot check the section of the external
/// provider, which is not installed.
async fn assert_accepted(file: String) {
    let validated = tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, file).unwrap();
        validate(RELEASE, &[path]).unwrap()
    });
    let reports = validated.await.unwrap();
    let [report] = Vec::from_iter(reports.values())[..] else {
        panic!("{reports:?}")
    };
    assert!(report.errors().is_empty(), "{:?}", report.errors());
    let is_about_provider =
        |one: &Finding| one.path.contains("acme") || one.message.contains("remote::acme");
    assert!(report.findings.iter().any(is_about_provider), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_provider_is_read_from_its_image_and_replaces_a_provider_of_the_same_id() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let provider = registry
        .push_files(
            "acme/provider",
            &[("lls-provider/lls-provider-spec.yaml", DECLARATION)],
        )
        .await;
    let server = registry
        .push_labelled("acme/stack", "1", STARTER, "llama-stack/0.7", None)
        .await;
    let server = registry.set_user(&server, "1001").await;
    let operator = Operator::start_with_registry("external", registry.settings()).await;
    let external =
        json!({"providerId": "acme", "image": provider, "config": {"url": "http://acme:9000"}});
    operator.create(&resource(&server, external)).await;
    let cr = operator.wait_until_ready("minimal").await;

    let map = operator.api::<ConfigMap>().get(&config_map(&cr)).await;
    let file = map.unwrap().data.unwrap()["config.yaml"].clone();
    let config: Value = serde_saphyr::from_str(&file).unwrap();
    let entries = config["providers"]["inference"].as_array().unwrap();
    let entry = entries.iter().find(|one| one["provider_id"] == "acme");
    assert_eq!(
        entry.unwrap(),
        &json!({
            "provider_id": "acme", "provider_type": "remote::acme",
            "module": "acme_inference", "config": {"url": "http://acme:9000"},
        })
    );
    assert_accepted(file).await;
    let pod = operator.pod("minimal").await;
    let init: Vec<_> = pod.init_containers.unwrap();
    let names: Vec<_> = init.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["install-provider-acme", "install-packages"]);
    assert_eq!(init[0].image.as_deref(), Some(&*provider));
    // The server image declares a non-root user, so the pod must require one.
    let context = pod.containers[0].security_context.as_ref().unwrap();
    assert_eq!(context.run_as_non_root, Some(true));
    let status = cr.status.unwrap();
    assert_eq!(
        status.external_providers[0].phase,
        Some(ExternalProviderPhase::Ready)
    );
    let models = status.config_generation.unwrap().models;
    assert_eq!(models[0].id, "vllm/llama3.2-8b");

    let same_id =
        json!({"externalProviders": {"inference": [{"providerId": "vllm", "image": provider}]}});
    operator.edit("minimal", json!({ "spec": same_id })).await;
    let is_warned = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(status, _, message)| {
            status == "True" && message.contains("warning: spec.externalProviders.inference[0]")
        })
    };
    operator.wait_for("minimal", "warned", is_warned).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_image_without_a_declaration_blocks_the_change_and_nothing_else() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let bare = registry.push_bare("acme/bare").await;
    let operator = Operator::start_with_registry("undeclared", registry.settings()).await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let before = operator.pod("minimal").await;
    let change =
        json!({"externalProviders": {"inference": [{"providerId": "acme", "image": bare}]}});
    operator.edit("minimal", json!({ "spec": change })).await;
    let is_rejected = |cr: &Distribution| has_condition(cr, "ConfigGenerated", "False");
    let cr = operator.wait_for("minimal", "rejected", is_rejected).await;
    let (_, reason, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert_eq!(reason, "BadProviderImage");
    assert!(
        message.starts_with("spec.externalProviders.inference[0].image: ")
            && message.contains("/lls-provider/lls-provider-spec.yaml"),
        "{message}"
    );
    assert_eq!(before, operator.pod("minimal").await);
    operator.stop().await;
}
