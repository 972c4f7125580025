//! Real servers start with resources that `llsd convert` makes of the resource of ogx-k8s-operator.
//!
//! The examples have addresses of the test. The provider `inline::sentence-transformers` is left out, because its
//! package needs PyTorch.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::Path;
use std::process::Command;

use llsd_render::yaml;
use llsd_servers::postgres::{PASSWORD, USER};
use llsd_servers::{FakeVllm, Postgres, RELEASES, Release, expect_accepted, image_packages, probe};
use serde_json::{Value, json};

const MODEL: &str = "llama-3";

fn ogx() -> Release {
    *RELEASES.iter().find(|one| one.schema == "ogx/1.0").unwrap()
}

/// Converts a server, generates its file, and starts a server with it. Returns the models that it lists.
fn start(spec: Value, values: &[(&str, &str)]) -> String {
    start_on(&["inference"], spec, values)
}

/// The same, on a base with these APIs.
fn start_on(apis: &[&str], spec: Value, values: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let server = json!({
        "apiVersion": "ogx.io/v1beta1", "kind": "OGXServer", "metadata": {"name": "converted"}, "spec": spec,
    });
    let file = folder.path().join("server.yaml");
    std::fs::write(&file, yaml::write(&server)).unwrap();
    let resource = convert(&file);
    let base = ogx().base_with(apis).unwrap();
    let generated = ogx().generate(folder.path(), &resource, &base).unwrap();
    let generated = generated.unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    // A resource that only says how to run the server leaves it the file of its image.
    let file = match generated.report["config"].is_null() {
        true => folder.path().join("base.yaml"),
        false => generated.file,
    };
    expect_accepted(ogx(), std::slice::from_ref(&file)).unwrap();
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
fn a_server_with_a_whole_file_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let vllm = FakeVllm::start(MODEL).unwrap();
    let mut config = yaml::read(&ogx().inference_base().unwrap()).unwrap();
    config["providers"]["inference"] = json!([{
        "provider_id": "vllm", "provider_type": "remote::vllm",
        "config": {"base_url": format!("{}/v1", vllm.endpoint())},
    }]);
    std::fs::write(path("config.yaml"), yaml::write(&config)).unwrap();
    let server = json!({
        "apiVersion": "ogx.io/v1beta1", "kind": "OGXServer", "metadata": {"name": "full"}, "spec": {
            "distribution": {"image": "registry.example/ogx:1.3.0"},
            "overrideConfig": {"name": "full-config", "key": "server.yaml"},
            "network": {"port": 9000, "policy": {"enabled": false}},
        },
    });
    std::fs::write(path("server.yaml"), yaml::write(&server)).unwrap();
    let converted = yaml::read(&convert(&path("server.yaml"))).unwrap();
    let spec = &converted["spec"];
    assert_eq!(spec["overrideConfig"]["configMapName"], "full-config-copy");
    // The operator mounts the file as it is, and sets the variables.
    let variables = spec["workload"]["overrides"]["env"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let variables: Vec<_> = variables
        .iter()
        .map(|one| (text(&one["name"]), text(&one["value"])))
        .collect();
    let responses = probe(ogx(), &path("config.yaml"), &variables, &["/v1/models"]).unwrap();
    let models = responses[0]["body"].to_string();
    assert!(models.contains(MODEL), "{models}");
}

#[test]
fn a_server_with_providers_and_models_starts() {
    let vllm = FakeVllm::start(MODEL).unwrap();
    let postgres = Postgres::start().unwrap();
    let endpoint = format!("{}/v1", vllm.endpoint());
    let models = start_on(
        &["inference", "vector_io", "files"],
        json!({
            "distribution": {"name": "starter"},
            "providers": {
                "inference": {"remote": {"vllm": [{
                    "endpoint": endpoint, "apiToken": {"name": "vllm", "key": "token"},
                    "maxTokens": 4096, "network": {"timeout": {"read": 120}},
                }]}},
                "vectorIo": {"remote": {"pgvector": [{
                    "id": "pg", "host": "127.0.0.1", "port": postgres.port, "db": "postgres", "user": USER,
                    "password": {"name": "pg", "key": "pw"},
                }]}},
            },
            "resources": {"models": [{"name": MODEL, "contextLength": 8192}]},
        }),
        &[
            ("LLSD_REMOTE_VLLM_API_KEY", "a-token"),
            ("LLSD_PG_PASSWORD", PASSWORD),
        ],
    );
    assert!(models.contains("remote-vllm/llama-3"), "{models}");
    let extension = "SELECT extname FROM pg_extension WHERE extname = 'vector'";
    assert_eq!(postgres.query(extension).unwrap().trim(), "vector");
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
