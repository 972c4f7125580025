//! Providers over the base: overlaid, completed, left out, replaced.

use super::*;

#[test]
fn a_provider_replaces_the_one_with_its_id_inside_a_condition_and_the_rest_survives() {
    for schema in SCHEMAS {
        let base = golden(schema, "minimal")["base"].clone();
        let report = assemble(request(
            schema,
            json!({"providers": {"inference": [vllm(schema)]}}),
        ));
        let before = base["providers"]["inference"].as_array().unwrap();
        let after = report.config()["providers"]["inference"]
            .as_array()
            .unwrap();
        assert_eq!(before.len(), after.len(), "{schema}");
        let ours = report.provider("inference", "vllm");
        assert_eq!(ours["provider_id"], "vllm");
        assert!(
            ours["config"]["api_token"].is_string(),
            "what the base sets and the user does not stays: {ours}"
        );
        for key in base
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| !["providers", "server"].contains(&key.as_str()))
        {
            assert_eq!(report.config()[key], base[key], "{schema} {key}");
        }
        for (api, list) in base["providers"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(api, _)| *api != "inference")
        {
            assert_eq!(&report.config()["providers"][api], list, "{schema} {api}");
        }
    }
}

#[test]
fn a_new_provider_comes_last_and_its_api_is_served() {
    let faiss = placed("mine", "inline::sqlite-vec", json!({}));
    let mut request = request(V0_7, json!({"providers": {"vector_io": [faiss]}}));
    request["base"]["apis"]
        .as_array_mut()
        .unwrap()
        .retain(|api| api != "vector_io");
    let report = assemble(request);
    assert_eq!(report.ids("vector_io"), ["faiss", "mine"]);
    assert!(
        report.config()["apis"]
            .as_array()
            .unwrap()
            .contains(&json!("vector_io"))
    );
}

#[test]
fn a_provider_of_another_type_keeps_nothing_of_the_base() {
    let mine = placed("faiss", "inline::sqlite-vec", json!({"db_path": "/x.db"}));
    let report = assemble(request(V0_7, json!({"providers": {"vector_io": [mine]}})));
    assert_eq!(report.codes(), ["replaced-provider p"]);
    assert_eq!(
        report.provider("vector_io", "faiss")["config"]["db_path"],
        "/x.db"
    );
}

#[test]
fn stores_and_paths_are_filled_in_in_the_shape_of_the_dialect() {
    for (schema, provider_type, key, value) in [
        (
            V0_7,
            "inline::faiss",
            "persistence",
            json!({"namespace": "vector_io::mine", "backend": "kv_default"}),
        ),
        (
            V0_7,
            "remote::pgvector",
            "persistence",
            json!({"namespace": "vector_io::mine", "backend": "kv_default"}),
        ),
        (
            V0_3,
            "inline::sqlite-vec",
            "db_path",
            json!("/.llama/mine.db"),
        ),
        (V0_7, "inline::qdrant", "path", json!("/.llama/mine")),
        (
            V0_2_13,
            "inline::faiss",
            "kvstore",
            json!({"type": "sqlite", "db_path": "${env.SQLITE_STORE_DIR:=~/.llama/distributions/acme}/mine_kvstore.db"}),
        ),
        (
            V0_1_3,
            "inline::faiss",
            "kvstore",
            json!({"type": "sqlite", "db_path": "${env.SQLITE_STORE_DIR:~/.llama/distributions/acme}/mine_kvstore.db"}),
        ),
    ] {
        let report = assemble(request(
            schema,
            json!({"providers": {"vector_io": [placed("mine", provider_type, json!({}))]}}),
        ));
        assert_eq!(
            report.provider("vector_io", "mine")["config"][key],
            value,
            "{schema} {provider_type}"
        );
    }
    let report = assemble(request(
        OGX_1_0,
        json!({"providers": {"responses": [placed("mine", "inline::builtin", json!({}))]}}),
    ));
    let persistence = &report.provider("responses", "mine")["config"]["persistence"];
    assert_eq!(
        persistence,
        &json!({"responses": {"table_name": "mine_responses", "backend": "sql_default"}})
    );
}

#[test]
fn what_must_be_there_and_is_not_is_an_error_at_the_field_that_takes_it() {
    for (api, provider_type, error) in [
        (
            "inference",
            "remote::vertexai",
            "missing-setting p.settings.project",
        ),
        (
            "vector_io",
            "remote::chromadb",
            "missing-setting p.endpoint",
        ),
        (
            "files",
            "remote::s3",
            "missing-setting p.settings.bucket_name",
        ),
        ("files", "remote::openai", "missing-setting p.apiKey"),
        ("inference", "remote::vllm", "missing-setting p.endpoint"),
    ] {
        let report = assemble(request(
            V0_7,
            json!({"providers": {api: [placed("mine", provider_type, json!({}))]}}),
        ));
        assert_eq!(report.errors(), [error], "{provider_type}");
    }
    let milvus = placed("mine", "remote::milvus", json!({"uri": "http://m"}));
    let report = assemble(request(V0_7, json!({"providers": {"vector_io": [milvus]}})));
    assert_eq!(
        report.provider("vector_io", "mine")["config"]["token"],
        Value::Null,
        "must be there, may be null"
    );
}

