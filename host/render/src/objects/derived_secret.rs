//! The Secret with values that were extracted from other secret values, such as the host of a
//! connection string.
//!
//! This module writes secret values to the Secret only, never to messages or logs.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::metadata::{metadata, string_map};
use super::{ObjectInputs, Owner, SECRETS_DIGEST};

pub(super) const SUFFIX: &str = "-derived";

/// The value of each variable. `Debug` prints the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DerivedValues(pub BTreeMap<String, String>);

impl std::fmt::Debug for DerivedValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Name of the Secret.
pub(super) fn name(owner: &Owner) -> String {
    format!("{}{SUFFIX}", owner.name)
}

/// The Secret. Its annotation changes with the values and is keyed, because a plain digest of a short
/// value would reveal it.
pub(super) fn secret(inputs: &ObjectInputs<'_>) -> Option<Secret> {
    let DerivedValues(values) = inputs.derived;
    let data = values
        .iter()
        .map(|(variable, value)| (variable.clone(), ByteString(value.clone().into_bytes())));
    let mut metadata = metadata(inputs.owner, SUFFIX);
    metadata.annotations = inputs
        .secrets_digest
        .map(|digest| string_map([(SECRETS_DIGEST, digest)]));
    (!values.is_empty()).then(|| Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    })
}
