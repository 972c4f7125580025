//! What secret values were taken apart into, in a Secret that belongs to the resource.
//!
//! Values pass through here into the Secret and nowhere else.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::{ObjectInputs, Owner, SECRETS_DIGEST, metadata, text_map};

pub(super) const SUFFIX: &str = "-derived";

/// By variable, its value. Shown nowhere.
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

/// It tells by an annotation when its values change: their own digest would give them away.
pub(super) fn secret(inputs: &ObjectInputs<'_>) -> Option<Secret> {
    let DerivedValues(values) = inputs.derived;
    let data = values
        .iter()
        .map(|(variable, value)| (variable.clone(), ByteString(value.clone().into_bytes())));
    let mut metadata = metadata(inputs.owner, SUFFIX);
    metadata.annotations = inputs
        .secrets_digest
        .map(|digest| text_map([(SECRETS_DIGEST, digest)]));
    (!values.is_empty()).then(|| Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    })
}
