//! Generation with a real adapter, compiled natively: every sample, and the errors.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod native;

use std::path::Path;

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints, ServedSchema,
};
use llsd_adapter_sdk::{Answer, Detection};
use llsd_api::Checked;
use llsd_api::checked::{ConfigSource, ServerSource};
use llsd_render::adapter::{Adapter, Fault, FaultKind, Response};
use llsd_render::{
    GenerateError, Generated, Inputs, PodContext, SchemaError, SchemaSource, distributions,
    generate, limits, yaml,
};
use native::Native;
use serde_json::{Value, json};

/// The LlamaStackDistribution among the documents of a file.
fn checked(text: &str) -> Checked {
    let documents = text.split("\n---\n").map(|one| yaml::read(one).unwrap());
    let is_distribution = |one: &Value| one["kind"] == llsd_api::KIND;
    let document = documents.into_iter().find(is_distribution).unwrap();
    llsd_api::check_document(document).result.unwrap()
}

fn generated(checked: &Checked, schema: Option<&str>) -> Result<Generated, GenerateError> {
    let hints = Hints {
        schema: schema.map(str::to_owned),
        ..Hints::default()
    };
    generated_with(checked, &hints)
}

fn generated_with(checked: &Checked, hints: &Hints) -> Result<Generated, GenerateError> {
    generated_on(checked, &starter(), hints, None)
}

/// The base configuration of `starter`, with an API that no release of ogx has, so that its dialect is
/// certain.
fn starter() -> Value {
    let starter = &distributions::builtin()["starter"];
    let mut base: Value = yaml::read(starter.base.as_deref().unwrap()).unwrap();
    base["apis"].as_array_mut().unwrap().push("scoring".into());
    base
}

fn generated_on(
    checked: &Checked,
    base: &Value,
    hints: &Hints,
    running_release: Option<&str>,
) -> Result<Generated, GenerateError> {
    let inputs = Inputs {
        checked,
        base,
        hints,
        running_release,
        pod_context: &PodContext::with_placeholder_packages(checked),
    };
    generate(&[&Native::new()], &inputs)
}

#[test]
fn every_sample_generates_and_detection_gives_the_same_output() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut count = 0;
    for entry in std::fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let checked = checked(&std::fs::read_to_string(&path).unwrap());
        let is_of_starter = checked.server == ServerSource::Named("starter".to_owned());
        let is_generated = matches!(checked.config_source, ConfigSource::Generated { .. });
        if !(is_of_starter && is_generated) {
            continue;
        }
        let first = generated(&checked, None).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let second = generated(&checked, Some("llama-stack/0.7")).unwrap();
        assert_eq!(first.yaml, second.yaml, "{path:?}");
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn a_server_version_selects_the_schema_and_one_without_a_number_is_ignored() {
    let checked = checked(include_str!("../../../samples/minimal.yaml"));
    let source = |version: &str| {
        let hints = Hints {
            server_version: Some(version.to_owned()),
            ..Hints::default()
        };
        generated_with(&checked, &hints).map(|generated| generated.schema.source)
    };
    for version in ["0.7.1", "v0.7.1", " 0.7.1\n", "0.7.3rc1"] {
        assert_eq!(
            source(version).unwrap(),
            SchemaSource::ServerVersion,
            "{version}"
        );
    }
    for version in ["latest", "main", ""] {
        assert_eq!(
            source(version).unwrap(),
            SchemaSource::Detected,
            "{version}"
        );
    }
    let error = source("v9.9").unwrap_err();
    assert!(matches!(error, GenerateError::Schema(_)), "{error}");
}

#[test]
fn an_invalid_resource_and_an_unsupported_schema_are_different_errors() {
    let spec = |provider: &str| {
        checked(&format!(
            "{{apiVersion: llamastack.io/v1alpha2, kind: LlamaStackDistribution, metadata: {{name: a}}, \
             spec: {{distribution: {{name: starter}}, providers: {{inference: {{provider: {provider}}}}}}}}}"
        ))
    };
    let Err(GenerateError::Rejected {
        schema,
        diagnostics,
    }) = generated(&spec("vlm"), None)
    else {
        panic!("the provider type does not exist");
    };
    let schema = schema.unwrap();
    assert_eq!(schema.id, "llama-stack/0.7");
    assert_eq!(schema.source, SchemaSource::Detected);
    assert_eq!(
        diagnostics[0].field.as_str(),
        "spec.providers.inference.provider"
    );
    let error = generated(&spec("vllm"), Some("acme/1.0")).unwrap_err();
    assert!(matches!(error, GenerateError::Schema(_)), "{error}");
    assert!(error.to_string().contains("acme/1.0"), "{error}");
}

