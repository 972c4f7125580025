//! A problem with one secret reference.

use std::fmt;

use llsd_api::checked::Reference;

/// A problem with one secret reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretProblem {
    pub(super) reference: Reference,
    pub(super) kind: ProblemKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProblemKind {
    SecretNotFound,
    KeyNotFound,
    /// Why the value is unusable, without the value.
    Unusable(String),
}

impl fmt::Display for SecretProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference {
            path,
            secret,
            key,
            env: _,
        } = &self.reference;
        match &self.kind {
            ProblemKind::SecretNotFound => write!(
                f,
                "Secret not found: {secret} ({path}); create it with the key {key:?}, or correct the reference"
            ),
            ProblemKind::KeyNotFound => write!(
                f,
                "Secret key not found: {secret}/{key} ({path}); add the key, or correct the reference"
            ),
            ProblemKind::Unusable(problem) => {
                write!(
                    f,
                    "Secret value unusable: {secret}/{key} ({path}) {problem}"
                )
            }
        }
    }
}