#[test]
fn a_required_key_that_the_base_leaves_to_an_unset_variable_is_a_warning() {
    let report = assemble(request(
        V0_7,
        json!({"providers": {"inference": [placed("vllm", "remote::vllm", json!({}))]}}),
    ));
    assert_eq!(report.codes(), ["missing-setting p.endpoint"]);
    assert!(report.errors().is_empty());
}

#[test]
fn half_a_database_connection_is_named() {
    let pgvector = placed("pg", "remote::pgvector", json!({"host": "pg", "db": "d"}));
    let report = assemble(request(
        V0_7,
        json!({"providers": {"vector_io": [pgvector]}}),
    ));
    assert_eq!(report.codes(), ["incomplete-connection p"]);
    assert!(
        report.diagnostics[0].problem.ends_with("user, password"),
        "{}",
        report.diagnostics[0].problem
    );
}

#[test]
fn resources_of_the_base_that_relied_on_one_provider_are_pinned_to_it() {
    let mut request = request(
        V0_2_13,
        json!({"providers": {"safety": [placed("mine", "inline::code-scanner", json!({}))]}}),
    );
    request["base"]["shields"] = json!([{"shield_id": "old"}]);
    let report = assemble(request);
    assert_eq!(report.config()["shields"][0]["provider_id"], "llama-guard");
}

#[test]
fn an_external_provider_wins_over_the_same_id_with_a_warning() {
    let external = json!({"path": "e", "api": "inference", "id": "vllm", "type": "remote::mine", "module": "mine", "config": {"a": 1}});
    let report = assemble(request(
        V0_7,
        json!({"providers": {"inference": [vllm(V0_7)]}, "external": [external]}),
    ));
    assert_eq!(report.codes(), ["external-wins e"]);
    let expected = json!({"provider_id": "vllm", "provider_type": "remote::mine", "module": "mine", "config": {"a": 1}});
    assert_eq!(report.provider("inference", "vllm"), &expected);
}

#[test]
fn a_module_needs_a_release_that_loads_one() {
    let external = json!({"path": "e", "api": "inference", "id": "m", "type": "remote::mine", "module": "mine"});
    assert_eq!(
        assemble(request(V0_1_3, json!({"external": [external]}))).errors(),
        ["no-module e"]
    );
    let old = json!({"external": [external], "serverVersion": "0.2.15"});
    assert_eq!(assemble(request(V0_2_13, old)).errors(), ["no-module e"]);
    assert!(
        assemble(request(V0_2_13, json!({"external": [external]})))
            .errors()
            .is_empty()
    );
}

fn disabled(names: &[&str]) -> Value {
    names
        .iter()
        .enumerate()
        .map(|(place, name)| json!({"path": format!("d[{place}]"), "name": name}))
        .collect()
}

#[test]
fn a_disabled_api_leaves_apis_providers_resources_and_defaults() {
    let mut request = request(V0_7, json!({"disabled": disabled(&["safety"])}));
    request["base"]["registered_resources"]["shields"] =
        json!([{"shield_id": "s", "provider_id": "llama-guard"}]);
    let report = assemble(request);
    assert_eq!(report.codes(), ["dropped-default d[0]"]);
    assert!(
        !report.config()["apis"]
            .as_array()
            .unwrap()
            .contains(&json!("safety"))
    );
    assert_eq!(report.config()["providers"].get("safety"), None);
    assert_eq!(
        report.config()["registered_resources"]["shields"],
        json!([])
    );
    assert_eq!(report.config().get("safety"), None);
}

/// Defect D3: a server that lists a routing API does not start without the API behind it.
#[test]
fn a_disabled_api_takes_its_routing_apis_out_of_apis() {
    let cases = [
        ("datasetIo", "datasetio", "datasets"),
        ("eval", "eval", "benchmarks"),
        ("scoring", "scoring", "scoring_functions"),
    ];
    for schema in [V0_2_13, V0_3, V0_4, V0_5] {
        for (name, api, routing) in cases {
            let mut request = request(schema, json!({"disabled": disabled(&[name])}));
            let listed = request["base"]["apis"].as_array_mut().unwrap();
            listed.extend([json!(api), json!(routing), json!("models")]);
            let report = assemble(request);
            let apis = report.config()["apis"].as_array().unwrap();
            assert!(!apis.contains(&json!(api)), "{schema}: {apis:?}");
            assert!(!apis.contains(&json!(routing)), "{schema}: {apis:?}");
            assert!(apis.contains(&json!("models")), "{schema}: {apis:?}");
        }
    }
}

