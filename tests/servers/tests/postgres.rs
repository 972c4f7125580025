//! The real server keeps its state in a real PostgreSQL server.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_servers::postgres::{PASSWORD, USER};
use llsd_servers::{FakeVllm, Postgres, Release, image_packages, probe, test_each_release};

const MODEL: &str = "llama3.2-8b";

fn state_is_in_postgres(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let vllm = FakeVllm::start(MODEL).unwrap();
    let postgres = Postgres::start().unwrap();
    let (endpoint, port) = (vllm.endpoint(), postgres.port);
    let server = format!(
        "{{type: postgres, host: 127.0.0.1, port: {port}, database: postgres, user: {USER}, password: {{name: pg, key: password}}"
    );
    // Older releases have no such option.
    let tls = match release.schema {
        "llama-stack/0.1.3" => "",
        _ => ", tlsMode: disable",
    };
    let text = format!(
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {{name: state}}\n\
         spec:\n  distribution: {{name: starter}}\n\
         \x20 providers: {{inference: {{provider: vllm, endpoint: '{endpoint}'}}}}\n\
         \x20 resources: {{models: [{MODEL}]}}\n\
         \x20 storage:\n    kv: {server}{tls}}}\n    sql: {server}}}\n"
    );
    let generated = release
        .generate(folder.path(), &text, &release.inference_base().unwrap())
        .unwrap()
        .unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    let mut variables = vec![image_packages().unwrap()];
    for name in ["LLSD_KV_PASSWORD", "LLSD_SQL_PASSWORD"] {
        variables.push((name.to_owned(), password_for(release, name)));
    }
    let paths = ["/v1/health", "/v1/models"];
    let responses = probe(release, &generated.file, &variables, &paths).unwrap();
    assert!(responses[1]["body"].to_string().contains(MODEL));

    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
    let tables = postgres.query(tables).unwrap();
    let table = tables
        .lines()
        .find(|table| table.contains("kvstore"))
        .unwrap_or_else(|| panic!("no table for keys: {tables}"));
    let keys = postgres.query(&format!("SELECT key FROM {table}")).unwrap();
    assert!(keys.contains(MODEL), "{keys} does not contain the model");
}

/// The operator encodes a password for releases whose SQL storage inserts it into a URL.
fn password_for(release: Release, name: &str) -> String {
    let pastes = release.schema.starts_with("llama-stack/") && name == "LLSD_SQL_PASSWORD";
    match pastes {
        true => PASSWORD
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect(),
        false => PASSWORD.to_owned(),
    }
}

test_each_release!(state_is_in_postgres);
