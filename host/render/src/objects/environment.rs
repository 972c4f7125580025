//! The variables of the server container.
//!
//! Order as it has always been: ours, then what the configuration needs, then the user's. Kubernetes
//! lets a later variable win over an earlier one of the same name, but server-side apply takes each
//! name once: so a later one takes the place of the earlier.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, SecretKeySelector};
use llsd_api::checked::DEFAULT_PORT;

use super::{ConfigPlan, ObjectInputs, derived, external, pod, trust};
use crate::generate::{PodVariable, ValueSource};

pub(super) fn environment(inputs: &ObjectInputs<'_>) -> Vec<EnvVar> {
    let checked = inputs.checked;
    let workers = checked.workload.workers.unwrap_or(1);
    let data_folder = ("HF_HOME", pod::data_folder(checked).to_owned());
    let trusted = inputs
        .trust
        .map(|_| ("SSL_CERT_FILE", trust::FILE.to_owned()));
    let server = [
        ("LLS_WORKERS", workers.to_string()),
        ("LLS_PORT", checked.networking.port().to_string()),
        ("LLAMA_STACK_CONFIG", pod::CONFIG_FILE.to_owned()),
    ];
    let ours = [data_folder].into_iter().chain(trusted).chain(server);
    let user = checked.workload.overrides.env.iter().flatten().cloned();
    let all = ours
        .map(|(name, value)| literal(name, value))
        .chain(of_plan(inputs))
        .chain(user);
    let mut variables: Vec<EnvVar> = Vec::new();
    for variable in all {
        match variables
            .iter_mut()
            .find(|earlier| earlier.name == variable.name)
        {
            Some(earlier) => *earlier = variable,
            None => variables.push(variable),
        }
    }
    if !checked.external.is_empty() {
        external::extend_path(&mut variables);
    }
    variables
}

fn of_plan(inputs: &ObjectInputs<'_>) -> Vec<EnvVar> {
    match inputs.plan {
        ConfigPlan::Generated(generated) => {
            let startup = generated
                .startup
                .env
                .iter()
                .map(|(name, value)| literal(name, value.clone()));
            let wanted = generated.variables.iter();
            startup
                .chain(wanted.map(|one| variable(one, inputs)))
                .collect()
        }
        // The images' own entry point reads this one and keeps what else it does at start.
        ConfigPlan::Override { .. } => {
            let file = literal("RUN_CONFIG_PATH", pod::CONFIG_FILE.to_owned());
            [file].into_iter().chain(other_port(inputs)).collect()
        }
        ConfigPlan::DistributionDefault => other_port(inputs).into_iter().collect(),
    }
}

/// What makes a server listen on another port that reads no file of ours: it goes before the port
/// that a file names.
fn other_port(inputs: &ObjectInputs<'_>) -> Option<EnvVar> {
    let port = inputs.checked.networking.port();
    (port != DEFAULT_PORT).then(|| literal("LLAMA_STACK_PORT", port.to_string()))
}

fn variable(
    PodVariable {
        name,
        source,
        read_as: _,
    }: &PodVariable,
    inputs: &ObjectInputs<'_>,
) -> EnvVar {
    match source {
        ValueSource::Literal(text) => literal(name, text.clone()),
        ValueSource::Secret(reference) => {
            from_secret(name, reference.secret.clone(), reference.key.clone())
        }
        ValueSource::Part(..) => from_secret(name, derived::name(inputs.owner), name.clone()),
    }
}

fn from_secret(name: &str, secret: String, key: String) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret,
                key,
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn literal(name: &str, value: String) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..EnvVar::default()
    }
}
