//! Checks that the pod has the environment variables that the configuration needs.
//!
//! A server does not start if its configuration reads a variable without a default, `${env.X}`, that is
//! unset or empty. The base configuration decides which variables it reads, so the check runs on the
//! generated file.
//!
//! The check knows the variables of the operator, of the generated configuration, of
//! `spec.workload.overrides.env`, and of the server image if it was read. It is not read if the base
//! configuration comes from elsewhere: then a variable that only the image sets must be repeated in the
//! resource.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::EnvVar;
use llsd_api::server_variables::{Form, Missing, missing, readings};
use llsd_api::{Diagnostic, FieldPath};
use serde_json::Value;

use super::{Inputs, PodVariable};
use crate::objects::{CA_VARIABLE, OPERATOR_VARIABLES};

/// Variables that every container has, from the container runtime and the server image.
const ALWAYS: [&str; 4] = ["HOME", "HOSTNAME", "PATH", "PWD"];
/// Kubernetes injects the address of the API server, also with `enableServiceLinks: false`.
const KUBERNETES: &str = "KUBERNETES_";

/// The diagnostics of variables that the pod will not have.
pub(super) fn check(
    inputs: &Inputs<'_>,
    config: &Value,
    startup: &BTreeMap<String, String>,
    variables: &[PodVariable],
) -> Vec<Diagnostic> {
    let &Inputs {
        checked,
        pod_context,
        ..
    } = inputs;
    let overrides = &checked.workload.overrides;
    let of_user = overrides.env.iter().flatten();
    let (set, empty): (Vec<&EnvVar>, Vec<&EnvVar>) = of_user.partition(|one| has_value(one));
    let set: BTreeSet<&str> = set.into_iter().map(|one| one.name.as_str()).collect();
    // A variable of the user replaces one of the operator.
    let empty: BTreeSet<&str> = empty.into_iter().map(|one| one.name.as_str()).collect();
    let has_ca_bundle = checked.networking.ca_bundle.is_some() || pod_context.may_have_ca_bundle;
    let is_ours = |name: &str| {
        ALWAYS.contains(&name)
            || name.starts_with(KUBERNETES)
            || OPERATOR_VARIABLES.contains(&name)
            || (name == CA_VARIABLE && has_ca_bundle)
            || pod_context.image_variables.contains(name)
            || startup.get(name).is_some_and(|value| !value.is_empty())
            || variables.iter().any(|one| one.name == name)
            || checked
                .secret_files()
                .any(|file| file.variable.as_deref() == Some(name))
    };
    let is_set = |name: &str| set.contains(name) || (is_ours(name) && !empty.contains(name));
    // A command or arguments of the user may set variables, or start the server with another file.
    let is_started_otherwise = [&overrides.command, &overrides.args]
        .iter()
        .any(|words| words.as_ref().is_some_and(|words| !words.is_empty()));
    // Variables of whole Secrets and ConfigMaps are not known here.
    let template = checked.workload.pod_template.as_ref();
    let server = template.and_then(|one| one.container(checked.workload.container_name()));
    let has_more_variables = server.is_some_and(|server| server.env_from.is_some());
    let is_started_otherwise = is_started_otherwise || has_more_variables;
    let patch = Value::Object(checked.config_patch.clone());
    let in_patch: BTreeSet<&str> = readings(&patch)
        .into_iter()
        .filter(|one| one.form == Form::Bare)
        .map(|one| one.name)
        .collect();
    missing(config, &is_set)
        .into_iter()
        .map(|one| {
            let field = match in_patch.contains(one.name.as_str()) {
                true => FieldPath::spec().field("configPatch"),
                false => FieldPath::spec().at(&["workload", "overrides", "env"]),
            };
            diagnostic(one, field, &empty, is_started_otherwise)
        })
        .collect()
}

/// Whether the server sees a value. An empty variable counts as unset.
fn has_value(variable: &EnvVar) -> bool {
    variable.value_from.is_some() || variable.value.as_ref().is_some_and(|text| !text.is_empty())
}

fn diagnostic(
    missing: Missing,
    field: FieldPath,
    empty: &BTreeSet<&str>,
    is_started_otherwise: bool,
) -> Diagnostic {
    let Missing {
        name,
        path,
        unused_provider,
    } = missing;
    let state = match empty.contains(name.as_str()) {
        true => "empty in spec.workload.overrides.env",
        false => "not set in the pod",
    };
    let problem = format!(
        "the environment variable {name} is {state}, and the configuration reads it without a default at {path}: ${{env.{name}}}"
    );
    let place = match field.as_str() {
        "spec.configPatch" => "the patch",
        _ => "the base configuration",
    };
    let add = format!("add {{name: {name}, value: …}} to spec.workload.overrides.env");
    let diagnostic = if let Some(provider) = unused_provider {
        Diagnostic::warning(
            field,
            format!(
                "{problem}; the condition of provider {provider:?} is not met, but known releases stop nonetheless"
            ),
            format!(
                "{add}, or remove the provider with spec.disabled or from the base configuration"
            ),
        )
    } else if is_started_otherwise {
        Diagnostic::warning(
            field,
            format!("{problem}; the server does not start without it"),
            format!(
                "{add}, unless spec.workload.overrides.command or args, or envFrom of the server container sets it"
            ),
        )
    } else {
        Diagnostic::error(
            field,
            format!("{problem}; the server does not start without it"),
            format!("{add}, or give it a default in {place}: ${{env.{name}:=…}}"),
        )
    };
    diagnostic.with_code("missing-variable")
}
