//! The Secret keys that the pods of a resource need.

use llsd_adapter_sdk::documents::{Part, ReadAs};
use llsd_api::FieldPath;
use llsd_api::checked::{Checked, Reference};
use llsd_render::objects::ConfigPlan;
use llsd_render::{PodVariable, ValueSource};

/// A Secret key that the pod needs.
pub(super) struct RequiredKey {
    pub(super) reference: Reference,
    pub(super) usage: Usage,
}

/// What a value is used for.
pub(super) enum Usage {
    /// The value of an environment variable.
    Whole { read_as: ReadAs },
    /// A part of it is the value of an environment variable.
    Part {
        variable: String,
        part: Part,
        read_as: ReadAs,
    },
    /// Passed on as it is: the content of a mounted file, or a variable of the overrides.
    AsIs,
}

/// Every key that the pod needs, for environment variables and for mounted files.
pub(super) fn required_keys(checked: &Checked, plan: &ConfigPlan) -> Vec<RequiredKey> {
    let variables = match plan {
        ConfigPlan::Generated(generated) => generated.variables.as_slice(),
        ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => &[],
    };
    let certificate = checked.networking.tls_secret.iter().flat_map(|secret| {
        ["tls.crt", "tls.key"].map(|key| RequiredKey {
            reference: Reference {
                path: FieldPath::spec().at(&["networking", "tls", "secretName"]),
                secret: secret.clone(),
                key: key.to_owned(),
                env: String::new(),
            },
            usage: Usage::AsIs,
        })
    });
    let of_variables = variables.iter().filter_map(required_by);
    // The operator does not know how the server reads a variable of the overrides.
    let of_overrides = checked.workload.override_references().into_iter();
    let of_overrides = of_overrides.map(|reference| RequiredKey {
        reference,
        usage: Usage::AsIs,
    });
    let files = checked.secret_files().map(|file| RequiredKey {
        reference: file.reference.clone(),
        usage: Usage::AsIs,
    });
    of_variables
        .chain(of_overrides)
        .chain(files)
        .chain(certificate)
        .collect()
}

fn required_by(variable: &PodVariable) -> Option<RequiredKey> {
    let &PodVariable {
        ref name,
        ref source,
        read_as,
    } = variable;
    let (reference, usage) = match source {
        ValueSource::Secret(reference) => (reference, Usage::Whole { read_as }),
        ValueSource::Part(reference, part) => {
            let usage = Usage::Part {
                variable: name.clone(),
                part: *part,
                read_as,
            };
            (reference, usage)
        }
        ValueSource::Literal(_) => return None,
    };
    let reference = reference.clone();
    Some(RequiredKey { reference, usage })
}
