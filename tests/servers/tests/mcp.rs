//! The real server of every release knows the MCP server of a resource, and lists its tool.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_render::yaml;
use llsd_servers::{FakeMcp, Release, probe, render, test_each_release};

/// The tool of the fake server.
const TOOL: &str = "read_file";

fn the_tools_of_an_mcp_server_are_listed(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let mcp = FakeMcp::start().unwrap();
    // The clients of 0.1 and 0.2.12 have one transport only.
    let transport = match release.schema {
        "llama-stack/0.1.3" => "sse",
        _ => "mcp",
    };
    let endpoint = mcp.endpoint(transport);
    let resource = folder.path().join("resource.yaml");
    let text = format!(
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {{name: mcp}}\n\
         spec:\n  distribution: {{name: starter}}\n  resources:\n    tools: [{{name: files, endpoint: '{endpoint}'}}]\n"
    );
    std::fs::write(&resource, text).unwrap();
    let base = folder.path().join("base.yaml");
    let apis = ["inference", "tool_runtime"];
    std::fs::write(&base, release.base_with(&apis).unwrap()).unwrap();
    let options = [
        "--schema",
        release.schema,
        "--server-version",
        release.version(),
    ];
    let report = render(&resource, &base, &options)
        .unwrap()
        .unwrap_or_else(|stderr| panic!("rejected: {stderr}"));
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, yaml::write(&report["config"])).unwrap();

    let group = "/v1/tools?toolgroup_id=mcp%3A%3Afiles";
    let paths: &[&str] = match release.schema {
        "llama-stack/0.5" => &[group, "/v1alpha/connectors/files/tools"],
        "llama-stack/0.7" => &["/v1beta/connectors/files/tools"],
        // It has connectors, but no API for them.
        schema if schema.starts_with("ogx/") => &["/v1/health"],
        _ => &[group],
    };
    let database = folder.path().join("db");
    let variable = ("SQLITE_STORE_DIR".to_owned(), path(&database));
    let responses = probe(release, &config, &[variable], paths).unwrap();
    assert_eq!(responses.len(), paths.len());
    if release.schema.starts_with("ogx/") {
        let files = std::fs::read_dir(&database).unwrap();
        let mut contents = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
        let has_it = |content: Vec<u8>| {
            content
                .windows(endpoint.len())
                .any(|part| part == endpoint.as_bytes())
        };
        assert!(contents.any(has_it), "no database contains {endpoint}");
        return;
    }
    for response in responses {
        assert!(
            response["body"].to_string().contains(TOOL),
            "{response} does not list {TOOL}"
        );
    }
}

fn path(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

test_each_release!(the_tools_of_an_mcp_server_are_listed);
