use serde_json::json;

use super::*;

/// A resource with this spec, in YAML.
fn document(spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    json!({
        "apiVersion": crate::API_VERSION_V1ALPHA2,
        "kind": crate::KIND,
        "metadata": { "name": "my-stack" },
        "spec": spec,
    })
}

fn checked(spec: &str) -> Checked {
    review(document(spec)).result.unwrap()
}

fn rejections(spec: &str) -> Vec<String> {
    review(document(spec))
        .result
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_resource_wrong_in_five_places_gets_five_rejections() {
    let said = rejections(
        r#"
        distribution: {name: starter, image: a/b}
        providers:
          inference:
            - {id: a, provider: vllm, apikey: {name: s, key: k}}
            - {provider: ollama}
        storage: {kv: {type: redis}}
        networking: {port: 70000}
        workload: {replicas: "2"}
        "#,
    );
    assert_eq!(
        said,
        [
            "spec.distribution: has both name and image; keep one of them",
            "spec.networking.port: 70000 is out of range; use a number from 1 to 65535",
            "spec.providers.inference[0].apikey: there is no such field; did you mean \"apiKey\"?",
            "spec.providers.inference[1].id: is missing, and 2 providers are listed here; add one, for example id: ollama",
            "spec.storage.kv.endpoint: is missing, and redis needs it; add endpoint: redis://<host>:6379",
            "spec.workload.replicas: must be a whole number, not a text; write a whole number",
        ]
    );
}

#[test]
fn a_resource_that_asks_for_nothing_runs_the_distribution_as_it_is() {
    let checked = checked(
        "{distribution: {name: starter}, providers: {}, resources: {models: []}, disabled: []}",
    );
    assert_eq!(checked.config_source, ConfigSource::DistributionDefault);
    assert_eq!(checked.server, ServerSource::Named("starter".into()));
    assert_eq!(
        (checked.networking.port(), checked.networking.asked_port),
        (8321, None)
    );
    assert_eq!(
        (checked.workload.replicas(), checked.workload.asked_replicas),
        (1, None)
    );
    assert!(checked.references().is_empty());
}
