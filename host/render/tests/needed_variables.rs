//! D11: a variable that the configuration needs and the pod does not have.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod native;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::{Diagnostic, Severity};
use llsd_render::{GenerateError, Inputs, PodContext, SchemaError, distributions, generate, yaml};
use native::Native;
use serde_json::{Value, json};

/// The base configuration of `starter` with another inference provider and more at the top.
fn base(provider: Value, more: Value) -> Value {
    let starter = &distributions::builtin()["starter"];
    let mut base: Value = yaml::read(starter.base.as_deref().unwrap()).unwrap();
    let providers = base["providers"]["inference"].as_array_mut().unwrap();
    providers.push(provider);
    let more = more.as_object().unwrap().clone();
    base.as_object_mut().unwrap().extend(more);
    base
}

fn generated(base: &Value, workload: Value) -> Result<Vec<Diagnostic>, GenerateError> {
    generated_in(&PodContext::default(), base, workload, json!({}))
}

fn generated_in(
    pod_context: &PodContext,
    base: &Value,
    workload: Value,
    networking: Value,
) -> Result<Vec<Diagnostic>, GenerateError> {
    let document = json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
        "metadata": {"name": "a"},
        "spec": {
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000", "apiKey": {"name": "s", "key": "k"}}},
            "workload": workload,
            "networking": networking,
        },
    });
    let checked = llsd_api::check_document(document).result.unwrap();
    let hints = Hints {
        schema: Some("llama-stack/0.7".to_owned()),
        ..Hints::default()
    };
    let inputs = Inputs {
        checked: &checked,
        base,
        hints: &hints,
        running_release: None,
        pod_context,
    };
    generate(&[&Native::new()], &inputs).map(|generated| generated.warnings)
}

fn needs(variable: &str, id: &str) -> Value {
    json!({"provider_id": id, "provider_type": "remote::vllm", "config": {"base_url": format!("${{env.{variable}}}")}})
}

fn missing(found: &[Diagnostic]) -> Vec<(Severity, &str)> {
    found
        .iter()
        .filter(|one| one.code == "missing-variable")
        .map(|one| (one.severity, one.problem.as_str()))
        .collect()
}

/// D11.
#[test]
fn a_variable_without_a_default_that_the_pod_does_not_have_is_rejected_with_the_fix() {
    let base = base(needs("VENDOR_URL", "vendor"), json!({}));
    let Err(GenerateError::Rejected {
        diagnostics: found, ..
    }) = generated(&base, json!({}))
    else {
        panic!("the server does not start without VENDOR_URL");
    };
    let errors: Vec<String> = found
        .iter()
        .filter(|one| one.is_error())
        .map(ToString::to_string)
        .collect();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(
        errors[0].starts_with("spec.workload.overrides.env: the environment variable VENDOR_URL is not set in the pod, and the configuration reads it without a default at providers.inference["),
        "{errors:#?}"
    );
    assert!(
        errors[0].contains("add {name: VENDOR_URL, value: …} to spec.workload.overrides.env"),
        "{errors:#?}"
    );
}

