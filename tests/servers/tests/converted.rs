//! Real servers start with resources that `llsd convert` makes of the resource of ogx-k8s-operator.
//!
//! The examples have addresses of the test, and no providers whose packages are not installed.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::Path;
use std::process::Command;

use llsd_render::yaml;
use llsd_servers::postgres::{PASSWORD, USER};
use llsd_servers::{FakeVllm, Postgres, RELEASES, Release, image_packages, probe, validate};
use serde_json::{Value, json};

const MODEL: &str = "llama-3";

fn ogx() -> Release {
    *RELEASES.iter().find(|one| one.schema == "ogx/1.0").unwrap()
}

/// Converts a server, generates its file, and starts a server with it. Returns the models that it lists.
fn start(spec: Value, values: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let server = json!({
        "apiVersion": "ogx.io/v1beta1", "kind": "OGXServer", "metadata": {"name": "converted"}, "spec": spec,
    });
    let file = folder.path().join("server.yaml");
    std::fs::write(&file, yaml::write(&server)).unwrap();
    let resource = convert(&file);
    let base = ogx().inference_base().unwrap();
    let generated = ogx().generate(folder.path(), &resource, &base).unwrap();
    let generated = generated.unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    // A resource that only says how to run the server leaves it the file of its image.
    let file = match generated.report["config"].is_null() {
        true => folder.path().join("base.yaml"),
        false => generated.file,
    };
    for (_, report) in validate(ogx(), std::slice::from_ref(&file)).unwrap() {
        assert!(report.errors().is_empty(), "{:#?}", report.errors());
    }
    let database = folder.path().join("db");
    let mut variables = vec![
        image_packages().unwrap(),
        (
            "SQLITE_STORE_DIR".to_owned(),
            database.to_str().unwrap().to_owned(),
        ),
    ];
    let reported = generated.report["variables"].as_array();
    for variable in reported.into_iter().flatten() {
        let name = variable["name"].as_str().unwrap();
        let given = values.iter().find(|(known, _)| *known == name);
        let value = variable["value"]
            .as_str()
            .or(given.map(|(_, value)| *value));
        let value = value.unwrap_or_else(|| panic!("no value for {variable}"));
        variables.push((name.to_owned(), value.to_owned()));
    }
    let paths = ["/v1/health", "/v1/models"];
    let responses = probe(ogx(), &file, &variables, &paths).unwrap();
    responses[1]["body"].to_string()
}

fn convert(file: &Path) -> String {
    let program = std::env::var("LLSD_BIN")
        .expect("LLSD_BIN is not set; run the tests with `cargo xtask test`");
    let mut command = Command::new(program);
    let output = command.args(["convert", "-f"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_server_with_the_defaults_of_its_distribution_starts() {
    start(
        json!({
            "distribution": {"name": "starter"},
            "workload": {
                "storage": {"size": "20Gi"},
                "overrides": {"env": [{"name": "OLLAMA_URL", "value": "http://ollama:11434"}]},
            },
        }),
        &[],
    );
}

#[test]
fn a_server_with_providers_and_models_starts() {
    let vllm = FakeVllm::start(MODEL).unwrap();
    let endpoint = format!("{}/v1", vllm.endpoint());
    let models = start(
        json!({
            "distribution": {"name": "starter"},
            "providers": {"inference": {"remote": {"vllm": [{
                "endpoint": endpoint, "apiToken": {"name": "vllm", "key": "token"},
                "maxTokens": 4096, "network": {"timeout": {"read": 120}},
            }]}}},
            "resources": {"models": [{"name": MODEL, "contextLength": 8192}]},
        }),
        &[("LLSD_REMOTE_VLLM_API_KEY", "a-token")],
    );
    assert!(models.contains("remote-vllm/llama-3"), "{models}");
}

#[test]
fn a_server_with_state_in_postgres_starts() {
    let postgres = Postgres::start().unwrap();
    let password: String = PASSWORD
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    let port = postgres.port;
    let url = format!("postgresql://{USER}:{password}@127.0.0.1:{port}/postgres");
    start(
        json!({
            "distribution": {"name": "postgres-demo"}, "disabledAPIs": ["batches"],
            "storage": {"sql": {"type": "postgres", "connectionString": {"name": "db", "key": "url"}}},
            "network": {"externalAccess": {"enabled": true, "hostname": "ogx.example.com"}},
        }),
        &[("LLSD_SQL_CONNECTION_STRING", &url)],
    );
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
    assert!(!postgres.query(tables).unwrap().trim().is_empty());
}

#[test]
fn a_server_with_workers_and_trusted_authorities_starts() {
    start(
        json!({
            "distribution": {"name": "remote-vllm"}, "monitoring": {"enabled": false},
            "registryRefreshIntervalSeconds": 60,
            "tls": {"trust": {"caCertificates": [{"name": "ca", "key": "a.crt"}]}},
            "workload": {
                "replicas": 2, "workers": 2, "podDisruptionBudget": {"maxUnavailable": 1},
                "autoscaling": {"maxReplicas": 6, "targetCPUUtilizationPercentage": 70},
            },
        }),
        &[],
    );
}
