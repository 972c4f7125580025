//! Why the gather step failed.

use llsd_api::conditions::reason;
use llsd_api::{Diagnostics, FieldPath};

use crate::images;
use crate::settings::InvalidSettings;

/// Why the gather step failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The resource must be changed.
    #[error(transparent)]
    Rejected(#[from] Diagnostics),
    /// A ConfigMap, or a key of one, is missing.
    #[error("{field}: {problem}; {fix}")]
    ConfigMapNotFound {
        field: FieldPath,
        problem: String,
        fix: String,
    },
    /// The image of an external provider cannot be read.
    #[error("{field}: {error}")]
    ProviderImage {
        field: FieldPath,
        error: Box<images::Error>,
    },
    /// The operator's own ConfigMap must be fixed.
    #[error(transparent)]
    OperatorConfig(#[from] InvalidSettings),
    /// The image of the server cannot be read.
    #[error(transparent)]
    Image(#[from] images::Error),
    /// A request to the API server failed.
    #[error("failed to get ConfigMap {name:?}: {error}")]
    Api {
        name: String,
        error: Box<kube::Error>,
    },
}

impl Error {
    pub(super) fn api(name: &str, error: kube::Error) -> Self {
        Self::Api {
            name: name.to_owned(),
            error: Box::new(error),
        }
    }

    /// Whether a retry is useless until an object that is watched changes.
    pub(crate) fn waits_for_change(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::ConfigMapNotFound { .. } | Self::OperatorConfig(_) => true,
            Self::Image(_) | Self::ProviderImage { .. } => {
                self.image().is_some_and(images::Error::needs_user_action)
            }
            Self::Api { .. } => false,
        }
    }

    /// The error of an image, if it is one.
    pub(crate) fn image(&self) -> Option<&images::Error> {
        match self {
            Self::Image(error) => Some(error),
            Self::ProviderImage { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The reason of the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::ConfigMapNotFound { .. } => reason::CONFIG_MAP_NOT_FOUND,
            Self::OperatorConfig(_) => reason::OPERATOR_CONFIG_INVALID,
            Self::Image(error) => error.reason(),
            Self::ProviderImage { error, .. } => error.reason(),
            Self::Rejected(_) | Self::Api { .. } => reason::CONFIG_GENERATION_FAILED,
        }
    }
}
