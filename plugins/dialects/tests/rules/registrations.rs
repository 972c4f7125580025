//! Vector stores, datasets, scoring functions and benchmarks, and defaults.

use super::*;

/// The dialects that have the APIs of evaluation.
const WITH_EVALUATION: [&str; 6] = [V0_1_3, V0_2_13, V0_3, V0_4, V0_5, V0_7];

fn registration(kind: &str, name: &str, settings: Value) -> Value {
    json!({"path": format!("spec.resources.{kind}[0]"), "kind": kind, "name": name, "settings": settings})
}

fn with_resources(schema: &str, resources: Value) -> Value {
    let model = json!({"path": "m", "name": "nomic", "embeddingDimension": 8});
    let mut request = golden(schema, "full");
    request["resources"] = resources;
    request["resources"]["models"] = json!([model]);
    request["disabled"] = json!([]);
    request
}

/// The list of a kind of resource in the file.
fn listed(report: &Report, kind: &str) -> Value {
    let config = report.config();
    let home = config.get("registered_resources").unwrap_or(config);
    home[kind].as_array().unwrap().last().unwrap().clone()
}

#[test]
fn a_vector_store_is_registered_where_the_release_does_so() {
    let settings = json!({"embeddingModel": "nomic", "embeddingDimension": 8});
    for schema in SCHEMAS {
        let mut store = registration("vectorStores", "docs", settings.clone());
        let mut request = with_resources(schema, json!({"registrations": [store]}));
        request["base"]["providers"]["vector_io"] =
            json!([{"provider_id": "faiss", "provider_type": "inline::faiss", "config": {}}]);
        let report = assemble(request.clone());
        if schema == V0_3 {
            let expected = ["unsupported-option spec.resources.vectorStores[0]"];
            assert_eq!(report.errors(), expected);
            continue;
        }
        assert_eq!(report.errors(), Vec::<String>::new(), "{schema}");
        let (list, id) = match schema {
            V0_1_3 | V0_2_13 => ("vector_dbs", "vector_db_id"),
            _ => ("vector_stores", "vector_store_id"),
        };
        let entry = listed(&report, list);
        assert_eq!(entry[id], "docs", "{schema}");
        assert_eq!(entry["embedding_dimension"], 8);
        let model = report.output["models"][0]["id"].clone();
        assert_eq!(entry["embedding_model"], model, "{schema}");
        let has_provider = schema != V0_1_3;
        assert_eq!(entry.get("provider_id").is_some(), has_provider, "{schema}");

        store = request["resources"]["registrations"][0].take();
        store["provider"] = json!("nowhere");
        request["resources"]["registrations"] = json!([store]);
        let expected = match schema {
            V0_1_3 => "unsupported-option spec.resources.vectorStores[0].provider",
            _ => "unknown-provider-id spec.resources.vectorStores[0].provider",
        };
        assert_eq!(assemble(request).errors(), [expected], "{schema}");
    }
}

#[test]
fn evaluation_is_registered_where_the_release_has_it() {
    let uri = "https://example.com/qa.csv";
    let registrations = json!([
        registration(
            "datasets",
            "qa",
            json!({"purpose": "eval/question-answer", "uri": uri})
        ),
        registration("scoringFns", "exact", json!({"returnType": "number"})),
        registration(
            "benchmarks",
            "qa",
            json!({"dataset": "qa", "scoringFns": ["exact"]})
        ),
    ]);
    for schema in SCHEMAS {
        let mut request = with_resources(schema, json!({"registrations": registrations}));
        for (api, provider) in [
            ("datasetio", "inline::localfs"),
            ("scoring", "inline::basic"),
            ("eval", "inline::meta-reference"),
        ] {
            let base = &mut request["base"];
            if base["providers"].get(api).is_none() && WITH_EVALUATION.contains(&schema) {
                base["providers"][api] =
                    json!([{"provider_id": "own", "provider_type": provider, "config": {}}]);
            }
        }
        let report = assemble(request);
        if !WITH_EVALUATION.contains(&schema) {
            let expected = ["datasets", "scoringFns", "benchmarks"]
                .map(|kind| format!("unsupported-option spec.resources.{kind}[0]"));
            let mut errors = report.errors();
            errors.sort();
            let mut expected = expected.to_vec();
            expected.sort();
            assert_eq!(errors, expected, "{schema}");
            continue;
        }
        assert_eq!(report.errors(), Vec::<String>::new(), "{schema}");
        assert_eq!(
            listed(&report, "datasets"),
            json!({
                "dataset_id": "qa", "purpose": "eval/question-answer",
                "source": {"type": "uri", "uri": uri},
            })
        );
        let scoring = listed(&report, "scoring_fns");
        assert_eq!(scoring["return_type"], json!({"type": "number"}));
        let benchmark = listed(&report, "benchmarks");
        assert_eq!(benchmark["dataset_id"], "qa");
        assert_eq!(benchmark["scoring_functions"], json!(["exact"]));
        assert!(benchmark["provider_id"].is_string(), "{schema}");
    }
}

