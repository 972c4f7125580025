//! The real server of every release starts with a resource that uses everything at once: a certificate from a
//! Secret, models, the tools of an MCP server, a vector store, a dataset, state in MongoDB, and a collector of
//! traces and metrics, as far as the release has it. Each of them must have its effect.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::fs;
use std::path::Path;

use llsd_render::yaml;
use llsd_servers::{
    Collector, FakeMcp, FakeVllm, GeneratedConfig, MongoDb, RELEASES, Release, RunningServer,
    expect_accepted, image_packages, stores, test_each_release,
};
use serde_json::{Value, json};

const MODEL: &str = "llama3.2-8b";
const EMBEDDING: &str = "nomic-embed-text";
/// The tool of the fake MCP server.
const TOOL: &str = "read_file";
const STORE: &str = "handbook-of-the-test";
const DATASET: &str = "questions-of-the-test";

fn the_server_does_what_the_resource_says(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let (ca, served) = certificate(folder.path());
    let vllm = FakeVllm::start_with_tls(&[MODEL, EMBEDDING], &served).unwrap();
    let mcp = FakeMcp::start().unwrap();
    let mongodb = MongoDb::start().unwrap();
    let collector = Collector::start().unwrap();
    // The clients of 0.1 and 0.2.12 have one transport only.
    let transport = match release.schema {
        "llama-stack/0.1.3" => "sse",
        _ => "mcp",
    };
    let tools = mcp.endpoint(transport);
    let mut spec = json!({
        "distribution": {"name": "starter"},
        "providers": {
            "inference": {
                "provider": "vllm", "endpoint": vllm.endpoint(),
                "apiKey": {"name": "vllm", "key": "token"},
                "secretFiles": [
                    {"name": "vllm-ca", "key": "ca.crt", "path": ca, "setting": "tls_verify"},
                ],
            },
            "vectorIo": {"provider": "faiss"},
        },
        "resources": {
            "models": [MODEL, {"name": EMBEDDING, "embeddingDimension": 8}],
            "tools": [{"name": "files", "endpoint": tools}],
        },
        "telemetry": {"otlp": {
            "endpoint": collector.endpoint(), "headers": {"name": "otel", "key": "headers"},
        }},
    });
    let mut apis = vec!["inference", "tool_runtime", "vector_io"];
    let resources = &mut spec["resources"];
    if !["llama-stack/0.1.3", "llama-stack/0.2.13"].contains(&release.schema) {
        resources["defaults"] =
            json!({"vectorStoreProvider": "faiss", "embeddingModel": EMBEDDING});
    }
    // 0.3 reads vector stores in the file, and registers none.
    let has_stores = release.schema != "llama-stack/0.3";
    if has_stores {
        resources["vectorStores"] =
            json!([{"name": STORE, "embeddingModel": EMBEDDING, "embeddingDimension": 8}]);
    }
    let is_ogx = release.schema.starts_with("ogx/");
    if !is_ogx {
        let uri = "https://example.com/questions.csv";
        resources["datasets"] =
            json!([{"name": DATASET, "purpose": "eval/question-answer", "uri": uri}]);
        spec["providers"]["datasetIo"] = json!({"provider": "localfs"});
        apis.push("datasetio");
    } else {
        spec["storage"] = json!({"kv": {
            "type": "mongodb", "host": "127.0.0.1", "port": mongodb.port, "database": "state",
        }});
    }
    let generated = generate(release, folder.path(), spec, &apis);
    let database = folder.path().join("db");
    let server = start(release, &generated, &database);

    let get = |path: &str| {
        let (status, body) = server.get(path, None).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        body
    };
    get("/v1/health");
    let providers = get("/v1/providers");
    assert!(providers.contains("remote::vllm"), "{providers}");
    let models = get("/v1/models");
    let id = generated.report["models"][0]["id"].as_str().unwrap();
    assert!(models.contains(id), "{models} does not list {id}");
    for path in lists_of_tools(release.schema) {
        let list = get(path);
        assert!(list.contains(TOOL), "{path}: {list} does not list {TOOL}");
    }
    let (state, other) = match is_ogx {
        true => (mongodb.folder(), tools.as_str()),
        false => (database.as_path(), DATASET),
    };
    let kept = has_stores.then_some((state, STORE));
    for (folder, name) in kept.into_iter().chain([(database.as_path(), other)]) {
        assert!(stores(folder, name), "the state does not contain {name}");
    }
    check_reports(release, &collector);
}

