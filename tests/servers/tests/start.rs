//! The real server of every release starts with a generated configuration and lists its provider and model.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_render::yaml;
use llsd_servers::{FakeVllm, Release, probe, render, test_each_release};
use serde_json::Value;

const MODEL: &str = "llama3.2-8b";

fn the_server_starts_with_a_generated_configuration(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let vllm = FakeVllm::start(MODEL).unwrap();
    let resource = folder.path().join("resource.yaml");
    std::fs::write(&resource, resource_for(&vllm.endpoint())).unwrap();
    let base = folder.path().join("base.yaml");
    std::fs::write(&base, release.inference_base().unwrap()).unwrap();

    let report = render(
        &resource,
        &base,
        &[
            "--schema",
            release.schema,
            "--server-version",
            release.version(),
        ],
    )
    .unwrap()
    .unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, yaml::write(&report["config"])).unwrap();
    let variables = [("LLSD_VLLM_API_KEY".to_owned(), "a-token".to_owned())];
    let responses = probe(
        release,
        &config,
        &variables,
        &["/v1/health", "/v1/providers", "/v1/models"],
    )
    .unwrap();

    let [health, providers, models] = responses.as_slice() else {
        panic!("expected three responses: {responses:?}")
    };
    assert_eq!(health["status"], 200);
    assert!(mentions(providers, "remote::vllm"), "{providers}");
    let id = report["models"][0]["id"].as_str().unwrap();
    assert!(mentions(models, id), "{models} does not list {id}");
}

fn resource_for(endpoint: &str) -> String {
    format!(
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {{name: started}}\n\
         spec:\n  distribution: {{name: starter}}\n  providers:\n    inference:\n      provider: vllm\n      endpoint: {endpoint}\n\
         \x20     apiKey: {{name: vllm-creds, key: token}}\n  resources:\n    models: [{MODEL}]\n"
    )
}

fn mentions(response: &Value, text: &str) -> bool {
    response["body"].to_string().contains(text)
}

test_each_release!(the_server_starts_with_a_generated_configuration);
