//! The variables of the server container.
//!
//! Order as it has always been: ours, then what the configuration needs, then the user's. Kubernetes
//! lets a later variable win over an earlier one of the same name, but server-side apply takes each
//! name once: so a later one takes the place of the earlier.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, SecretKeySelector};
use llsd_api::checked::Checked;

use super::{ConfigPlan, pod};
use crate::generate::{PodVariable, ValueSource};

pub(super) fn environment(checked: &Checked, plan: &ConfigPlan) -> Vec<EnvVar> {
    let workers = checked.workload.workers.unwrap_or(1);
    let ours = [
        ("HF_HOME", pod::data_folder(checked).to_owned()),
        ("LLS_WORKERS", workers.to_string()),
        ("LLS_PORT", checked.networking.port().to_string()),
        ("LLAMA_STACK_CONFIG", pod::CONFIG_FILE.to_owned()),
    ];
    let user = checked.workload.overrides.env.iter().flatten().cloned();
    let all = ours
        .into_iter()
        .map(|(name, value)| literal(name, value))
        .chain(of_plan(plan))
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
    variables
}

fn of_plan(plan: &ConfigPlan) -> Vec<EnvVar> {
    match plan {
        ConfigPlan::Generated(generated) => {
            let startup = generated
                .startup
                .env
                .iter()
                .map(|(name, value)| literal(name, value.clone()));
            startup
                .chain(generated.variables.iter().filter_map(variable))
                .collect()
        }
        // The images' own entry point reads this one and keeps what else it does at start.
        ConfigPlan::Override { .. } => {
            vec![literal("RUN_CONFIG_PATH", pod::CONFIG_FILE.to_owned())]
        }
        ConfigPlan::DistributionDefault => Vec::new(),
    }
}

fn variable(
    PodVariable {
        name,
        source,
        read_as: _,
    }: &PodVariable,
) -> Option<EnvVar> {
    match source {
        ValueSource::Literal(text) => Some(literal(name, text.clone())),
        ValueSource::Secret(reference) => Some(EnvVar {
            name: name.clone(),
            value_from: Some(EnvVarSource {
                secret_key_ref: Some(SecretKeySelector {
                    name: reference.secret.clone(),
                    key: reference.key.clone(),
                    optional: None,
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        }),
        // Refused before anything is built.
        ValueSource::Part(..) => None,
    }
}

fn literal(name: &str, value: String) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..EnvVar::default()
    }
}
