//! Real servers start with the files of plans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use llsd_api::server_variables::readings;
use llsd_render::yaml;
use llsd_servers::postgres::{PASSWORD, USER};
use llsd_servers::{
    Collector, FakeMcp, FakeVllm, NEWEST_LLAMA_STACK, Postgres, Release, image_packages, probe,
    reduced, samples,
};
use serde_json::{Value, json};

use crate::{newest_ogx, plan, ready, vendor_bases, write_resource};

/// All models of the samples.
const MODELS: [&str; 7] = [
    "llama3.2-8b",
    "llama3.2-70b",
    "llama3.2:1b",
    "llama-guard-3-8b",
    "all-minilm",
    "nomic-embed-text",
    "meta-llama/Llama-3.2-1B",
];

/// Samples whose servers are not started, and why.
const NOT_STARTED: &[(&str, &str)] = &[
    ("external-provider", "its image does not exist"),
    (
        "mongodb-state",
        "start.rs starts a server with its state in MongoDB",
    ),
    (
        "multi-provider",
        "the Python package of Ollama is not installed",
    ),
    ("ollama", "the Python package of Ollama is not installed"),
    ("redis", "there is no Redis"),
    (
        "secret-files",
        "start.rs starts a server with a certificate from a Secret",
    ),
    ("tls", "its vLLM has a public certificate"),
];

/// The servers that samples connect to.
struct Services {
    vllm: FakeVllm,
    mcp: FakeMcp,
    collector: Collector,
    postgres: Postgres,
}

impl Services {
    fn start() -> Self {
        Self {
            vllm: FakeVllm::start_all(&MODELS).unwrap(),
            mcp: FakeMcp::start().unwrap(),
            collector: Collector::start().unwrap(),
            postgres: Postgres::start().unwrap(),
        }
    }

    /// A sample with the addresses of this machine.
    fn localized(&self, sample: &str) -> String {
        let vllm = self.vllm.endpoint();
        let mut text = sample.to_owned();
        for (name, address) in [
            ("http://vllm:8000", &vllm),
            ("http://vllm-service.vllm-ns.svc:8000", &vllm),
            ("http://vllm.gpu.svc:8000", &vllm),
            ("http://ollama.local.svc:11434", &vllm),
            (
                "http://ollama-server-service.ollama-dist.svc.cluster.local:11434",
                &vllm,
            ),
            ("http://mcp-files:8000/mcp", &self.mcp.endpoint("mcp")),
            (
                "http://otel-collector.monitoring:4318",
                &self.collector.endpoint(),
            ),
            ("postgres.data.svc", &"127.0.0.1".to_owned()),
            ("port: 5432", &format!("port: {}", self.postgres.port)),
            ("database: llamastack", &"database: postgres".to_owned()),
            ("db: vectors", &"db: postgres".to_owned()),
        ] {
            text = text.replace(name, address);
        }
        text
    }

    /// The value of a variable that comes from a Secret.
    fn secret(&self, release: Release, name: &str) -> String {
        let encoded: String = PASSWORD
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let port = self.postgres.port;
        let ends = |suffix: &str| name.ends_with(suffix);
        match name {
            _ if ends("_CONNECTION_STRING") => {
                format!("postgresql://{USER}:{encoded}@127.0.0.1:{port}/postgres")
            }
            _ if ends("_HOST") => "127.0.0.1".to_owned(),
            _ if ends("_PORT") => port.to_string(),
            _ if ends("_DB") => "postgres".to_owned(),
            _ if ends("_USER") => USER.to_owned(),
            // llama-stack inserts it into a URL.
            "LLSD_SQL_PASSWORD" if release.schema.starts_with("llama-stack/") => encoded,
            _ if ends("_PASSWORD") => PASSWORD.to_owned(),
            _ => "a-token".to_owned(),
        }
    }
}

/// Starts a server with a file, and stops it.
fn start(release: Release, file: &Path, secret: impl Fn(&str) -> String) {
    let config = yaml::read(&std::fs::read_to_string(file).unwrap()).unwrap();
    let database = file.with_extension("db").to_str().unwrap().to_owned();
    let mut variables = vec![
        image_packages().unwrap(),
        ("SQLITE_STORE_DIR".to_owned(), database),
        // The skeletons of vendors call every variable V, also those of numbers.
        ("V".to_owned(), "1".to_owned()),
    ];
    let names: BTreeSet<&str> = readings(&config).into_iter().map(|one| one.name).collect();
    for name in names.into_iter().filter(|name| name.starts_with("LLSD_")) {
        variables.push((name.to_owned(), secret(name)));
    }
    // A sample has access control, which lets nobody else pass.
    probe(release, file, &variables, &["/v1/health"])
        .unwrap_or_else(|error| panic!("{}: {error:#}", file.display()));
}

