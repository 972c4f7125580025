//! Pulls and pushes plugins.
//!
//! The stages of a pull are resolve, admit, authenticate, fetch and verify. The loader continues with
//! inspect, compile and dry-instantiate, and uses the same error type. Every error names its stage. If
//! no rule allows the plugin, no request is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{FutureExt as _, TryFutureExt as _};

use crate::artifact::{self, Attachment, Description, EMPTY_CONFIG, PluginManifest, Unpacked};
use crate::client::{LocateError, Registry};
use crate::credentials::Keyring;
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::manifest::OCI_MANIFEST;
use crate::policy::{Policy, Rule};
use crate::reference::Reference;
use crate::session::Session;
use crate::signature::{self, Level, SignedArtifact};

mod error;

pub use error::{Cause, PullError, Stage};

/// The result of the signature check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureStatus {
    /// Enough trusted keys and identities have signed: fingerprints of keys, and `subject (issuer)` of others.
    Signed(BTreeSet<String>),
    /// The signatures are not sufficient, and the level is audit: why.
    Audited(String),
    /// The rule requires no signatures.
    Skipped,
}

/// A pulled plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledPlugin {
    /// The component.
    pub bytes: Vec<u8>,
    /// The digest of the component, which identifies the plugin.
    pub layer_digest: Digest,
    /// The digest of the manifest, which the signatures refer to.
    pub manifest_digest: Digest,
    /// The annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// The result of the signature check.
    pub signature_status: SignatureStatus,
    /// The prefix of the rule that admitted it.
    pub admitted_by: String,
}

/// A pushed plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The reference, pinned to the digest.
    pub reference: Reference,
    /// Digest of the manifest.
    pub manifest_digest: Digest,
    /// Digest of the component.
    pub layer_digest: Digest,
}