/// Files of a certificate of 127.0.0.1: without and with its key.
fn certificate(folder: &Path) -> (String, std::path::PathBuf) {
    let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (ca, served) = (folder.join("ca.crt"), folder.join("served.pem"));
    let text = certificate.cert.pem();
    fs::write(&ca, &text).unwrap();
    fs::write(&served, text + &certificate.signing_key.serialize_pem()).unwrap();
    (ca.to_str().unwrap().to_owned(), served)
}

/// Generates the file for a base with these APIs, and validates it with the package of the release.
fn generate(release: Release, folder: &Path, spec: Value, apis: &[&str]) -> GeneratedConfig {
    let resource = yaml::write(&json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
        "metadata": {"name": "started"}, "spec": spec,
    }));
    let base = release.base_with(apis).unwrap();
    let generated = release.generate(folder, &resource, &base).unwrap();
    let generated = generated.unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    expect_accepted(release, std::slice::from_ref(&generated.file)).unwrap();
    generated
}

/// Starts the server with the variables of the report. Those from Secrets get a value of the test.
fn start(release: Release, generated: &GeneratedConfig, database: &Path) -> RunningServer {
    let fixed = [
        ("SQLITE_STORE_DIR", database.to_str().unwrap()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
        ("OTEL_BSP_SCHEDULE_DELAY", "200"),
    ];
    let mut variables = vec![image_packages().unwrap()];
    for variable in generated.report["variables"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        let secret = match name {
            "OTEL_EXPORTER_OTLP_HEADERS" => "x-tenant=acme",
            _ => "a-token",
        };
        let value = variable["value"].as_str().unwrap_or(secret);
        variables.push((name.to_owned(), value.to_owned()));
    }
    variables.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    RunningServer::start(release, &generated.file, &variables).unwrap()
}

/// The paths that list the tools of an MCP server. ogx has connectors, but no API for them.
fn lists_of_tools(schema: &str) -> &'static [&'static str] {
    const GROUP: &str = "/v1/tools?toolgroup_id=mcp%3A%3Afiles";
    match schema {
        "llama-stack/0.5" => &[GROUP, "/v1alpha/connectors/files/tools"],
        "llama-stack/0.7" => &["/v1beta/connectors/files/tools"],
        schema if schema.starts_with("ogx/") => &[],
        _ => &[GROUP],
    }
}

/// The collector must have got something from the server, with the headers and the name of the resource.
fn check_reports(release: Release, collector: &Collector) {
    let path = match release.schema {
        "llama-stack/0.1.3" | "llama-stack/0.2.13" | "llama-stack/0.3" => "/v1/traces",
        // Without opentelemetry-instrument, these send nothing, or metrics of tools alone.
        "llama-stack/0.4" | "llama-stack/0.5" => return,
        _ => "/v1/metrics",
    };
    let received = collector.wait_for(path).unwrap();
    let headers = &received.headers;
    assert!(
        headers.contains(&"x-tenant: acme".to_owned()),
        "{headers:?}"
    );
    let body = String::from_utf8_lossy(&received.body);
    assert!(
        body.contains("started"),
        "the name of the service is missing"
    );
}

test_each_release!(the_server_does_what_the_resource_says);

fn ogx() -> Release {
    *RELEASES.iter().find(|one| one.schema == "ogx/1.0").unwrap()
}

#[test]
fn metrics_of_ogx_are_scraped() {
    let folder = tempfile::tempdir().unwrap();
    let port = llsd_servers::free_port().unwrap();
    let spec = json!({
        "distribution": {"name": "starter"}, "telemetry": {"metrics": {"port": port}},
    });
    let generated = generate(ogx(), folder.path(), spec, &["inference"]);
    let server = start(ogx(), &generated, &folder.path().join("db"));
    assert_eq!(server.get("/v1/models", None).unwrap().0, 200);
    let (status, body) = llsd_servers::get(port, "/metrics", None).unwrap();
    assert_eq!(status, 200);
    assert!(body.contains("ogx"), "{body}");
}