#[test]
fn servers_of_llama_stack_start_with_the_plans_of_samples() {
    start_samples(NEWEST_LLAMA_STACK);
}

#[test]
fn servers_of_ogx_start_with_the_plans_of_samples() {
    start_samples(newest_ogx());
}

fn start_samples(release: Release) {
    let services = Services::start();
    let folder = tempfile::tempdir().unwrap();
    let mut started = BTreeSet::new();
    for sample in samples().unwrap() {
        let name = sample.file_stem().unwrap().to_str().unwrap();
        if NOT_STARTED.iter().any(|(one, _)| *one == name) {
            continue;
        }
        let text = services.localized(&std::fs::read_to_string(&sample).unwrap());
        let resource = folder.path().join("resource.yaml");
        std::fs::write(&resource, &text).unwrap();
        let base = folder.path().join("base.yaml");
        let apis = apis(&yaml::read(&text).unwrap());
        std::fs::write(&base, release.base_with(&apis).unwrap()).unwrap();
        let output = folder.path().join(name);
        std::fs::create_dir(&output).unwrap();
        let options = ["--to-base-config", base.to_str().unwrap()];
        let plan = plan(&resource, release.schema, &options);
        for file in ready(&plan, &output) {
            // Many samples differ only in their objects.
            if started.insert(std::fs::read(&file).unwrap()) {
                start(release, &file, |name| services.secret(release, name));
            }
        }
    }
    assert!(started.len() > 8, "only {} servers", started.len());
}

/// The APIs that a sample needs of a base.
fn apis(resource: &Value) -> Vec<&'static str> {
    let spec = &resource["spec"];
    let providers = &spec["providers"];
    let mut apis = vec!["inference"];
    for (field, api) in [
        ("safety", "safety"),
        ("vectorIo", "vector_io"),
        ("datasetIo", "datasetio"),
        ("scoring", "scoring"),
        ("eval", "eval"),
    ] {
        if !providers[field].is_null() {
            apis.push(api);
        }
    }
    if !providers["toolRuntime"].is_null() || !spec["resources"]["tools"].is_null() {
        apis.push("tool_runtime");
    }
    apis
}

#[test]
fn servers_of_llama_stack_start_with_the_plans_of_vendor_bases() {
    start_vendor_bases(NEWEST_LLAMA_STACK);
}

#[test]
fn servers_of_ogx_start_with_the_plans_of_vendor_bases() {
    start_vendor_bases(newest_ogx());
}

fn start_vendor_bases(release: Release) {
    const MODEL: &str = "llama3.2-8b";
    let vllm = FakeVllm::start(MODEL).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    std::fs::create_dir(&input).unwrap();
    for mut case in vendor_bases() {
        // One vendor ships the values of a Helm chart.
        if case["base"]["version"].is_null() {
            continue;
        }
        case["base"] = reduced(case["base"].take(), &["inference"]).unwrap();
        let base = &mut case["base"];
        // Folders of the vendor's image, and policies whose texts are placeholders.
        for key in ["external_providers_dir", "external_apis_dir"] {
            base[key] = Value::Null;
        }
        if let Some(server) = base.get_mut("server") {
            server["auth"] = Value::Null;
        }
        let spec = json!({
            "distribution": {"name": "starter"},
            "providers": {"inference": {"id": "mine", "provider": "vllm", "endpoint": vllm.endpoint()}},
            "resources": {"models": [MODEL]},
            // The skeletons name PostgreSQL servers that do not exist.
            "storage": {"kv": {"type": "sqlite"}, "sql": {"type": "sqlite"}},
            "workload": {"overrides": {"env": [{"name": "V", "value": "1"}]}},
        });
        write_resource(&input, &case, spec);
    }
    let output = folder.path().join("output");
    std::fs::create_dir(&output).unwrap();
    let plan = plan(&input, release.schema, &[]);
    let files = ready(&plan, &output);
    // Bases of one vendor often differ only in values.
    let distinct: BTreeMap<Vec<String>, PathBuf> =
        files.into_iter().map(|file| (keys(&file), file)).collect();
    assert!(distinct.len() > 4, "only {} shapes", distinct.len());
    for file in distinct.values() {
        start(release, file, |_| "a-token".to_owned());
    }
}

/// The keys of a file and of its server.
fn keys(file: &Path) -> Vec<String> {
    let config = yaml::read(&std::fs::read_to_string(file).unwrap()).unwrap();
    let parts = [&config, &config["server"]];
    let keys = parts.into_iter().filter_map(Value::as_object);
    keys.flat_map(|fields| fields.keys().cloned()).collect()
}