#[test]
fn a_benchmark_needs_its_dataset_and_its_api() {
    let benchmark = registration(
        "benchmarks",
        "qa",
        json!({"dataset": "none", "scoringFns": ["a"]}),
    );
    let mut request = with_resources(V0_4, json!({"registrations": [benchmark]}));
    request["base"]["providers"]["eval"] =
        json!([{"provider_id": "own", "provider_type": "inline::meta-reference", "config": {}}]);
    let report = assemble(request.clone());
    assert_eq!(
        report.errors(),
        ["unknown-dataset spec.resources.benchmarks[0].dataset"]
    );
    request["disabled"] = json!([{"path": "spec.disabled[0]", "name": "eval"}]);
    let errors = assemble(request).errors();
    assert!(
        errors.contains(&"disabled-api spec.resources.benchmarks[0]".to_owned()),
        "{errors:?}"
    );
    let settings = json!({"purpose": "eval/question-answer", "uri": "https://example.com/qa.csv"});
    let dataset = registration("datasets", "qa", settings);
    let request = with_resources(V0_4, json!({"registrations": [dataset]}));
    let expected = ["no-provider spec.resources.datasets[0]"];
    assert_eq!(assemble(request).errors(), expected);
}

#[test]
fn defaults_name_what_exists_where_the_release_has_them() {
    let defaults = json!({"vectorStoreProvider": "faiss", "embeddingModel": "nomic"});
    for schema in SCHEMAS {
        let mut request = with_resources(schema, json!({"defaults": defaults}));
        request["base"]["providers"]["vector_io"] =
            json!([{"provider_id": "faiss", "provider_type": "inline::faiss", "config": {}}]);
        let report = assemble(request.clone());
        if [V0_1_3, V0_2_13].contains(&schema) {
            let field = |name: &str| format!("unsupported-option spec.resources.defaults.{name}");
            let mut errors = report.errors();
            errors.sort();
            assert_eq!(
                errors,
                [field("embeddingModel"), field("vectorStoreProvider")]
            );
            continue;
        }
        assert_eq!(report.errors(), Vec::<String>::new(), "{schema}");
        let section = &report.config()["vector_stores"];
        assert_eq!(section["default_provider_id"], "faiss");
        let model = report.output["models"][0]["id"].as_str().unwrap();
        let (provider, model) = model.split_once('/').unwrap();
        let expected = json!({"provider_id": provider, "model_id": model});
        assert_eq!(section["default_embedding_model"], expected, "{schema}");

        for (wanted, field) in [
            (
                json!({"vectorStoreProvider": "none"}),
                "vectorStoreProvider",
            ),
            (json!({"embeddingModel": "none/model"}), "embeddingModel"),
        ] {
            // With no provider of the resource, a name without a known prefix has none.
            request["resources"]["defaults"] = wanted;
            let mut request = request.clone();
            request["resources"]["models"] = json!([]);
            request["providers"] = json!({});
            request["external"] = json!([]);
            let expected = format!("unknown-default spec.resources.defaults.{field}");
            assert_eq!(assemble(request).errors(), [expected], "{schema}");
        }
    }
}

#[test]
fn a_default_shield_is_one_of_the_registered_ones() {
    for schema in SCHEMAS {
        let shields = json!([{"path": "s", "name": "guard"}]);
        let resources = json!({"shields": shields, "defaults": {"shield": "guard"}});
        let mut request = with_resources(schema, resources);
        if schema == OGX_1_0 {
            request["resources"]["shields"] = json!([]);
        }
        let report = assemble(request.clone());
        if ![V0_4, V0_5, V0_7, OGX_0_8].contains(&schema) {
            let expected = "unsupported-option spec.resources.defaults.shield";
            assert_eq!(report.errors(), [expected], "{schema}");
            continue;
        }
        let default = &report.config()["safety"]["default_shield_id"];
        assert_eq!(default, "guard", "{schema}");
        request["resources"]["defaults"]["shield"] = json!("other");
        let expected = "unknown-default spec.resources.defaults.shield";
        assert_eq!(assemble(request).errors(), [expected], "{schema}");
    }
}
