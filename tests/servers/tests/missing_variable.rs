//! D11: a server whose configuration reads a variable without a default does not start without it, and
//! the resource is rejected.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_render::yaml;
use llsd_servers::{NEWEST_LLAMA_STACK, expect_error, render};
use serde_json::json;

const VARIABLE: &str = "ACME_VENDOR_URL";

/// D11.
#[test]
fn a_server_without_a_variable_that_its_base_needs_does_not_start_and_its_resource_is_rejected() {
    let release = NEWEST_LLAMA_STACK;
    let folder = tempfile::tempdir().unwrap();
    let mut config = yaml::read(&release.inference_base().unwrap()).unwrap();
    config["providers"]["inference"] = json!([{
        "provider_id": "vendor",
        "provider_type": "remote::vllm",
        "config": {"base_url": format!("${{env.{VARIABLE}}}")},
    }]);
    let base = folder.path().join("base.yaml");
    std::fs::write(&base, yaml::write(&config)).unwrap();
    expect_error(release, &base, VARIABLE).unwrap();

    let resource = folder.path().join("resource.yaml");
    let render_with = |workload: &str| {
        let text = format!(
            "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {{name: a}}\n\
             spec:\n  distribution: {{name: starter}}\n  resources: {{models: [{{name: m, provider: vendor}}]}}\n{workload}"
        );
        std::fs::write(&resource, text).unwrap();
        render(&resource, &base, &["--schema", release.schema]).unwrap()
    };
    let stderr = render_with("").unwrap_err();
    for part in ["spec.workload.overrides.env", VARIABLE] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let env = format!(
        "  workload: {{overrides: {{env: [{{name: {VARIABLE}, value: 'http://127.0.0.1:9/v1'}}]}}}}\n"
    );
    render_with(&env).unwrap();
}
