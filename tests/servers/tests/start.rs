//! The real server of every release starts with a generated configuration, and lists its provider, its model
//! and the tool of its MCP server.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::Path;

use llsd_servers::{FakeMcp, FakeVllm, Release, probe, test_each_release};
use serde_json::Value;

const MODEL: &str = "llama3.2-8b";

/// The tool of the fake MCP server.
const TOOL: &str = "read_file";

fn the_server_starts_with_a_generated_configuration(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let vllm = FakeVllm::start(MODEL).unwrap();
    let mcp = FakeMcp::start().unwrap();
    // The clients of 0.1 and 0.2.12 have one transport only.
    let transport = match release.schema {
        "llama-stack/0.1.3" => "sse",
        _ => "mcp",
    };
    let tools = mcp.endpoint(transport);
    let base = release.base_with(&["inference", "tool_runtime"]).unwrap();
    let generated = release
        .generate(
            folder.path(),
            &resource_for(&vllm.endpoint(), &tools),
            &base,
        )
        .unwrap()
        .unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    let database = folder.path().join("db");
    let variables = [
        ("LLSD_VLLM_API_KEY", "a-token"),
        ("SQLITE_STORE_DIR", database.to_str().unwrap()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let lists = lists_of_tools(release.schema);
    let paths = [&["/v1/health", "/v1/providers", "/v1/models"], lists].concat();
    let responses = probe(release, &generated.file, &variables, &paths).unwrap();

    assert_eq!(responses.len(), paths.len(), "{responses:?}");
    let [health, providers, models, tool_lists @ ..] = responses.as_slice() else {
        panic!("expected more responses: {responses:?}")
    };
    assert_eq!(health["status"], 200);
    assert!(mentions(providers, "remote::vllm"), "{providers}");
    let id = generated.report["models"][0]["id"].as_str().unwrap();
    assert!(mentions(models, id), "{models} does not list {id}");
    for list in tool_lists {
        assert!(mentions(list, TOOL), "{list} does not list {TOOL}");
    }
    if lists.is_empty() {
        assert!(stores(&database, &tools), "no database contains {tools}");
    }
}

fn resource_for(endpoint: &str, tools: &str) -> String {
    format!(
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {{name: started}}\n\
         spec:\n  distribution: {{name: starter}}\n  providers:\n    inference:\n      provider: vllm\n      endpoint: {endpoint}\n\
         \x20     apiKey: {{name: vllm-creds, key: token}}\n  resources:\n    models: [{MODEL}]\n\
         \x20   tools: [{{name: files, endpoint: '{tools}'}}]\n"
    )
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

fn mentions(response: &Value, text: &str) -> bool {
    response["body"].to_string().contains(text)
}

/// Whether a file of a folder contains a text.
fn stores(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|file| {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        content
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

test_each_release!(the_server_starts_with_a_generated_configuration);
