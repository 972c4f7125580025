//! Reads images from registries: base configurations from labels, and single files.
//!
//! In: an image reference, and who pulls it. Out: the content of its labels, or a file. An image is
//! read once per digest, however many resources use it; a tag is resolved again when the registry
//! client's cache expires. If a registry is unavailable, the read fails and nothing that runs
//! changes.

mod keyrings;
mod registries;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::Checked;
use llsd_registry::{
    BaseConfig, BaseError, Error as RegistryError, FileError, Keyring, ParseReferenceError,
    Reference, Registry, chain,
};

use keyrings::Keyrings;
pub(crate) use keyrings::Puller;
pub use registries::Registries;

/// Delay before a transient failure is retried.
const RETRY: Duration = Duration::from_secs(10);
/// Delay before any other failure is retried. A registry does not notify about a push.
const RECHECK: Duration = Duration::from_secs(60);

/// Reads images for all resources.
pub struct Images {
    registries: Arc<Registries>,
    keyrings: Keyrings,
}

/// Why an image could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image reference is invalid.
    #[error(transparent)]
    Reference(#[from] ParseReferenceError),
    /// The registry failed, or the labels of the image are unusable.
    #[error("{}", chain(.0))]
    Image(#[from] BaseError),
    /// A file of the image could not be read.
    #[error("{}", chain(.0))]
    File(#[from] FileError),
    /// The pull credentials could not be read.
    #[error("failed to get {kind} {name:?}: {error}")]
    Api {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// The error of the API server.
        error: Box<kube::Error>,
    },
}

impl Error {
    /// The reason of the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Reference(_) => "BadImageReference",
            Self::Image(error) | Self::File(FileError::Image(error)) => error.reason(),
            Self::File(FileError::Absent { .. }) => "BadProviderImage",
            Self::Api { .. } => llsd_api::conditions::reason::CONFIG_GENERATION_FAILED,
        }
    }

    /// Whether the user must change the resource, the image or a credential.
    pub(crate) fn needs_user_action(&self) -> bool {
        match self {
            Self::Reference(_) => true,
            Self::Image(error) => !error.is_transient(),
            Self::File(error) => !error.is_transient(),
            Self::Api { .. } => false,
        }
    }

    /// Whether another credential might help. Some registries report "not found" for images that
    /// the user may not pull.
    fn is_access_problem(&self) -> bool {
        let (Self::Image(error) | Self::File(FileError::Image(error))) = self else {
            return false;
        };
        match error {
            BaseError::Credentials(_) => true,
            BaseError::Registry(error) => matches!(
                error,
                RegistryError::Unauthorized { .. } | RegistryError::NotFound { .. }
            ),
            _ => false,
        }
    }

    /// Delay before the next attempt.
    pub(crate) fn retry_after(&self) -> Duration {
        if self.needs_user_action() {
            RECHECK
        } else {
            RETRY
        }
    }
}

impl Images {
    /// `mounted` holds the operator's own credentials, which are tried after those of the namespace.
    pub fn new(client: Client, registries: Arc<Registries>, mounted: Keyring) -> Self {
        Self {
            registries,
            keyrings: Keyrings::new(client, mounted),
        }
    }

    /// The base configuration that the labels of an image contain or point to, with the hints about
    /// it, read for a resource of a namespace.
    pub async fn base(
        &self,
        image: &str,
        checked: &Checked,
        namespace: &str,
    ) -> Result<(Arc<BaseConfig>, Hints), Error> {
        let puller = Puller::of(checked, namespace);
        let read = self.base_config(image, &puller).await?;
        let hints = hints(&read);
        Ok((read, hints))
    }

    /// The pull secrets that were tried when images were last read for a puller.
    pub(crate) fn pull_secrets(&self, puller: &Puller) -> Vec<String> {
        self.keyrings.secrets(puller)
    }

    /// The base configuration and hints from the labels of an image.
    pub(crate) async fn base_config(
        &self,
        image: &str,
        puller: &Puller,
    ) -> Result<Arc<BaseConfig>, Error> {
        let reference: Reference = image.parse()?;
        self.read(puller, |registry, keyring| {
            let reference = reference.clone();
            async move { Ok(registry.base_config(&reference, &keyring).await?) }
        })
        .await
    }

    /// One file of an image.
    pub(crate) async fn file(
        &self,
        image: &str,
        path: &str,
        puller: &Puller,
    ) -> Result<Arc<[u8]>, Error> {
        let reference: Reference = image.parse()?;
        self.read(puller, |registry, keyring| {
            let (reference, path) = (reference.clone(), path.to_owned());
            async move { Ok(registry.image_file(&reference, &path, &keyring).await?) }
        })
        .await
    }

    async fn read<T, F>(
        &self,
        puller: &Puller,
        request: impl Fn(Registry, Keyring) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let keyring = self.keyrings.of(puller).await?;
        let registry = self.registries.current();
        let denied = match request(registry.clone(), keyring.clone()).await {
            Err(error) if error.is_access_problem() => error,
            result => return result,
        };
        // A credential may have been added or renewed since the keyring was read.
        let fresh = self.keyrings.read_again(puller).await?;
        if fresh == keyring {
            return Err(denied);
        }
        request(registry, fresh).await
    }
}

/// The hints about the base configuration from the labels of an image.
pub fn hints(read: &BaseConfig) -> Hints {
    Hints {
        labels: read.hints.clone(),
        schema: read.schema.clone(),
        server_version: read.server_version.clone(),
        ..Hints::default()
    }
}
