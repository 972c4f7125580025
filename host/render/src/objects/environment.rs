//! The environment variables of the server container.
//!
//! The order is that of llama-stack-k8s-operator: the operator's variables, then those that the
//! configuration needs, then the user's. In Kubernetes a later variable overrides an earlier one of
//! the same name, but server-side apply allows each name once. So a later one replaces the earlier.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, SecretKeySelector};
use llsd_api::checked::DEFAULT_PORT;

use super::{
    ConfigPlan, ObjectInputs, ca_bundle, derived_secret, external_providers, secret_files, volumes,
};
use crate::generate::{PodVariable, ValueSource};

/// The variables that the operator always sets.
pub(crate) const OPERATOR_VARIABLES: [&str; 4] =
    ["HF_HOME", "LLS_WORKERS", "LLS_PORT", "LLAMA_STACK_CONFIG"];

/// The variable that the operator sets if the pod has a CA bundle.
pub(crate) const CA_VARIABLE: &str = "SSL_CERT_FILE";

pub(super) fn environment(inputs: &ObjectInputs<'_>) -> Vec<EnvVar> {
    let checked = inputs.checked;
    let workers = checked.workload.workers.unwrap_or(1);
    let data_folder = ("HF_HOME", volumes::data_folder(checked).to_owned());
    let trusted = inputs
        .ca_bundle
        .map(|_| (CA_VARIABLE, ca_bundle::FILE.to_owned()));
    let server = [
        ("LLS_WORKERS", workers.to_string()),
        ("LLS_PORT", checked.networking.port().to_string()),
        ("LLAMA_STACK_CONFIG", volumes::CONFIG_FILE.to_owned()),
    ];
    let files = secret_files::variables(checked);
    let own = [data_folder].into_iter().chain(trusted).chain(server);
    let own = own.chain(files);
    let user = checked.workload.overrides.env.iter().flatten().cloned();
    let all = own
        .map(|(name, value)| literal(name, value))
        .chain(config_variables(inputs))
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
        external_providers::extend_path(&mut variables);
    }
    variables
}

fn config_variables(inputs: &ObjectInputs<'_>) -> Vec<EnvVar> {
    match inputs.plan {
        ConfigPlan::Generated(generated) => {
            let startup = generated
                .startup
                .env
                .iter()
                .map(|(name, value)| literal(name, value.clone()));
            let variables = generated.variables.iter();
            startup
                .chain(variables.map(|one| variable(one, inputs)))
                .collect()
        }
        // The entry point of the published images reads this variable.
        ConfigPlan::Override { .. } => {
            let file = literal("RUN_CONFIG_PATH", volumes::CONFIG_FILE.to_owned());
            let own = [file].into_iter().chain(server_variables(inputs, true));
            own.collect()
        }
        ConfigPlan::DistributionDefault => {
            let is_other_port = inputs.checked.networking.port() != DEFAULT_PORT;
            server_variables(inputs, is_other_port)
        }
    }
}

/// The variables of a server without a generated configuration. Each is set under the names of both
/// products, because the operator does not know which one the image contains.
fn server_variables(inputs: &ObjectInputs<'_>, sets_port: bool) -> Vec<EnvVar> {
    let checked = inputs.checked;
    let port = checked.networking.port();
    // They override the port in the server's own file.
    let ports = ["LLAMA_STACK_PORT", "OGX_PORT"]
        .into_iter()
        .filter(|_| sets_port)
        .map(|name| literal(name, port.to_string()));
    let workers = checked.workload.workers;
    let workers = workers.map(|workers| literal("OGX_WORKERS", workers.to_string()));
    ports.chain(workers).chain(data_variables(inputs)).collect()
}

/// The variables that lead the data of a server to its persistent volume. The home directory of the
/// server, where it would be otherwise, depends on the user of the image.
fn data_variables(inputs: &ObjectInputs<'_>) -> Vec<EnvVar> {
    let checked = inputs.checked;
    if checked.workload.volume.is_none() {
        return Vec::new();
    }
    let data = volumes::data_folder(checked).trim_end_matches('/');
    let homes = ["LLAMA_STACK_CONFIG_DIR", "OGX_CONFIG_DIR"];
    let homes = homes.map(|name| literal(name, data.to_owned())).into_iter();
    let folders = inputs.server.data_folders.iter().flatten();
    let folders = folders.map(|(name, folder)| literal(name, format!("{data}{folder}")));
    homes.chain(folders).collect()
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
        ValueSource::Part(..) => {
            from_secret(name, derived_secret::name(inputs.owner), name.clone())
        }
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
