//! Errors of pulling, pushing and loading plugins.

use std::fmt;

use crate::error::Error as RegistryError;
use crate::policy::Denied;
use crate::reference::Reference;
use crate::signature;

/// A stage between a reference and a loaded plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Resolves the reference to a digest.
    Resolve,
    /// Checks the rules of the installer.
    Admit,
    /// Authenticates to the registry.
    Authenticate,
    /// Fetches the manifest and the component.
    Fetch,
    /// Verifies the signatures.
    Verify,
    /// Checks that it is a component without imports.
    Inspect,
    /// Compiles it.
    Compile,
    /// Creates an instance and calls `describe`.
    DryInstantiate,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "resolve",
            Self::Admit => "admit",
            Self::Authenticate => "authenticate",
            Self::Fetch => "fetch",
            Self::Verify => "verify",
            Self::Inspect => "inspect",
            Self::Compile => "compile",
            Self::DryInstantiate => "dry-instantiate",
        })
    }
}

/// A pull, push or load of a plugin failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("plugin {plugin}: {stage} failed")]
pub struct PullError {
    /// The reference.
    pub plugin: String,
    /// The stage that failed.
    pub stage: Stage,
    /// The cause.
    #[source]
    pub cause: Box<Cause>,
}

/// The cause of a failed stage.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Cause {
    /// The mirrors, credentials or the reference are invalid.
    #[error("{0}")]
    Settings(String),
    /// No rule allows the plugin.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A request to the registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The artifact is not a plugin.
    #[error("the artifact is not a plugin: {0}")]
    NotAPlugin(String),
    /// The signatures are missing or invalid.
    #[error(transparent)]
    Signature(#[from] signature::Error),
    /// The loader rejected the component.
    #[error("{0}")]
    Rejected(String),
}

impl PullError {
    /// An error of the loader: inspect, compile or dry-instantiate.
    pub fn rejected(plugin: &Reference, stage: Stage, message: impl Into<String>) -> Self {
        Self {
            plugin: plugin.to_string(),
            stage,
            cause: Box::new(Cause::Rejected(message.into())),
        }
    }

    /// The reason for the condition of the plugin.
    pub fn reason(&self) -> &'static str {
        match (&*self.cause, self.stage) {
            (Cause::Settings(_), Stage::Authenticate) => "AuthFailed",
            (Cause::Settings(_), _) => "BadSettings",
            (Cause::Denied(Denied::TooLarge { .. }), _) => "TooLarge",
            (Cause::Denied(_), _) => "PolicyDenied",
            (Cause::Registry(error), _) => error.reason(),
            (Cause::NotAPlugin(_), _) | (Cause::Rejected(_), Stage::Inspect) => "Incompatible",
            (Cause::Signature(signature::Error::Registry(error)), _) => error.reason(),
            (Cause::Signature(_), _) => "SignatureInvalid",
            (Cause::Rejected(_), Stage::Compile) => "CompileFailed",
            (Cause::Rejected(_), _) => "SelfTestFailed",
        }
    }

    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match &*self.cause {
            Cause::Registry(error) | Cause::Signature(signature::Error::Registry(error)) => {
                error.is_transient()
            }
            _ => false,
        }
    }
}
