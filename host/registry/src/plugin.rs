//! Brings a plugin from a registry to this process, step by step, and puts one there.
//!
//! Pulling: resolve → admit → authenticate → fetch → verify; the bytes then go to the loader, whose steps
//! (inspect → compile → dry-instantiate) report through the same error type. Every failure says in which step
//! it happened. What a rule denies causes no request at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures::{FutureExt as _, TryFutureExt as _};

use crate::artifact::{self, Contents, Description, Unpacked};
use crate::client::{LocateError, Registry};
use crate::credentials::Keyring;
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::manifest::OCI_MANIFEST;
use crate::policy::{Denied, Policy, Rule};
use crate::reference::Reference;
use crate::session::Session;
use crate::signature::{self, Level};

/// A step on the way from a reference to a usable plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the reference to a digest.
    Resolve,
    /// What the installer's rules say.
    Admit,
    /// Being let in by the registry.
    Authenticate,
    /// The bytes.
    Fetch,
    /// The signatures.
    Verify,
    /// Is it a component, and does it ask for nothing?
    Inspect,
    /// To machine code.
    Compile,
    /// A first instance, asked to describe itself.
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

/// Why a plugin is not there.
#[derive(Debug, Clone, thiserror::Error)]
#[error("plugin {plugin}: {stage} failed")]
pub struct PullError {
    /// The reference as written.
    pub plugin: String,
    /// The step.
    pub stage: Stage,
    /// What went wrong in it.
    #[source]
    pub cause: Box<Cause>,
}

/// What went wrong in a step.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Cause {
    /// The mirrors or credentials lead nowhere.
    #[error("{0}")]
    Settings(String),
    /// A rule, or the absence of one.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The registry or the way to it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// It is something else than a plugin.
    #[error("it is not a plugin: {0}")]
    NotAPlugin(String),
    /// Its signatures.
    #[error(transparent)]
    Signature(#[from] signature::Error),
    /// The loader's words.
    #[error("{0}")]
    Rejected(String),
}

impl PullError {
    /// For the loader's steps: inspect, compile, dry-instantiate.
    pub fn rejected(plugin: &Reference, stage: Stage, message: impl Into<String>) -> Self {
        Self {
            plugin: plugin.to_string(),
            stage,
            cause: Box::new(Cause::Rejected(message.into())),
        }
    }

    /// The reason for the plugin's condition.
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

    /// Whether the same pull may well succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match &*self.cause {
            Cause::Registry(error) | Cause::Signature(signature::Error::Registry(error)) => {
                error.is_transient()
            }
            _ => false,
        }
    }
}

/// What the check of the signatures said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Enough trusted keys have signed; their fingerprints.
    Signed(BTreeSet<String>),
    /// They have not, and the rule only wants to know; why.
    Audited(String),
    /// Nobody looked.
    Skipped,
}

/// A plugin's bytes and how they got here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledPlugin {
    /// The component.
    pub bytes: Vec<u8>,
    /// Its identity.
    pub layer_digest: Digest,
    /// The manifest around it, which is what signatures are about.
    pub manifest_digest: Digest,
    /// Hints of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// What the signatures said.
    pub verdict: Verdict,
    /// The prefix of the rule that admitted it.
    pub admitted_by: String,
}

/// What was written by a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The reference to use from now on, pinned.
    pub reference: Reference,
    /// Digest of the manifest.
    pub manifest_digest: Digest,
    /// Digest of the component.
    pub layer_digest: Digest,
}

impl Registry {
    /// Pulls a plugin under a policy. The caller compiles and tries the bytes.
    pub async fn pull_plugin(
        &self,
        plugin: &Reference,
        keyring: &Keyring,
        policy: &Policy,
    ) -> Result<PulledPlugin, PullError> {
        let failed = |stage, cause| PullError {
            plugin: plugin.to_string(),
            stage,
            cause: Box::new(cause),
        };
        // Before anything is asked: a name nobody allowed is not worth a request.
        let rule = policy
            .admit(plugin)
            .map_err(|denied| failed(Stage::Admit, denied.into()))?;
        let pulling = pull(self, plugin, keyring, rule);
        let at = plugin.to_string();
        let limited = self
            .inner
            .within_deadline(&at, pulling.map_err(Failure))
            .await;
        limited.map_err(|Failure((stage, cause))| failed(stage, cause))
    }