/// The dialect that is generated for a base with so few keys that it is one of several, and how it was
/// selected; `None` for a question.
fn selected(
    schema: Option<&str>,
    server_version: Option<&str>,
    running: Option<&str>,
) -> Option<(String, SchemaSource)> {
    let checked = checked(include_str!("../../../samples/minimal.yaml"));
    let base = yaml::read("{version: 2, apis: [inference], providers: {inference: []}}").unwrap();
    let hints = Hints {
        schema: schema.map(str::to_owned),
        server_version: server_version.map(str::to_owned),
        ..Hints::default()
    };
    match generated_on(&checked, &base, &hints, running) {
        Ok(generated) => Some((generated.schema.id, generated.schema.source)),
        Err(GenerateError::Schema(SchemaError::Ambiguous(_))) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Issue H, wanted 2.
#[test]
fn a_weaker_hint_about_the_dialect_never_overrides_a_stronger_one() {
    let (old, new) = ("llama-stack/0.5", "llama-stack/0.7");
    let by = |schema: &str, source| Some((schema.to_owned(), source));
    assert_eq!(selected(None, None, None), None);
    for (schema, version, running, expected) in [
        (
            Some(new),
            Some("0.6.1"),
            Some("0.6.1"),
            by(new, SchemaSource::Stated),
        ),
        (
            None,
            Some("0.7.1"),
            Some("0.6.1"),
            by(new, SchemaSource::ServerVersion),
        ),
        (
            None,
            None,
            Some("0.6.1"),
            by(old, SchemaSource::RunningServer),
        ),
        (
            None,
            None,
            Some("0.7.3"),
            by(new, SchemaSource::RunningServer),
        ),
        (
            None,
            Some("latest"),
            Some("0.7.3"),
            by(new, SchemaSource::RunningServer),
        ),
    ] {
        let found = selected(schema, version, running);
        assert_eq!(found, expected, "{schema:?} {version:?} {running:?}");
    }
}

/// Issue H, wanted 2.
#[test]
fn a_running_server_of_no_candidate_leaves_the_question_open() {
    for release in ["0.2.5", "9.0", "unknown", ""] {
        assert_eq!(selected(None, None, Some(release)), None, "{release}");
    }
}

/// Issue H, wanted 2.
#[test]
fn a_running_server_does_not_change_a_detected_dialect() {
    let checked = checked(include_str!("../../../samples/minimal.yaml"));
    let base = starter();
    let without = generated_on(&checked, &base, &Hints::default(), None).unwrap();
    let with = generated_on(&checked, &base, &Hints::default(), Some("0.6.1")).unwrap();
    assert_eq!(without, with);
    assert_eq!(with.schema.source, SchemaSource::Detected);
    assert_eq!(with.releases.includes("0.6.1"), Some(false));
    assert_eq!(with.releases.includes("0.7.1"), Some(true));
}

/// Issue H, wanted 2: the release in a label must not select keys of a dialect that the resource does
/// not use.
#[test]
fn a_release_that_contradicts_the_stated_dialect_is_not_passed_to_the_plugin() {
    let checked = checked(include_str!("../../../samples/minimal.yaml"));
    let output = |version: Option<&str>| {
        let hints = Hints {
            schema: Some("llama-stack/0.7".to_owned()),
            server_version: version.map(str::to_owned),
            ..Hints::default()
        };
        generated_with(&checked, &hints).unwrap().yaml
    };
    assert_eq!(output(Some("0.5.1")), output(None));
}

/// A plugin that fails in `detect`, with the schemas of another one or with its own.
struct Faulty {
    description: Description,
}

impl Faulty {
    fn serving(schemas: &[&str]) -> Self {
        let mut description = Native::new().description().clone();
        description.name = "faulty".to_owned();
        let known = description.schemas.clone();
        let served = |id: &&str| ServedSchema {
            id: (*id).to_owned(),
            ..known[0].clone()
        };
        description.schemas = schemas.iter().map(served).collect();
        Self { description }
    }

    fn fault(&self, call: &'static str) -> Fault {
        Fault {
            plugin: self.description.name.clone(),
            digest: self.digest().to_owned(),
            call,
            kind: FaultKind::OutOfFuel { limit: 7 },
        }
    }
}

impl Adapter for Faulty {
    fn description(&self) -> &Description {
        &self.description
    }

    fn digest(&self) -> &str {
        "sha256:faulty"
    }

    fn is_schema_adapter(&self) -> bool {
        true
    }

    fn detect(&self, _: &Value, _: &Hints) -> Result<Response<Detection>, Fault> {
        Err(self.fault("detect"))
    }

    fn expand(&self, _: &ExpansionRequest) -> Result<Response<Answer<Expansion>>, Fault> {
        Err(self.fault("expand"))
    }

    fn assemble(&self, _: &AssemblyRequest) -> Result<Response<Answer<Assembly>>, Fault> {
        Err(self.fault("assemble"))
    }
}

fn generated_by(
    adapters: &[&dyn Adapter],
    checked: &Checked,
    base: &Value,
) -> Result<Generated, GenerateError> {
    let inputs = Inputs {
        checked,
        base,
        hints: &Hints::default(),
        running_release: None,
        pod_context: &PodContext::default(),
    };
    generate(adapters, &inputs)
}

/// Issue I, row 13.
#[test]
fn a_plugin_that_fails_to_detect_is_skipped_if_another_one_is_certain() {
    let checked = checked(include_str!("../../../samples/minimal.yaml"));
    let (native, faulty) = (Native::new(), Faulty::serving(&["acme/1.0"]));
    let alone = generated_by(&[&native], &checked, &starter()).unwrap();
    let both = generated_by(&[&faulty, &native], &checked, &starter()).unwrap();
    assert_eq!(both.yaml, alone.yaml);
    assert_eq!(both.skipped, [faulty.fault("detect")]);
    let warning = both
        .warnings
        .iter()
        .find(|one| one.code == "plugin-skipped");
    let warning = warning.unwrap().to_string();
    assert!(
        warning.contains(
            "plugin \"faulty\" (sha256:faulty) was skipped: detect exceeded the fuel limit of 7"
        ),
        "{warning}"
    );
}

#[test]
fn a_plugin_that_fails_to_detect_is_not_skipped_if_it_would_be_used_or_nothing_is_certain() {
    let checked = checked(include_str!("../../../samples/minimal.yaml"));
    let native = Native::new();
    let same = Faulty::serving(&["llama-stack/0.7"]);
    let error = generated_by(&[&same, &native], &checked, &starter()).unwrap_err();
    assert_eq!(error, GenerateError::Fault(same.fault("detect")));
    // Behind another plugin for the same schema it would not be used.
    assert!(generated_by(&[&native, &same], &checked, &starter()).is_ok());
    let other = Faulty::serving(&["acme/1.0"]);
    let unclear =
        yaml::read("{version: 2, apis: [inference], providers: {inference: []}}").unwrap();
    let error = generated_by(&[&other, &native], &checked, &unclear).unwrap_err();
    assert_eq!(error, GenerateError::Fault(other.fault("detect")));
}

/// Issue I, row 3: the adapter is not even asked.
#[test]
fn an_input_that_is_too_large_is_the_error_of_its_author_and_reaches_no_plugin() {
    let faulty = Faulty::serving(&["llama-stack/0.7"]);
    let rejected = |checked: &Checked, base: &Value| {
        let error = generated_by(&[&faulty], checked, base).unwrap_err();
        let GenerateError::Rejected { diagnostics, .. } = error else {
            panic!("{error}");
        };
        diagnostics
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let minimal = checked(include_str!("../../../samples/minimal.yaml"));
    let mut base = starter();
    base["padding"] = json!(vec![0; limits::BASE_VALUES]);
    let found = rejected(&minimal, &base);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("more than the limit of 20000 values or 524288 bytes; "),
        "{found:?}"
    );
    let mut base = starter();
    base["padding"] = json!("x".repeat(limits::BASE_BYTES));
    assert_eq!(rejected(&minimal, &base).len(), 1);

    let mut base = starter();
    base["providers"]["inference"] = json!(vec![json!({}); limits::PROVIDERS]);
    let found = rejected(&minimal, &base);
    assert!(
        found[0].starts_with("spec.providers: the resource has 1 providers and the base"),
        "{found:?}"
    );

    let mut large = checked(include_str!("../../../samples/minimal.yaml"));
    let settings = json!({"a": "x".repeat(limits::SETTINGS_BYTES)});
    let Value::Object(settings) = settings else {
        unreachable!()
    };
    assert!(!large.providers.is_empty());
    large.providers[0].settings = settings;
    let found = rejected(&large, &starter());
    assert!(
        found[0].starts_with("spec.providers.inference.settings: has 65"),
        "{found:?}"
    );
}

fn patched(patch: Value) -> Result<Generated, GenerateError> {
    let document = json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution", "metadata": {"name": "a"},
        "spec": {
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
            "configPatch": patch,
        },
    });
    let checked = llsd_api::check_document(document).result.unwrap();
    generated(&checked, Some("llama-stack/0.7"))
}

