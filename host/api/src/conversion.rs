//! Lossless conversion between v1alpha1 and v1alpha2.
//!
//! In: a resource of either version as JSON. Out: the same resource in the other version. Absent,
//! empty and zero values stay as they are.
//!
//! # Preserved fields
//!
//! A table (`field_table`) maps the fields that exist in both versions. All other fields are
//! *preserved*: the conversion stores them in an annotation of the converted resource,
//! [`V1ALPHA1_FIELDS`] or [`V1ALPHA2_FIELDS`], and restores them when the resource is converted back.
//! The annotation maps a JSON pointer to the value of the field (`is`) and to the value that the table
//! alone would give it (`was`). A round trip therefore returns the same resource. The annotation is
//! also written when it is empty: it marks a resource that was created in the other version.
//!
//! # Edits
//!
//! * A preserved field is restored if the field still has the value `was`. An edit through one version
//!   therefore keeps the fields that only the other version has.
//! * If the edit changed the field itself, the edit wins. The replaced value is stored in the
//!   annotation [`CONFLICTS`] of the v1alpha2 resource, and the webhook reports it.
//! * An edit can contradict a preserved field elsewhere, for example a `userConfig` and preserved
//!   `providers`. The conversion does not resolve this: the result violates a rule and admission
//!   rejects it.

mod annotations;
mod field_table;
mod lift_env;
mod ogx_server;
mod pointer;
mod preserved_fields;
mod translation;

use std::str::FromStr;

use serde_json::Value;

pub use annotations::{CONFLICTS, V1ALPHA1_FIELDS, V1ALPHA2_FIELDS, was_made_in_v1alpha1};
pub use field_table::v1alpha1_path;
pub use lift_env::{Lifted, lift_env};
pub use ogx_server::{
    CONVERTED_FROM, Foreign, OGX_API_VERSION, OGX_KIND, from_ogx_server, to_ogx_server,
};

use crate::diagnostic::Diagnostic;
use crate::field_path::FieldPath;
use crate::gvk::{API_VERSION_V1ALPHA1, API_VERSION_V1ALPHA2, KIND};

/// A version of `LlamaStackDistribution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The version of llama-stack-k8s-operator.
    V1Alpha1,
    /// The storage version.
    V1Alpha2,
}

impl Version {
    /// `llamastack.io/v1alpha1`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1Alpha1 => API_VERSION_V1ALPHA1,
            Self::V1Alpha2 => API_VERSION_V1ALPHA2,
        }
    }
}

/// Parses an `apiVersion`.
impl FromStr for Version {
    type Err = Diagnostic;

    fn from_str(api_version: &str) -> Result<Self, Diagnostic> {
        [Self::V1Alpha1, Self::V1Alpha2]
            .into_iter()
            .find(|version| version.api_version() == api_version)
            .ok_or_else(|| {
                Diagnostic::error(
                    FieldPath::from("apiVersion"),
                    format!("{api_version:?} is not a version of {KIND}"),
                    format!("use {API_VERSION_V1ALPHA1} or {API_VERSION_V1ALPHA2}"),
                )
            })
    }
}

/// Converts a resource to the version `to`. A resource of that version is returned unchanged.
pub fn convert(document: Value, to: Version) -> Result<Value, Diagnostic> {
    let Value::Object(mut document) = document else {
        return Err(Diagnostic::error(
            FieldPath::root(),
            "must be an object",
            format!("send a {KIND}"),
        ));
    };
    let string = |field: &str| {
        document
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if string("kind") != KIND {
        return Err(Diagnostic::error(
            FieldPath::from("kind"),
            format!("{:?} cannot be converted", string("kind")),
            format!("send a {KIND}"),
        ));
    }
    let from: Version = string("apiVersion").parse()?;
    if from != to {
        document = match to {
            Version::V1Alpha1 => preserved_fields::convert(document, &translation::DOWN),
            Version::V1Alpha2 => preserved_fields::convert(document, &translation::UP),
        };
        document.insert("apiVersion".to_owned(), Value::from(to.api_version()));
    }
    Ok(Value::Object(document))
}

#[cfg(test)]
mod tests;