    /// Pushes a component as a plugin. The same component and description give the same manifest digest.
    pub async fn push_plugin(
        &self,
        target: &Reference,
        component: &[u8],
        description: &Description,
        keyring: &Keyring,
    ) -> Result<Pushed, PullError> {
        let failed = |stage, cause| PullError {
            plugin: target.to_string(),
            stage,
            cause: Box::new(cause),
        };
        let packed = artifact::pack(component, description)
            .map_err(|error| failed(Stage::Resolve, Cause::Settings(error.to_string())))?;
        let located = self.inner.locate(target, keyring).map_err(|error| {
            let (stage, cause) = settings_failure(error);
            failed(stage, cause)
        })?;
        let repository = located.target.repository();
        let selector = match located.target.tag() {
            Some(tag) => tag.to_owned(),
            None => packed.manifest_digest.to_string(),
        };
        if target
            .digest()
            .is_some_and(|digest| *digest != packed.manifest_digest)
        {
            let problem = format!(
                "the reference is pinned and the manifest is {}",
                packed.manifest_digest
            );
            return Err(failed(Stage::Resolve, Cause::Settings(problem)));
        }
        let write = async |session: Arc<Session>| {
            session
                .put_blob(repository, packed.config.clone().into())
                .await?;
            session
                .put_blob(repository, component.to_vec().into())
                .await?;
            let bytes = packed.manifest.clone();
            session
                .put_manifest(repository, &selector, OCI_MANIFEST, bytes)
                .await
        };
        let writing = self
            .inner
            .try_each(&located, |session| write(session).boxed());
        let written = self
            .inner
            .within_deadline(&target.to_string(), writing)
            .await;
        written.map_err(|error| failed(stage_of(&error, Stage::Fetch), error.into()))?;
        Ok(Pushed {
            reference: target.at(&packed.manifest_digest),
            manifest_digest: packed.manifest_digest,
            layer_digest: packed.layer_digest,
        })
    }
}

type StageFailure = (Stage, Cause);

/// Lets the deadline of the client speak in the words of a pull.
struct Failure(StageFailure);

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Self((Stage::Fetch, error.into()))
    }
}

async fn pull(
    registry: &Registry,
    plugin: &Reference,
    keyring: &Keyring,
    rule: &Rule,
) -> Result<PulledPlugin, StageFailure> {
    let inner = &registry.inner;
    let at = |stage| move |error: RegistryError| (stage_of(&error, stage), Cause::from(error));
    let located = Arc::new(inner.locate(plugin, keyring).map_err(settings_failure)?);
    let repository = located.target.repository();
    // A pull is asked for by somebody who wants the newest, so tags are always asked.
    let mut digest = inner.resolve(&located).await.map_err(at(Stage::Resolve))?;
    let (session, mut bytes) = inner
        .first_manifest(&located, &digest)
        .await
        .map_err(at(Stage::Fetch))?;
    let not_a_plugin = |problem| (Stage::Inspect, Cause::NotAPlugin(problem));
    let mut unpacked = artifact::unpack(&bytes).map_err(not_a_plugin)?;
    if let Unpacked::One(only) = unpacked {
        bytes = inner
            .manifest(&session, repository, &only)
            .await
            .map_err(at(Stage::Fetch))?;
        digest = only;
        unpacked = artifact::unpack(&bytes).map_err(not_a_plugin)?;
    }
    let Unpacked::Plugin(contents) = unpacked else {
        return Err(not_a_plugin("its index leads to another index".to_owned()));
    };
    let Contents {
        layer,
        config,
        annotations,
    } = *contents;
    rule.admit_size(layer.size)
        .map_err(|denied| (Stage::Admit, denied.into()))?;
    let config_limit = inner.settings.limits.config_bytes;
    let fetched = inner
        .blob(&session, repository, &config, config_limit)
        .await;
    artifact::check_config(&fetched.map_err(at(Stage::Fetch))?, &layer.digest)
        .map_err(not_a_plugin)?;
    let component = inner
        .blob(&session, repository, &layer, rule.max_bytes)
        .await;
    let component = component.map_err(at(Stage::Fetch))?;
    let verdict = verdict(&session, repository, &digest, &bytes, rule).await?;
    Ok(PulledPlugin {
        bytes: component,
        layer_digest: layer.digest,
        manifest_digest: digest,
        annotations,
        verdict,
        admitted_by: rule.prefix.clone(),
    })
}

async fn verdict(
    session: &Session,
    repository: &str,
    digest: &Digest,
    manifest: &[u8],
    rule: &Rule,
) -> Result<Verdict, StageFailure> {
    let verification = &rule.verification;
    if verification.level == Level::Skip {
        return Ok(Verdict::Skipped);
    }
    match signature::verify(session, repository, digest, manifest, verification).await {
        Ok(keys) => Ok(Verdict::Signed(keys)),
        Err(error) if verification.level == Level::Audit => {
            tracing::warn!(%digest, %error, "a plugin without the wanted signatures is used (audit)");
            Ok(Verdict::Audited(error.to_string()))
        }
        Err(error) => Err((Stage::Verify, error.into())),
    }
}

/// A refusal belongs to its own step, wherever it came up.
fn stage_of(error: &RegistryError, otherwise: Stage) -> Stage {
    match error {
        RegistryError::Unauthorized { .. } => Stage::Authenticate,
        _ => otherwise,
    }
}

fn settings_failure(error: LocateError) -> StageFailure {
    let stage = match error {
        LocateError::Mirror(_) => Stage::Resolve,
        LocateError::Credentials(_) => Stage::Authenticate,
    };
    (stage, Cause::Settings(error.to_string()))
}
