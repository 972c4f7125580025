//! D3: a server starts without an API whose routing API the base lists.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_render::yaml;
use llsd_servers::{RELEASES, expect_error, probe, render};
use serde_json::json;

/// D3.
#[test]
fn a_server_starts_without_a_disabled_api_whose_routing_api_the_base_lists() {
    let release = *RELEASES.iter().find(|one| one.name == "0.3.5").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut base = yaml::read(&release.inference_base().unwrap()).unwrap();
    base["apis"] = json!(["datasetio", "datasets", "inference"]);
    base["providers"]["datasetio"] = json!([{
        "provider_id": "localfs",
        "provider_type": "inline::localfs",
        "config": {"kvstore": {"namespace": "datasetio::localfs", "backend": "kv_default"}},
    }]);
    let base_file = folder.path().join("base.yaml");
    std::fs::write(&base_file, yaml::write(&base)).unwrap();
    let resource = folder.path().join("resource.yaml");
    std::fs::write(
        &resource,
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {name: a}\n\
         spec:\n  distribution: {name: starter}\n  disabled: [datasetIo]\n",
    )
    .unwrap();
    let report = render(&resource, &base_file, &["--schema", release.schema])
        .unwrap()
        .unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, yaml::write(&report["config"])).unwrap();
    let responses = probe(release, &file, &[], &["/v1/health"]).unwrap();
    assert_eq!(responses[0]["status"], 200);

    // The server of this release stops if the routing API stays.
    let mut stale = report["config"].clone();
    let apis = stale["apis"].as_array_mut().unwrap();
    apis.push(json!("datasets"));
    std::fs::write(&file, yaml::write(&stale)).unwrap();
    expect_error(release, &file, "provider implementation for Api.datasets").unwrap();
}