#[test]
fn a_disabled_api_that_something_needs_is_refused_and_the_users_are_named() {
    for (schema, name, users, also) in [
        (
            V0_7,
            "files",
            "responses/builtin, toolRuntime/file-search",
            "responses, toolRuntime/file-search",
        ),
        (V0_3, "safety", "agents/meta-reference", "agents"),
        (
            V0_5,
            "vectorIo",
            "agents/meta-reference, toolRuntime/rag-runtime",
            "agents, toolRuntime/rag-runtime",
        ),
    ] {
        let report = assemble(request(schema, json!({"disabled": disabled(&[name])})));
        assert_eq!(report.errors(), ["needed-api d[0]"], "{schema} {name}");
        let diagnostic = report
            .diagnostics
            .iter()
            .find(|diagnostic| diagnostic.code == "needed-api")
            .unwrap();
        assert!(
            diagnostic.problem.ends_with(users),
            "{}",
            diagnostic.problem
        );
        assert_eq!(diagnostic.fix, format!("keep it, or also disable: {also}"));
    }
    assert!(
        assemble(request(V0_4, json!({"disabled": disabled(&["safety"])})))
            .errors()
            .is_empty(),
        "agents need it no more"
    );
}

#[test]
fn one_provider_can_be_disabled_and_what_names_it_goes_too() {
    let mut request = request(
        V0_7,
        json!({"disabled": disabled(&["inference/sentence-transformers", "inference/ollama"])}),
    );
    request["base"]["registered_resources"]["models"] =
        json!([{"model_id": "m", "provider_id": "sentence-transformers"}]);
    let report = assemble(request);
    assert_eq!(report.ids("inference"), ["${env.VLLM_URL:+vllm}"]);
    assert_eq!(report.config()["registered_resources"]["models"], json!([]));
    assert_eq!(
        report.config()["vector_stores"].get("default_embedding_model"),
        None
    );
    assert_eq!(report.codes(), ["dropped-default d[0]"]);
}

#[test]
fn names_that_the_release_does_not_have_are_warnings() {
    let report = assemble(request(
        V0_7,
        json!({"disabled": disabled(&["postTraining", "inference/nobody", "telemetry", "evall"])}),
    ));
    assert!(report.errors().is_empty());
    assert_eq!(
        report.codes(),
        [
            "no-such-api d[0]",
            "no-such-provider d[1]",
            "no-such-api d[2]",
            "no-such-api d[3]"
        ]
    );
}

#[test]
fn disabled_wins_over_a_provider_of_that_api() {
    let change = json!({"providers": {"safety": [placed("x", "inline::llama-guard", json!({}))]}, "disabled": disabled(&["safety"])});
    let report = assemble(request(V0_7, change));
    assert!(report.codes().contains(&"disabled-wins p".to_owned()));
    assert_eq!(report.config()["providers"].get("safety"), None);
}

#[test]
fn telemetry_is_switched_where_it_is_a_switch() {
    assert_eq!(
        assemble(request(V0_3, json!({"disabled": disabled(&["telemetry"])}))).config()["telemetry"]
            ["enabled"],
        false
    );
    let mut on = request(
        V0_3,
        json!({"providers": {"telemetry": [placed("t", "inline::meta-reference", json!({}))]}}),
    );
    on["base"]["telemetry"]["enabled"] = json!(false);
    assert_eq!(assemble(on).config()["telemetry"]["enabled"], true);
    assert!(
        !assemble(request(
            V0_2_13,
            json!({"disabled": disabled(&["telemetry"])})
        ))
        .config()["apis"]
            .as_array()
            .unwrap()
            .contains(&json!("telemetry"))
    );
}

#[test]
fn when_the_base_serves_every_api_a_disabled_one_makes_it_choose() {
    let mut request = request(V0_7, json!({"disabled": disabled(&["safety"])}));
    request["base"].as_object_mut().unwrap().remove("apis");
    let report = assemble(request);
    assert_eq!(
        report.config()["apis"],
        json!([
            "files",
            "inference",
            "responses",
            "tool_runtime",
            "vector_io"
        ])
    );
}

#[test]
fn problems_of_the_base_are_the_bases() {
    let mut request = request(V0_7, json!({"providers": {"inference": [vllm(V0_7)]}}));
    let base = &mut request["base"];
    base["apis"]
        .as_array_mut()
        .unwrap()
        .retain(|api| api != "files");
    base["providers"].as_object_mut().unwrap().remove("files");
    let twice = base["providers"]["vector_io"][0].clone();
    base["providers"]["vector_io"]
        .as_array_mut()
        .unwrap()
        .push(twice);
    base["registered_resources"]["models"] = json!([{"model_id": "m", "provider_id": "gone"}]);
    base["vector_stores"]["default_embedding_model"]["provider_id"] = json!("gone");
    let report = assemble(request);
    assert_eq!(
        report.codes(),
        [
            "base-dangling-default ",
            "base-dangling-resource ",
            "base-duplicate-provider ",
            "base-missing-api "
        ]
    );
    assert_eq!(
        report.config()["vector_stores"]["default_embedding_model"]["provider_id"],
        "gone",
        "left as it is"
    );
}
