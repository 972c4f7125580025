//! Why the gather step failed.

use std::time::Instant;

use llsd_api::conditions::reason;
use llsd_api::{Diagnostics, FieldPath};
use llsd_registry::BaseError;

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
    /// The image of the server or of an external provider cannot be read.
    #[error("{field}: {error}")]
    Image {
        field: FieldPath,
        error: Box<images::ReadError>,
    },
    /// The operator's own ConfigMap must be fixed.
    #[error(transparent)]
    OperatorConfig(#[from] InvalidSettings),
    /// The image of the server has no configuration labels. FR-027e specifies the message literally.
    #[error(transparent)]
    Unlabelled(Box<images::ReadError>),
    /// A request to the API server failed.
    #[error("failed to get ConfigMap {name:?}: {error}")]
    Api {
        name: String,
        error: Box<kube::Error>,
    },
}

impl Error {
    pub(crate) fn api(name: &str, error: kube::Error) -> Self {
        Self::Api {
            name: name.to_owned(),
            error: Box::new(error),
        }
    }

    /// Since when an image is being read in the background, if the step waits for one.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        match self.image()?.cause {
            images::Error::Waiting { since, .. } => Some(since),
            _ => None,
        }
    }

    pub(super) fn server_image(field: FieldPath, error: images::ReadError) -> Self {
        match error.cause {
            images::Error::Image(BaseError::MissingConfigLabels { .. }) => {
                Self::Unlabelled(Box::new(error))
            }
            _ => Self::Image {
                field,
                error: Box::new(error),
            },
        }
    }

    /// Whether a retry is useless until an object that is watched changes.
    pub(crate) fn waits_for_change(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::ConfigMapNotFound { .. } | Self::OperatorConfig(_) => true,
            Self::Unlabelled(_) | Self::Image { .. } => self
                .image()
                .is_some_and(|error| error.cause.needs_user_action()),
            Self::Api { .. } => false,
        }
    }

    /// The error of an image, if it is one.
    pub(crate) fn image(&self) -> Option<&images::ReadError> {
        match self {
            Self::Unlabelled(error) => Some(error),
            Self::Image { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The reason of the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::ConfigMapNotFound { .. } => reason::CONFIG_MAP_NOT_FOUND,
            Self::OperatorConfig(_) => reason::OPERATOR_CONFIG_INVALID,
            Self::Unlabelled(error) => error.cause.reason(),
            Self::Image { error, .. } => error.cause.reason(),
            Self::Rejected(_) | Self::Api { .. } => reason::CONFIG_GENERATION_FAILED,
        }
    }
}
