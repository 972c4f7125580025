//! Conversion between v1alpha1 and v1alpha2, both ways, without loss.
//!
//! In: a resource of either version as JSON, exactly as the cluster or a file has it. Out: the same
//! resource in the other version. Absent, empty and zero stay what they were.
//!
//! # What one version cannot say
//!
//! A table (`moves`) says where each field of one version stands in the other. What the table
//! does not bring across is a *carried field*: it travels in an annotation of the converted
//! resource, [`CARRIED_V1ALPHA1`] or [`CARRIED_V1ALPHA2`], and is put back on the way home. The
//! annotation maps a JSON pointer to what the field `is` and to what the table alone would make it
//! (`was`). So a round trip gives back the very same resource, whatever it holds. It is there also when
//! nothing is carried: it tells that the resource was made in the other version.
//!
//! # What an edit does
//!
//! * A carried field is put back wherever the place still holds what the table made of it (`was`).
//!   An edit through one version therefore keeps everything that only the other can say.
//! * Where the edit changed that very place, the edit wins: whoever edits last means it. The value
//!   that gave way is kept in [`CONFLICTS`] on the v1alpha2 resource, and reported from there.
//! * An edit that is good by itself but contradicts a carried field elsewhere (a `userConfig` beside
//!   carried `providers`) is not resolved here: the result breaks a rule and is refused on admission.

mod carried;
mod lift_env;
mod moves;

use std::str::FromStr;

use serde_json::{Map, Value};

pub use carried::{CARRIED_V1ALPHA1, CARRIED_V1ALPHA2, CONFLICTS, was_made_in_v1alpha1};
pub use lift_env::{Lifted, lift_env};
pub use moves::v1alpha1_path;

use crate::diagnostic::Diagnostic;
use crate::document::{API_VERSION_V1ALPHA1, API_VERSION_V1ALPHA2, KIND};
use crate::field_path::FieldPath;

/// A version of `LlamaStackDistribution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The first operator's.
    V1Alpha1,
    /// The one that is stored.
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
    let text = |field: &str| {
        document
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if text("kind") != KIND {
        return Err(Diagnostic::error(
            FieldPath::from("kind"),
            format!("{:?} cannot be converted", text("kind")),
            format!("send a {KIND}"),
        ));
    }
    let from: Version = text("apiVersion").parse()?;
    if from != to {
        document = match to {
            Version::V1Alpha1 => carried::exchange(document, &moves::DOWN),
            Version::V1Alpha2 => carried::exchange(document, &moves::UP),
        };
        document.insert("apiVersion".to_owned(), Value::from(to.api_version()));
    }
    Ok(Value::Object(document))
}

/// One direction of the conversion.
struct Direction {
    /// What the table makes of a resource.
    translate: fn(&Map<String, Value>) -> Map<String, Value>,
    /// The other way.
    back: fn(&Map<String, Value>) -> Map<String, Value>,
    /// The annotation that the source brings for the target.
    brought: &'static str,
    /// The annotation that the target takes along for the source.
    taken: &'static str,
    /// Whether an object at a place of the source is a group of fields, each of which may be edited.
    source_groups: fn(&str) -> bool,
    /// Whether the target shows what gave way to an edit.
    reports_conflicts: bool,
}

#[cfg(test)]
mod tests;
