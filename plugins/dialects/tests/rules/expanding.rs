//! One provider entry: its type, its keys, its variables.

use super::*;

#[test]
fn a_short_name_is_looked_up_in_the_release() {
    for (schema, api, name, provider_type) in [
        (F, "inference", "vllm", "remote::vllm"),
        (F, "safety", "llama-guard", "inline::llama-guard"),
        (F, "vector_io", "faiss", "inline::faiss"),
        (F, "tool_runtime", "file-search", "inline::file-search"),
        (E, "tool_runtime", "rag-runtime", "inline::rag-runtime"),
        (B, "inference", "hf::endpoint", "remote::hf::endpoint"),
        (F, "inference", "remote::vllm", "remote::vllm"),
        (F, "agents", "builtin", "inline::builtin"),
        (F, "vectorIo", "faiss", "inline::faiss"),
    ] {
        let told = expand(schema, api, json!({"provider": name}));
        assert_eq!(
            told.output["type"], provider_type,
            "{schema} {name}: {:?}",
            told.notes
        );
    }
}

#[test]
fn a_name_of_both_sorts_is_remote_with_an_endpoint_and_a_question_without() {
    for name in ["milvus", "chromadb", "qdrant"] {
        let told = expand(
            F,
            "vector_io",
            json!({"provider": name, "endpoint": "http://db:19530"}),
        );
        assert_eq!(told.output["type"], format!("remote::{name}"));
        let told = expand(F, "vector_io", json!({"provider": name}));
        assert_eq!(told.errors(), ["ambiguous-provider p.provider"]);
        assert_eq!(
            told.notes[0].fix,
            format!("set endpoint for remote::{name}, or write inline::{name}")
        );
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let told = expand(F, "inference", json!({"provider": "vlm"}));
    assert_eq!(told.errors(), ["unknown-provider p.provider"]);
    assert!(
        told.notes[0].fix.starts_with("did you mean vllm?"),
        "{}",
        told.notes[0].fix
    );
    let told = expand(F, "inference", json!({"provider": "remote::mine"}));
    assert_eq!(told.codes(), ["unknown-provider p.provider"]);
    assert_eq!(told.output["type"], "remote::mine");
}

#[test]
fn an_endpoint_lands_in_the_key_that_the_provider_reads() {
    for (schema, api, name, endpoint, key, value) in [
        (
            A,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "url",
            json!("http://v:8000/v1"),
        ),
        (
            C,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "url",
            json!("http://v:8000/v1"),
        ),
        (
            D,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "base_url",
            json!("http://v:8000/v1"),
        ),
        (
            H,
            "inference",
            "vllm",
            "http://v:8000/v1",
            "base_url",
            json!("http://v:8000/v1"),
        ),
        (
            C,
            "inference",
            "azure",
            "https://a.example",
            "api_base",
            json!("https://a.example"),
        ),
        (
            F,
            "safety",
            "sambanova",
            "https://s/v1",
            "url",
            json!("https://s/v1"),
        ),
        (
            F,
            "safety",
            "passthrough",
            "https://s",
            "base_url",
            json!("https://s"),
        ),
        (
            F,
            "vector_io",
            "weaviate",
            "weaviate:8080",
            "weaviate_cluster_url",
            json!("weaviate:8080"),
        ),
        (
            F,
            "vector_io",
            "pgvector",
            "postgresql://pg:5433/vectors",
            "host",
            json!("pg"),
        ),
        (
            F,
            "vector_io",
            "pgvector",
            "postgresql://pg:5433/vectors",
            "port",
            json!(5433),
        ),
        (
            F,
            "vector_io",
            "pgvector",
            "postgresql://pg:5433/vectors",
            "db",
            json!("vectors"),
        ),
        (F, "vector_io", "pgvector", "pg", "host", json!("pg")),
        (
            F,
            "files",
            "s3",
            "http://minio:9000",
            "endpoint_url",
            json!("http://minio:9000"),
        ),
        (
            F,
            "inference",
            "vllm",
            "${env.MY_VLLM}",
            "base_url",
            json!("${env.MY_VLLM}"),
        ),
    ] {
        let told = expand(schema, api, json!({"provider": name, "endpoint": endpoint}));
        assert_eq!(
            told.output["config"][key], value,
            "{schema} {name} {:?}",
            told.notes
        );
    }
}

#[test]
fn v1_is_added_or_taken_off_as_the_release_needs_it() {
    for (schema, name, written, key, value) in [
        (A, "vllm", "http://v:8000", "url", "http://v:8000/v1"),
        (F, "vllm", "http://v:8000/", "base_url", "http://v:8000/v1"),
        (C, "ollama", "http://o:11434/v1", "url", "http://o:11434"),
        (
            D,
            "ollama",
            "http://o:11434",
            "base_url",
            "http://o:11434/v1",
        ),
        (B, "tgi", "http://t:80/v1/", "url", "http://t:80"),
        (
            F,
            "openai",
            "https://gateway",
            "base_url",
            "https://gateway/v1",
        ),
    ] {
        let told = expand(
            schema,
            "inference",
            json!({"provider": name, "endpoint": written}),
        );
        assert_eq!(told.output["config"][key], value, "{schema} {name}");
        assert_eq!(told.codes(), ["endpoint-path p.endpoint"]);
    }
    let told = expand(
        F,
        "inference",
        json!({"provider": "vllm", "endpoint": "http://v:8000/proxy/v1"}),
    );
    assert_eq!(told.codes(), [""; 0]);
}

#[test]
fn an_endpoint_that_cannot_work_is_refused() {
    for (schema, name, endpoint, code) in [
        (F, "anthropic", "http://a", "no-endpoint-field"),
        (F, "sentence-transformers", "http://a", "no-endpoint-field"),
        (D, "vllm", "vllm:8000", "no-scheme"),
        (F, "vllm", "http://user:secret@vllm", "secret-in-endpoint"),
        (F, "vllm", "http://", "bad-endpoint"),
        (F, "vllm", "http://a b", "bad-endpoint"),
    ] {
        let told = expand(
            schema,
            "inference",
            json!({"provider": name, "endpoint": endpoint}),
        );
        assert_eq!(
            told.errors(),
            [format!("{code} p.endpoint")],
            "{name} {endpoint}"
        );
        assert!(
            told.notes
                .iter()
                .all(|note| !note.problem.contains("secret@")),
            "{:?}",
            told.notes
        );
    }
}

#[test]
fn a_key_lands_where_the_provider_reads_it() {
    for (schema, api, name, key) in [
        (F, "inference", "vllm", "api_token"),
        (F, "inference", "openai", "api_key"),
        (B, "inference", "databricks", "api_token"),
        (F, "vector_io", "weaviate", "weaviate_api_key"),
        (F, "vector_io", "elasticsearch", "elasticsearch_api_key"),
        (F, "vector_io", "pgvector", "password"),
        (H, "inference", "bedrock", "aws_bedrock_bearer_token"),
        (F, "inference", "bedrock", "api_key"),
    ] {
        let told = expand(
            schema,
            api,
            json!({"provider": name, "references": {"apiKey": "LLSD_X_API_KEY"}}),
        );
        assert_eq!(
            told.output["config"][key], "${env.LLSD_X_API_KEY}",
            "{schema} {name}"
        );
        let wanted = &told.output["wants"][0];
        assert_eq!(
            (&wanted["env"], &wanted["reference"]),
            (&json!("LLSD_X_API_KEY"), &json!("LLSD_X_API_KEY"))
        );
    }
    let told = expand(
        F,
        "inference",
        json!({"provider": "ollama", "references": {"apiKey": "K"}}),
    );
    assert_eq!(told.errors(), ["no-credential-field p.apiKey"]);
}

#[test]
fn a_variable_says_how_the_server_reads_it() {
    let wants = |schema| {
        let references = json!({"host": "H", "secretRefs.port": "P", "secretRefs.password": "W"});
        let told = expand(
            schema,
            "vector_io",
            json!({"provider": "remote::pgvector", "references": references}),
        );
        told.output["wants"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v["readAs"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        wants(A),
        ["text", "text", "text"],
        "this release converts nothing"
    );
    assert_eq!(wants(F), ["convertedText", "convertedText", "number"]);
}

#[test]
fn host_goes_to_providers_that_have_one() {
    let told = expand(
        F,
        "vector_io",
        json!({"provider": "pgvector", "host": "pg.default.svc"}),
    );
    assert_eq!(told.output["config"]["host"], "pg.default.svc");
    let told = expand(
        F,
        "vector_io",
        json!({"provider": "pgvector", "references": {"host": "PG"}}),
    );
    assert_eq!(told.output["config"]["host"], "${env.PG}");
    let told = expand(F, "inference", json!({"provider": "vllm", "host": "v"}));
    assert_eq!(told.errors(), ["no-host-field p.host"]);
}

#[test]
fn settings_have_the_last_word_and_unknown_ones_are_named() {
    let told = expand(
        F,
        "inference",
        json!({
            "provider": "vllm", "endpoint": "http://v/v1",
            "settings": {"max_tokens": 1, "maxTokens": 2, "base_url": "http://w/v1", "tls_verify": false},
        }),
    );
    assert_eq!(
        told.output["config"],
        json!({"max_tokens": 1, "maxTokens": 2, "base_url": "http://w/v1", "tls_verify": false})
    );
    assert_eq!(
        told.codes(),
        [
            "set-twice p.settings.base_url",
            "unknown-setting p.settings.maxTokens",
            "deprecated-setting p.settings.tls_verify"
        ]
    );
    let told = expand(
        F,
        "safety",
        json!({"provider": "passthrough", "endpoint": "http://s", "settings": {"x": 1}}),
    );
    assert_eq!(
        told.errors(),
        ["unknown-setting p.settings.x"],
        "this one refuses what it does not know"
    );
    let told = expand(
        F,
        "vector_io",
        json!({"provider": "milvus", "endpoint": "http://m", "settings": {"x": 1}}),
    );
    assert_eq!(
        told.codes(),
        [""; 0],
        "this one keeps what it does not know"
    );
}

#[test]
fn telemetry_is_what_the_release_makes_of_it() {
    assert_eq!(
        expand(B, "telemetry", json!({"provider": "meta-reference"})).output["type"],
        "inline::meta-reference"
    );
    let told = expand(
        C,
        "telemetry",
        json!({"provider": "meta-reference", "endpoint": "http://otel:4318"}),
    );
    assert_eq!(
        told.output["wants"][0]["env"],
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    );
    for schema in [D, E, F, G, H] {
        let told = expand(schema, "telemetry", json!({"provider": "meta-reference"}));
        assert_eq!(told.errors(), ["no-such-api p"]);
        assert!(told.notes[0].fix.contains("OTEL_EXPORTER_OTLP_ENDPOINT"));
    }
}

#[test]
fn an_api_that_the_release_lacks_is_refused() {
    assert_eq!(
        expand(H, "safety", json!({"provider": "llama-guard"})).errors(),
        ["no-such-api p"]
    );
    assert_eq!(
        expand(F, "post_training", json!({"provider": "torchtune"})).errors(),
        ["no-such-api p"]
    );
}

#[test]
fn while_the_release_is_unknown_a_provider_of_some_releases_is_taken_with_a_warning() {
    let told = expand_for(
        E,
        Value::Null,
        "inference",
        json!({"provider": "llama-cpp-server", "endpoint": "http://l/v1"}),
    );
    assert_eq!(told.codes(), ["version-dependent p.provider"]);
    let told = expand_for(
        E,
        json!("0.5.4"),
        "inference",
        json!({"provider": "llama-cpp-server", "endpoint": "http://l/v1"}),
    );
    assert_eq!(told.errors(), ["unknown-provider p.provider"]);
    let told = expand_for(
        E,
        json!("0.6.0"),
        "inference",
        json!({"provider": "llama-cpp-server", "endpoint": "http://l/v1"}),
    );
    assert_eq!(told.codes(), [""; 0]);
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
