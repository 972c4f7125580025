//! Why a reconciliation stopped: one variant per step, in order.

use std::time::{Duration, Instant};

use llsd_api::conditions::reason;
use llsd_api::{Diagnostics, Severity};
use llsd_render::GenerateError;

use super::{apply, gather, generate, resolve_secrets, revisions};
use crate::cache::UpstreamRunning;

/// Why a reconciliation stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The stored object does not match the CRD, so not even its status can be written.
    #[error("failed to parse the resource: {0}")]
    Unreadable(String),
    /// The author paused the resource.
    #[error(
        "the resource is paused: nothing but its status is written; remove spec.paused to continue"
    )]
    Paused,
    /// Another operator manages the resource.
    #[error(transparent)]
    UpstreamRunning(#[from] UpstreamRunning),
    /// The check or build objects step rejected the spec.
    #[error("the spec was rejected")]
    Rejected(#[from] Diagnostics),
    #[error("failed to read what the resource refers to")]
    Gather(#[from] gather::Error),
    #[error("failed to generate the configuration")]
    Generate(#[from] generate::Error),
    #[error("failed to resolve the secrets")]
    ResolveSecrets(#[from] resolve_secrets::Error),
    #[error(transparent)]
    Revision(#[from] revisions::Error),
    #[error("failed to write the objects of the resource")]
    Apply(#[from] apply::Error),
    /// The steps from check to apply, or the report step, took too long.
    #[error(
        "the reconciliation did not finish within {} s and is repeated; check the load of the API server",
        .0.as_secs()
    )]
    Deadline(Duration),
    #[error(
        "the reconciliation stopped at a bug of the operator and is repeated; please report it"
    )]
    Panicked,
    #[error("failed to write the status of the resource")]
    Report(#[source] Box<kube::Error>),
}

impl Error {
    /// Whether a retry is useless until the resource, or an object that is watched, changes.
    pub(crate) fn waits_for_change(&self) -> bool {
        match self {
            Self::Unreadable(_) | Self::Paused | Self::UpstreamRunning(_) | Self::Rejected(_) => {
                true
            }
            Self::Gather(error) => error.waits_for_change(),
            Self::Generate(error) => error.waits_for_change(),
            Self::ResolveSecrets(resolve_secrets::Error::Invalid(_)) => true,
            Self::ResolveSecrets(resolve_secrets::Error::Api { .. })
            | Self::Revision(_)
            | Self::Apply(_)
            | Self::Deadline(_)
            | Self::Panicked
            | Self::Report(_) => false,
        }
    }

    /// Since when the resource waits for an image that is read in the background, if it does.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        match self {
            Self::Gather(error) => error.waiting_since(),
            _ => None,
        }
    }

    /// Whether a user must act. Objects that the API server rejects are retried all the same,
    /// because not everything that could help is watched.
    pub(crate) fn needs_user_action(&self) -> bool {
        self.waits_for_change() || matches!(self, Self::Apply(error) if error.is_rejection())
    }

    /// The reason of the conditions that report the error.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable(_) | Self::Rejected(_) => reason::CONFIG_GENERATION_FAILED,
            Self::Paused => reason::PAUSED,
            Self::UpstreamRunning(_) => reason::OTHER_OPERATOR_RUNNING,
            Self::Gather(error) => error.reason(),
            Self::Generate(error) => error.reason(),
            Self::ResolveSecrets(error) => error.reason(),
            Self::Apply(_)
            | Self::Deadline(_)
            | Self::Panicked
            | Self::Report(_)
            | Self::Revision(_) => reason::DEPLOYMENT_UPDATE_FAILED,
        }
    }

    /// What went wrong, without the name of the step.
    pub(super) fn details(&self) -> String {
        match self {
            Self::Unreadable(_)
            | Self::Paused
            | Self::UpstreamRunning(_)
            | Self::Deadline(_)
            | Self::Panicked => self.to_string(),
            Self::Rejected(diagnostics) => diagnostics.to_string(),
            Self::Gather(error) => error.to_string(),
            Self::Generate(error) => error.to_string(),
            Self::ResolveSecrets(error) => error.to_string(),
            Self::Apply(error) => error.to_string(),
            Self::Report(error) => error.to_string(),
            Self::Revision(error) => error.to_string(),
        }
    }

    /// The value of the metric label `outcome`.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Paused => "paused",
            Self::UpstreamRunning(_) => "other_operator",
            Self::Rejected(_) => "refused",
            Self::Gather(_) => "gather",
            Self::Generate(_) => "generate",
            Self::ResolveSecrets(_) => "resolve_secrets",
            Self::Revision(_) => "record",
            Self::Apply(_) => "apply",
            Self::Deadline(_) => "deadline",
            Self::Panicked => "panic",
            Self::Report(_) => "report",
        }
    }

    /// The codes of the problems for which the resource was rejected: those of the plugin, or
    /// `bad-spec` for each rule of the API.
    pub(super) fn rejection_codes(&self) -> Vec<&str> {
        match self {
            Self::Rejected(diagnostics) => diagnostics.iter().map(|_| "bad-spec").collect(),
            Self::Generate(generate::Error::Failed(GenerateError::Rejected {
                diagnostics,
                ..
            })) => diagnostics
                .iter()
                .filter(|one| one.severity == Severity::Error)
                .map(|one| one.code.as_str())
                .collect(),
            _ => Vec::new(),
        }
    }
}