impl Registry {
    /// Pulls a plugin that the policy allows. The caller loads the component.
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
        // Check the rules first, so that a denied plugin causes no request.
        let rule = policy
            .admit(plugin)
            .map_err(|denied| failed(Stage::Admit, denied.into()))?;
        let pulling = pull(self, plugin, keyring, rule);
        let at = plugin.to_string();
        let pulled = self
            .inner
            .within_deadline(&at, pulling.map_err(StageError))
            .await;
        pulled.map_err(|StageError((stage, cause))| failed(stage, cause))
    }

    /// The digest that a tag points to. `None` if the tag or the repository does not exist.
    pub async fn tagged_digest(
        &self,
        target: &Reference,
        keyring: &Keyring,
    ) -> Result<Option<Digest>, PullError> {
        let failed = |stage, cause| PullError {
            plugin: target.to_string(),
            stage,
            cause: Box::new(cause),
        };
        let located = self.inner.locate(target, keyring).map_err(|error| {
            let (stage, cause) = settings_failure(error);
            failed(stage, cause)
        })?;
        match self.inner.resolve(&located).await {
            Ok(digest) => Ok(Some(digest)),
            // Some registries deny access to a repository that does not exist yet. If access is really
            // denied, the push fails.
            Err(RegistryError::NotFound { .. } | RegistryError::Unauthorized { .. }) => Ok(None),
            Err(error) => Err(failed(stage_of(&error, Stage::Resolve), error.into())),
        }
    }

    /// Pushes a component as a plugin. Equal components and descriptions give equal manifest digests.
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
        let tag_or_digest = match located.target.tag() {
            Some(tag) => tag.to_owned(),
            None => packed.manifest_digest.to_string(),
        };
        if target
            .digest()
            .is_some_and(|digest| *digest != packed.manifest_digest)
        {
            let problem = format!(
                "the reference is pinned to another digest than that of the manifest, {}; remove the digest",
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
                .put_manifest(repository, &tag_or_digest, OCI_MANIFEST, bytes)
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

impl Registry {
    /// Attaches a document to a pushed plugin, as a referrer of its manifest.
    pub async fn attach(
        &self,
        plugin: &Reference,
        document: &Attachment,
        keyring: &Keyring,
    ) -> Result<(), PullError> {
        let failed = |stage, cause| PullError {
            plugin: plugin.to_string(),
            stage,
            cause: Box::new(cause),
        };
        let located = self.inner.locate(plugin, keyring).map_err(|error| {
            let (stage, cause) = settings_failure(error);
            failed(stage, cause)
        })?;
        let target = &located.target;
        let name = target.digest().map(ToString::to_string);
        let name = name.or_else(|| target.tag().map(str::to_owned));
        let name = name.unwrap_or_default();
        let attach = async |session: Arc<Session>| {
            let repository = target.repository();
            let subject = session.get_manifest(repository, &name).await?;
            for blob in [EMPTY_CONFIG, &document.content] {
                session.put_blob(repository, blob.to_vec().into()).await?;
            }
            let manifest = document.pack(&subject.bytes);
            let media_type = &document.media_type;
            session
                .put_referrer(repository, &subject.digest, media_type, manifest)
                .await
        };
        let attaching = self
            .inner
            .try_each(&located, |session| attach(session).boxed());
        let attached = self
            .inner
            .within_deadline(&plugin.to_string(), attaching)
            .await;
        attached.map_err(|error| failed(stage_of(&error, Stage::Fetch), error.into()))?;
        Ok(())
    }
}

type StageFailure = (Stage, Cause);

/// Converts a timeout of `within_deadline` into a failure of a stage.
struct StageError(StageFailure);

impl From<RegistryError> for StageError {
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
    // A pull always resolves the tag again: the caller wants the newest version.
    let mut digest = inner.resolve(&located).await.map_err(at(Stage::Resolve))?;
    let (session, mut bytes) = inner
        .first_manifest(&located, &digest)
        .await
        .map_err(at(Stage::Fetch))?;
    let not_a_plugin = |problem| (Stage::Inspect, Cause::NotAPlugin(problem));
    let mut unpacked = artifact::unpack(&bytes).map_err(not_a_plugin)?;
    if let Unpacked::SingleEntryIndex(only) = unpacked {
        bytes = inner
            .manifest(&session, repository, &only)
            .await
            .map_err(at(Stage::Fetch))?;
        digest = only;
        unpacked = artifact::unpack(&bytes).map_err(not_a_plugin)?;
    }
    let Unpacked::Plugin(contents) = unpacked else {
        return Err(not_a_plugin("the index contains another index".to_owned()));
    };
    let PluginManifest {
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
    let artifact = SignedArtifact {
        requested: plugin,
        digest: &digest,
        manifest: &bytes,
    };
    let signature_status = check_signatures(&session, repository, &artifact, rule).await?;
    Ok(PulledPlugin {
        bytes: component,
        layer_digest: layer.digest,
        manifest_digest: digest,
        annotations,
        signature_status,
        admitted_by: rule.prefix.clone(),
    })
}

/// Verifies the signatures as the rule requires.
async fn check_signatures(
    session: &Session,
    repository: &str,
    artifact: &SignedArtifact<'_>,
    rule: &Rule,
) -> Result<SignatureStatus, StageFailure> {
    let verification = &rule.verification;
    if verification.level == Level::Skip {
        return Ok(SignatureStatus::Skipped);
    }
    match signature::verify(session, repository, artifact, verification).await {
        Ok(keys) => Ok(SignatureStatus::Signed(keys)),
        Err(error) if verification.level == Level::Audit => {
            tracing::warn!(digest = %artifact.digest, %error, "using a plugin without the required signatures because the level is audit");
            Ok(SignatureStatus::Audited(error.to_string()))
        }
        Err(error) => Err((Stage::Verify, error.into())),
    }
}

/// The stage of an error. Denied access always belongs to authenticate.
fn stage_of(error: &RegistryError, current: Stage) -> Stage {
    match error {
        RegistryError::Unauthorized { .. } => Stage::Authenticate,
        _ => current,
    }
}

fn settings_failure(error: LocateError) -> StageFailure {
    let stage = match error {
        LocateError::Mirror(_) => Stage::Resolve,
        LocateError::Credentials(_) => Stage::Authenticate,
    };
    (stage, Cause::Settings(error.to_string()))
}