#[test]
fn a_patch_is_merged_over_the_generated_file() {
    let plain = patched(json!({})).unwrap();
    let made = patched(json!({
        "server": {"cors": true},
        "vector_stores": null,
        "providers": {
            "inference": [
                {"provider_id": "vllm", "config": {"max_tokens": 5}},
                {"provider_id": "second", "provider_type": "remote::vllm", "config": {"base_url": "http://b/v1"}},
            ],
        },
    }))
    .unwrap();
    assert_eq!(made.config["server"]["cors"], true);
    assert_eq!(
        made.config["server"]["port"],
        plain.config["server"]["port"]
    );
    assert!(made.config.get("vector_stores").is_none());
    let list = made.config["providers"]["inference"].as_array().unwrap();
    let named = |id: &str| list.iter().find(|one| one["provider_id"] == id).unwrap();
    assert_eq!(named("vllm")["config"]["max_tokens"], 5);
    assert_eq!(named("vllm")["config"]["base_url"], "http://vllm:8000/v1");
    assert_eq!(named("second")["config"]["base_url"], "http://b/v1");
    assert_eq!(made.counts.providers, plain.counts.providers + 1);
    assert!(
        made.warnings
            .iter()
            .all(|one| !one.field.as_str().starts_with("spec.configPatch"))
    );
}

