//! One provider entry: its type, its keys, its variables.

use super::*;

#[test]
fn a_short_name_is_looked_up_in_the_release() {
    for (schema, api, name, provider_type) in [
        (V0_7, "inference", "vllm", "remote::vllm"),
        (V0_7, "safety", "llama-guard", "inline::llama-guard"),
        (V0_7, "vector_io", "faiss", "inline::faiss"),
        (V0_7, "tool_runtime", "file-search", "inline::file-search"),
        (V0_5, "tool_runtime", "rag-runtime", "inline::rag-runtime"),
        (V0_2_13, "inference", "hf::endpoint", "remote::hf::endpoint"),
        (V0_7, "inference", "remote::vllm", "remote::vllm"),
        (V0_7, "agents", "builtin", "inline::builtin"),
        (V0_7, "vectorIo", "faiss", "inline::faiss"),
    ] {
        let report = expand(schema, api, json!({"provider": name}));
        assert_eq!(
            report.output["type"], provider_type,
            "{schema} {name}: {:?}",
            report.diagnostics
        );
    }
}

#[test]
fn a_name_of_both_sorts_is_remote_with_an_endpoint_and_a_question_without() {
    for name in ["milvus", "chromadb", "qdrant"] {
        let report = expand(
            V0_7,
            "vector_io",
            json!({"provider": name, "endpoint": "http://db:19530"}),
        );
        assert_eq!(report.output["type"], format!("remote::{name}"));
        let report = expand(V0_7, "vector_io", json!({"provider": name}));
        assert_eq!(report.errors(), ["ambiguous-provider p.provider"]);
        assert_eq!(
            report.diagnostics[0].fix,
            format!("set endpoint for remote::{name}, or write inline::{name}")
        );
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let report = expand(V0_7, "inference", json!({"provider": "vlm"}));
    assert_eq!(report.errors(), ["unknown-provider p.provider"]);
    assert!(
        report.diagnostics[0].fix.starts_with("did you mean vllm?"),
        "{}",
        report.diagnostics[0].fix
    );
    let report = expand(V0_7, "inference", json!({"provider": "remote::mine"}));
    assert_eq!(report.codes(), ["unknown-provider p.provider"]);
    assert_eq!(report.output["type"], "remote::mine");
}

#[test]
fn an_endpoint_lands_in_the_key_that_the_provider_reads() {
    for (schema, api, name, endpoint, key, value) in [
        (
            V0_1_3,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "url",
            json!("http://v:8000/v1"),
        ),
        (
            V0_3,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "url",
            json!("http://v:8000/v1"),
        ),
        (
            V0_4,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "base_url",
            json!("http://v:8000/v1"),
        ),
        (
            OGX_1_0,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "base_url",
            json!("http://v:8000/v1"),
        ),
        (
            V0_3,
            "inference",
            "azure",
            "https://a.example",
            "api_base",
            json!("https://a.example"),
        ),
        (
            V0_7,
            "safety",
            "sambanova",
            "https://s/v1",
            "url",
            json!("https://s/v1"),
        ),
        (
            V0_7,
            "safety",
            "passthrough",
            "https://s",
            "base_url",
            json!("https://s"),
        ),
        (
            V0_7,
            "vector_io",
            "weaviate",
            "weaviate:8080",
            "weaviate_cluster_url",
            json!("weaviate:8080"),
        ),
        (
            V0_7,
            "vector_io",
            "pgvector",
            "postgresql://pg:5433/vectors",
            "host",
            json!("pg"),
        ),
        (
            V0_7,
            "vector_io",
            "pgvector",
            "postgresql://pg:5433/vectors",
            "port",
            json!(5433),
        ),
        (
            V0_7,
            "vector_io",
            "pgvector",
            "postgresql://pg:5433/vectors",
            "db",
            json!("vectors"),
        ),
        (V0_7, "vector_io", "pgvector", "pg", "host", json!("pg")),
        (
            V0_7,
            "files",
            "s3",
            "http://minio:9000",
            "endpoint_url",
            json!("http://minio:9000"),
        ),
        (
            V0_7,
            "inference",
            "vllm",
            "${env.MY_VLLM}",
            "base_url",
            json!("${env.MY_VLLM}"),
        ),
    ] {
        let report = expand(schema, api, json!({"provider": name, "endpoint": endpoint}));
        assert_eq!(
            report.output["config"][key], value,
            "{schema} {name} {:?}",
            report.diagnostics
        );
    }
}

#[test]
fn v1_is_added_or_taken_off_as_the_release_needs_it() {
    for (schema, name, written, key, value) in [
        (V0_1_3, "vllm", "http://v:8000", "url", "http://v:8000/v1"),
        (
            V0_7,
            "vllm",
            "http://v:8000/",
            "base_url",
            "http://v:8000/v1",
        ),
        (V0_3, "ollama", "http://o:11434/v1", "url", "http://o:11434"),
        (
            V0_4,
            "ollama",
            "http://o:11434",
            "base_url",
            "http://o:11434/v1",
        ),
        (V0_2_13, "tgi", "http://t:80/v1/", "url", "http://t:80"),
        (
            V0_7,
            "openai",
            "https://gateway",
            "base_url",
            "https://gateway/v1",
        ),
    ] {
        let report = expand(
            schema,
            "inference",
            json!({"provider": name, "endpoint": written}),
        );
        assert_eq!(report.output["config"][key], value, "{schema} {name}");
        assert_eq!(report.codes(), ["endpoint-path p.endpoint"]);
    }
    let report = expand(
        V0_7,
        "inference",
        json!({"provider": "vllm", "endpoint": "http://v:8000/proxy/v1"}),
    );
    assert_eq!(report.codes(), [""; 0]);
}

#[test]
fn an_endpoint_that_cannot_work_is_refused() {
    for (schema, name, endpoint, code) in [
        (V0_7, "anthropic", "http://a", "no-endpoint-field"),
        (
            V0_7,
            "sentence-transformers",
            "http://a",
            "no-endpoint-field",
        ),
        (V0_4, "vllm", "vllm:8000", "no-scheme"),
        (
            V0_7,
            "vllm",
            "http://user:secret@vllm",
            "secret-in-endpoint",
        ),
        (V0_7, "vllm", "http://", "bad-endpoint"),
        (V0_7, "vllm", "http://a b", "bad-endpoint"),
    ] {
        let report = expand(
            schema,
            "inference",
            json!({"provider": name, "endpoint": endpoint}),
        );
        assert_eq!(
            report.errors(),
            [format!("{code} p.endpoint")],
            "{name} {endpoint}"
        );
        assert!(
            report
                .diagnostics
                .iter()
                .all(|diagnostic| !diagnostic.problem.contains("secret@")),
            "{:?}",
            report.diagnostics
        );
    }
}

#[test]
fn a_key_lands_where_the_provider_reads_it() {
    for (schema, api, name, key) in [
        (V0_7, "inference", "vllm", "api_token"),
        (V0_7, "inference", "openai", "api_key"),
        (V0_2_13, "inference", "databricks", "api_token"),
        (V0_7, "vector_io", "weaviate", "weaviate_api_key"),
        (V0_7, "vector_io", "elasticsearch", "elasticsearch_api_key"),
        (V0_7, "vector_io", "pgvector", "password"),
        (OGX_1_0, "inference", "bedrock", "aws_bedrock_bearer_token"),
        (V0_7, "inference", "bedrock", "api_key"),
    ] {
        let report = expand(
            schema,
            api,
            json!({"provider": name, "references": {"apiKey": "LLSD_X_API_KEY"}}),
        );
        assert_eq!(
            report.output["config"][key], "${env.LLSD_X_API_KEY}",
            "{schema} {name}"
        );
        let wanted = &report.output["wants"][0];
        assert_eq!(
            (&wanted["env"], &wanted["reference"]),
            (&json!("LLSD_X_API_KEY"), &json!("LLSD_X_API_KEY"))
        );
    }
    let report = expand(
        V0_7,
        "inference",
        json!({"provider": "ollama", "references": {"apiKey": "K"}}),
    );
    assert_eq!(report.errors(), ["no-credential-field p.apiKey"]);
}

#[test]
fn a_variable_says_how_the_server_reads_it() {
    let wants = |schema| {
        let references = json!({"host": "H", "secretRefs.port": "P", "secretRefs.password": "W"});
        let report = expand(
            schema,
            "vector_io",
            json!({"provider": "remote::pgvector", "references": references}),
        );
        report.output["wants"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v["readAs"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        wants(V0_1_3),
        ["text", "text", "text"],
        "this release converts nothing"
    );
    assert_eq!(wants(V0_7), ["convertedText", "convertedText", "number"]);
}

#[test]
fn host_goes_to_providers_that_have_one() {
    let report = expand(
        V0_7,
        "vector_io",
        json!({"provider": "pgvector", "host": "pg.default.svc"}),
    );
    assert_eq!(report.output["config"]["host"], "pg.default.svc");
    let report = expand(
        V0_7,
        "vector_io",
        json!({"provider": "pgvector", "references": {"host": "PG"}}),
    );
    assert_eq!(report.output["config"]["host"], "${env.PG}");
    let report = expand(V0_7, "inference", json!({"provider": "vllm", "host": "v"}));
    assert_eq!(report.errors(), ["no-host-field p.host"]);
}

#[test]
fn settings_have_the_last_word_and_unknown_ones_are_named() {
    let report = expand(
        V0_7,
        "inference",
        json!({
            "provider": "vllm", "endpoint": "http://v/v1",
            "settings": {"max_tokens": 1, "maxTokens": 2, "base_url": "http://w/v1", "tls_verify": false},
        }),
    );
    assert_eq!(
        report.output["config"],
        json!({"max_tokens": 1, "maxTokens": 2, "base_url": "http://w/v1", "tls_verify": false})
    );
    assert_eq!(
        report.codes(),
        [
            "set-twice p.settings.base_url",
            "unknown-setting p.settings.maxTokens",
            "deprecated-setting p.settings.tls_verify"
        ]
    );
    let report = expand(
        V0_7,
        "safety",
        json!({"provider": "passthrough", "endpoint": "http://s", "settings": {"x": 1}}),
    );
    assert_eq!(
        report.errors(),
        ["unknown-setting p.settings.x"],
        "this one refuses what it does not know"
    );
    let report = expand(
        V0_7,
        "vector_io",
        json!({"provider": "milvus", "endpoint": "http://m", "settings": {"x": 1}}),
    );
    assert_eq!(
        report.codes(),
        [""; 0],
        "this one keeps what it does not know"
    );
}

#[test]
fn telemetry_is_what_the_release_makes_of_it() {
    assert_eq!(
        expand(V0_2_13, "telemetry", json!({"provider": "meta-reference"})).output["type"],
        "inline::meta-reference"
    );
    let report = expand(
        V0_3,
        "telemetry",
        json!({"provider": "meta-reference", "endpoint": "http://otel:4318"}),
    );
    assert_eq!(
        report.output["wants"][0]["env"],
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    );
    for schema in [V0_4, V0_5, V0_7, OGX_0_8, OGX_1_0] {
        let report = expand(schema, "telemetry", json!({"provider": "meta-reference"}));
        assert_eq!(report.errors(), ["no-such-api p"]);
        assert!(report.diagnostics[0].fix.contains("spec.telemetry"));
    }
}

#[test]
fn an_api_that_the_release_lacks_is_refused() {
    assert_eq!(
        expand(OGX_1_0, "safety", json!({"provider": "llama-guard"})).errors(),
        ["no-such-api p"]
    );
    assert_eq!(
        expand(V0_7, "post_training", json!({"provider": "torchtune"})).errors(),
        ["no-such-api p"]
    );
}

#[test]
fn while_the_release_is_unknown_a_provider_of_some_releases_is_taken_with_a_warning() {
    let report = expand_for(
        V0_5,
        Value::Null,
        "inference",
        json!({"provider": "llama-cpp-server", "endpoint": "http://l/v1"}),
    );
    assert_eq!(report.codes(), ["version-dependent p.provider"]);
    let report = expand_for(
        V0_5,
        json!("0.5.4"),
        "inference",
        json!({"provider": "llama-cpp-server", "endpoint": "http://l/v1"}),
    );
    assert_eq!(report.errors(), ["unknown-provider p.provider"]);
    let report = expand_for(
        V0_5,
        json!("0.6.0"),
        "inference",
        json!({"provider": "llama-cpp-server", "endpoint": "http://l/v1"}),
    );
    assert_eq!(report.codes(), [""; 0]);
}

#[test]
fn a_schema_that_is_not_served_is_refused() {
    assert_eq!(
        expand_for(
            "llama-stack/9",
            Value::Null,
            "inference",
            json!({"provider": "vllm"})
        )
        .errors(),
        ["unsupported-schema p"]
    );
}
