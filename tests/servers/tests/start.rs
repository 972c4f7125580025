//! The real server of every release starts with a generated file and lists what was asked for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use llsd_render::yaml;
use llsd_servers::{FakeVllm, RELEASES, Release, probe, render};
use serde_json::Value;

const MODEL: &str = "llama3.2-8b";

fn the_server_starts_with_a_generated_file(release: Release) {
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
    .unwrap_or_else(|talk| panic!("refused: {talk}"));
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, yaml::write(&report["config"])).unwrap();
    let variables = [("LLSD_VLLM_API_KEY".to_owned(), "a-token".to_owned())];
    let answers = probe(
        release,
        &config,
        &variables,
        &["/v1/health", "/v1/providers", "/v1/models"],
    )
    .unwrap();

    let [health, providers, models] = answers.as_slice() else {
        panic!("three answers expected: {answers:?}")
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

fn mentions(answer: &Value, text: &str) -> bool {
    answer["body"].to_string().contains(text)
}

macro_rules! releases {
    ($($name:ident: $index:literal),+) => {
        $(#[test]
        fn $name() {
            the_server_starts_with_a_generated_file(RELEASES[$index]);
        })+
    };
}

releases! {
    the_server_of_0_2_12_starts: 0,
    the_server_of_0_2_24_starts: 1,
    the_server_of_0_3_5_starts: 2,
    the_server_of_0_4_7_starts: 3,
    the_server_of_0_5_4_starts: 4,
    the_server_of_0_6_1_starts: 5,
    the_server_of_0_7_3_starts: 6,
    the_server_of_ogx_1_5_0_starts: 7
}