#[test]
fn the_sample_with_a_patch_becomes_this_file() {
    let sample = include_str!("../../../samples/config-patch.yaml");
    let made = generated(&checked(sample), Some("llama-stack/0.7")).unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("config_patch", made.yaml));
}

#[test]
fn the_sample_with_access_reaches_the_file() {
    let sample = include_str!("../../../samples/access.yaml");
    let made = generated(&checked(sample), Some("llama-stack/0.7")).unwrap();
    let auth = &made.config["server"]["auth"];
    assert_eq!(
        auth["provider_config"],
        json!({"type": "kubernetes", "tls_cafile": "/etc/kubernetes-ca/ca.crt"})
    );
    assert_eq!(auth["access_policy"].as_array().unwrap().len(), 2);
    assert!(auth.get("route_policy").is_none());
}

#[test]
fn probes_pass_a_policy_about_paths_and_secrets_are_variables() {
    let document = json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution", "metadata": {"name": "a"},
        "spec": {"distribution": {"name": "starter"}, "access": {
            "oauth2": {"introspection": {
                "url": "https://login/check", "clientId": "llsd",
                "clientSecret": {"name": "login", "key": "secret"},
            }},
            "routePolicy": [{"permit": {"paths": ["/v1/models*"]}, "when": ["user with ml in teams"]}],
        }},
    });
    let checked = llsd_api::check_document(document).result.unwrap();
    let made = generated(&checked, Some("llama-stack/0.7")).unwrap();
    let auth = &made.config["server"]["auth"];
    assert_eq!(
        auth["route_policy"][0]["permit"]["paths"],
        json!(["/v1/health", "/v1/version"])
    );
    assert_eq!(
        auth["route_policy"][1]["when"],
        json!(["user with ml in teams"])
    );
    let name = "LLSD_ACCESS_INTROSPECTION_CLIENT_SECRET";
    let secret = &auth["provider_config"]["introspection"]["client_secret"];
    assert_eq!(secret, &json!(format!("${{env.{name}}}")));
    assert!(made.variables.iter().any(|one| one.name == name));
}

#[test]
fn a_patch_is_rejected_by_its_field_and_an_unknown_key_is_a_warning() {
    let fields = |patch: Value| match patched(patch) {
        Ok(made) => made
            .warnings
            .iter()
            .map(|one| one.field.to_string())
            .collect::<Vec<_>>(),
        Err(GenerateError::Rejected { diagnostics, .. }) => diagnostics
            .iter()
            .filter(|one| one.is_error())
            .map(|one| one.field.to_string())
            .collect(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(
        fields(json!({"providers": {"inference": [{"provider_id": "vlm"}]}})),
        ["spec.configPatch.providers.inference[0].provider_id"]
    );
    let unset = "${env.NOBODY_SETS_THIS}";
    assert_eq!(
        fields(json!({"logging": {"level": unset}})),
        ["spec.configPatch"]
    );
    assert!(fields(json!({"loging": {}})).contains(&"spec.configPatch.loging".to_owned()));
    let long = "x".repeat(limits::PATCH_BYTES);
    assert_eq!(
        fields(json!({"logging": {"x": long}})),
        ["spec.configPatch"]
    );
}