/// D11.
#[test]
fn a_variable_of_the_resource_is_enough_unless_it_is_empty() {
    let base = base(needs("VENDOR_URL", "vendor"), json!({}));
    for variable in [
        json!({"name": "VENDOR_URL", "value": "http://v"}),
        json!({"name": "VENDOR_URL", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
    ] {
        let found = generated(&base, json!({"overrides": {"env": [variable]}})).unwrap();
        assert_eq!(missing(&found), []);
    }
    let empty = json!({"overrides": {"env": [{"name": "VENDOR_URL", "value": ""}]}});
    let Err(GenerateError::Rejected {
        diagnostics: found, ..
    }) = generated(&base, empty)
    else {
        panic!("an empty variable counts as unset");
    };
    assert!(
        missing(&found)[0]
            .1
            .contains("is empty in spec.workload.overrides.env"),
        "{found:#?}"
    );
}

/// D11.
#[test]
fn variables_that_every_pod_has_are_accepted() {
    for variable in [
        "HOME",
        "HOSTNAME",
        "KUBERNETES_SERVICE_HOST",
        "HF_HOME",
        "LLS_PORT",
    ] {
        let base = base(needs(variable, "vendor"), json!({}));
        assert_eq!(missing(&generated(&base, json!({})).unwrap()), []);
    }
}

/// D11: the `ENV` of the image counts, unless the resource empties the variable.
#[test]
fn a_variable_of_the_image_is_enough() {
    let base = base(needs("VENDOR_URL", "vendor"), json!({}));
    let image = PodContext {
        image_variables: ["VENDOR_URL".to_owned()].into(),
        ..PodContext::default()
    };
    let found = generated_in(&image, &base, json!({}), json!({})).unwrap();
    assert_eq!(missing(&found), []);
    let empty = json!({"overrides": {"env": [{"name": "VENDOR_URL", "value": ""}]}});
    assert!(generated_in(&image, &base, empty, json!({})).is_err());
}

/// D11: the operator sets `SSL_CERT_FILE` if there is a CA bundle, of the resource or of the platform.
#[test]
fn the_file_of_the_ca_bundle_is_set_only_with_a_ca_bundle() {
    let base = base(needs("SSL_CERT_FILE", "vendor"), json!({}));
    assert!(generated(&base, json!({})).is_err());
    let bundle = json!({"tls": {"caBundle": {"configMapName": "ca"}}});
    let of_resource = generated_in(&PodContext::default(), &base, json!({}), bundle).unwrap();
    assert_eq!(missing(&of_resource), []);
    let platform = PodContext {
        may_have_ca_bundle: true,
        ..PodContext::default()
    };
    let of_platform = generated_in(&platform, &base, json!({}), json!({})).unwrap();
    assert_eq!(missing(&of_platform), []);
}

/// D11.
#[test]
fn a_disabled_provider_and_a_removed_one_need_no_variable() {
    let disabled = base(
        needs("VENDOR_URL", "${env.ENABLE_VENDOR:=__disabled__}"),
        json!({}),
    );
    assert_eq!(missing(&generated(&disabled, json!({})).unwrap()), []);
    // The provider of the resource replaces the one of the base.
    let starter = &distributions::builtin()["starter"];
    let mut replaced: Value = yaml::read(starter.base.as_deref().unwrap()).unwrap();
    replaced["providers"]["inference"] = json!([needs("VENDOR_URL", "vllm")]);
    assert_eq!(missing(&generated(&replaced, json!({})).unwrap()), []);
}

/// D11: known releases expand the settings of a provider even if its condition is not met, so that
/// there is a warning.
#[test]
fn a_provider_whose_condition_is_not_met_is_accepted_with_a_warning() {
    let base = base(
        needs("VENDOR_URL", "${env.ENABLE_VENDOR:+vendor}"),
        json!({}),
    );
    let found = generated(&base, json!({})).unwrap();
    assert_eq!(missing(&found).len(), 1, "{found:#?}");
    assert_eq!(missing(&found)[0].0, Severity::Warning);
    let enabled = json!({"overrides": {"env": [{"name": "ENABLE_VENDOR", "value": "1"}]}});
    assert!(generated(&base, enabled).is_err());
}

/// D11: a command may set the variable.
#[test]
fn an_own_command_makes_a_missing_variable_a_warning() {
    let base = base(needs("VENDOR_URL", "vendor"), json!({}));
    let found = generated(&base, json!({"overrides": {"command": ["/start.sh"]}})).unwrap();
    assert_eq!(missing(&found).len(), 1, "{found:#?}");
    assert_eq!(missing(&found)[0].0, Severity::Warning);
}

/// D11: the message of the built-in distributions stays empty.
#[test]
fn the_built_in_base_configurations_need_no_variable() {
    for (name, known) in distributions::builtin() {
        let Some(text) = known.base else { continue };
        let base = yaml::read(&text).unwrap();
        let found = generated(&base, json!({})).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(missing(&found), [], "{name}");
    }
}

/// D10: the message did not name the version of the file.
#[test]
fn a_base_that_no_plugin_recognises_is_named_by_its_version() {
    let document = json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
        "metadata": {"name": "a"},
        "spec": {"distribution": {"name": "starter"}, "disabled": ["eval"]},
    });
    let checked = llsd_api::check_document(document).result.unwrap();
    let hints = Hints::default();
    for (version, expected) in [
        (json!(17), "17 (not recognised)"),
        (json!("2099-01"), "\"2099-01\" (not recognised)"),
        (json!(null), "(not recognised, without a version)"),
    ] {
        let inputs = Inputs {
            checked: &checked,
            base: &json!({"version": version, "unknown": true}),
            hints: &hints,
            running_release: None,
            pod_context: &PodContext::default(),
        };
        match generate(&[&Native::new()], &inputs) {
            Err(GenerateError::Schema(SchemaError::Unsupported { found, .. })) => {
                assert_eq!(found, expected);
            }
            other => panic!("{version}: {other:?}"),
        }
    }
}
