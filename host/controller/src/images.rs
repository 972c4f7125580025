//! Reads images from registries: base configurations from labels, and single files.
//!
//! In: an image reference, and who pulls it. Out: the content of its labels, or a file. An image is
//! read once per digest, however many resources use it; a tag is resolved again when the registry
//! client's cache expires. If a registry is unavailable, the read fails and nothing that runs
//! changes.
//!
//! [`Images`] reads while its caller waits. [`Fetcher`] reads in the background, with a share for each
//! namespace, and never makes a reconciliation wait for a registry.

mod fair_queue;
mod fetched;
mod fetcher;
mod keyrings;
mod lookup;
mod registries;
mod retry;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use llsd_adapter_sdk::documents::Hints;
use llsd_registry::{
    BaseConfig, BaseError, Error as RegistryError, FileError, Keyring, ParseReferenceError,
    Reference, Registry, chain,
};

pub(crate) use fetcher::Fetcher;
use keyrings::Keyrings;
pub(crate) use keyrings::Puller;
pub use lookup::ImageLookup;
pub use registries::Registries;

/// Reads images for a resource.
pub(crate) trait ImageReader: Sync {
    /// The base configuration and hints from the labels of an image.
    fn base_config(
        &self,
        image: &str,
        puller: &Puller,
    ) -> impl Future<Output = Result<Arc<BaseConfig>, ReadError>> + Send;

    /// One file of an image.
    fn file(
        &self,
        image: &str,
        path: &str,
        puller: &Puller,
    ) -> impl Future<Output = Result<Arc<[u8]>, ReadError>> + Send;
}

/// Reads images while the caller waits.
pub(crate) struct Images {
    registries: Arc<Registries>,
    keyrings: Keyrings,
}

/// Why an image could not be read, and when to try again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{cause}")]
pub(crate) struct ReadError {
    /// Why.
    pub(crate) cause: Error,
    /// Delay before the next attempt.
    pub(crate) retry_after: Duration,
}

impl From<Error> for ReadError {
    fn from(cause: Error) -> Self {
        Self {
            retry_after: retry::delay(&cause, 1),
            cause,
        }
    }
}

/// Why an image could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
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
        error: Arc<kube::Error>,
    },
    /// The image is being read in the background.
    #[error(
        "waiting for image {image} to be read from its registry; at most {} images are read at the same time for one namespace, each for at most {} s; if this takes longer, check that the registry responds",
        fetcher::SHARES.of_one_namespace,
        fetcher::DEADLINE.as_secs()
    )]
    Waiting {
        /// The image.
        image: String,
        /// Since when.
        since: Instant,
    },
    /// Reading the image takes too long.
    #[error(
        "image {image}: not read within {} s; check that its registry responds, or use another registry",
        .limit.as_secs()
    )]
    Deadline {
        /// The image.
        image: String,
        /// The time limit.
        limit: Duration,
    },
    /// The registry did not answer, and is not asked again yet.
    #[error(
        "image {image}: registry {host:?} did not answer the last {failures} reads for namespace {namespace:?}, so it is not asked again yet; check that it responds, or use another registry"
    )]
    HostBackoff {
        /// The image.
        image: String,
        /// Its registry.
        host: String,
        /// The namespace of the resource.
        namespace: String,
        /// Failed reads in a row.
        failures: u32,
        /// When it is asked again.
        until: Instant,
    },
    /// The namespace refers to more images than may wait at a time.
    #[error(
        "image {image}: namespace {namespace:?} waits for {limit} images already, which is the limit; use fewer different images in the namespace"
    )]
    TooMany {
        /// The image.
        image: String,
        /// The namespace of the resource.
        namespace: String,
        /// The limit.
        limit: usize,
    },
    /// The read ended without a result.
    #[error("reading image {image} ended unexpectedly; see the log of the operator")]
    Interrupted {
        /// The image.
        image: String,
    },
}

impl Error {
    /// The reason of the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Reference(_) => "BadImageReference",
            Self::Image(error) | Self::File(FileError::Image(error)) => error.reason(),
            Self::File(FileError::Absent { .. }) => "BadProviderImage",
            Self::Api { .. } | Self::Interrupted { .. } => {
                llsd_api::conditions::reason::CONFIG_GENERATION_FAILED
            }
            Self::Waiting { .. } => llsd_api::conditions::reason::WAITING_FOR_IMAGE,
            Self::Deadline { .. } => "RegistryTimeout",
            Self::HostBackoff { .. } => "RegistryUnreachable",
            Self::TooMany { .. } => "TooManyImages",
        }
    }

    /// Whether the user must change the resource, the image or a credential.
    pub(crate) fn needs_user_action(&self) -> bool {
        match self {
            Self::Reference(_) | Self::TooMany { .. } => true,
            Self::Image(error) => !error.is_transient(),
            Self::File(error) => !error.is_transient(),
            Self::Api { .. }
            | Self::Waiting { .. }
            | Self::Deadline { .. }
            | Self::HostBackoff { .. }
            | Self::Interrupted { .. } => false,
        }
    }

    /// Whether the registry did not answer, or not in time.
    fn is_silence(&self) -> bool {
        match self {
            Self::Deadline { .. } => true,
            Self::Image(BaseError::Registry(error))
            | Self::File(FileError::Image(BaseError::Registry(error))) => matches!(
                error,
                RegistryError::Unreachable { .. }
                    | RegistryError::TimedOut { .. }
                    | RegistryError::ConnectionLost { .. }
            ),
            _ => false,
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
}

impl Images {
    /// `mounted` holds the operator's own credentials, which are tried after those of the namespace.
    pub(crate) fn new(client: Client, registries: Arc<Registries>, mounted: Keyring) -> Self {
        Self {
            registries,
            keyrings: Keyrings::new(client, mounted),
        }
    }

    async fn read_base(&self, image: &str, puller: &Puller) -> Result<Arc<BaseConfig>, Error> {
        let reference: Reference = image.parse()?;
        self.read(puller, |registry, keyring| {
            let reference = reference.clone();
            async move { Ok(registry.base_config(&reference, &keyring).await?) }
        })
        .await
    }

    async fn read_file(
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

impl ImageReader for Images {
    async fn base_config(
        &self,
        image: &str,
        puller: &Puller,
    ) -> Result<Arc<BaseConfig>, ReadError> {
        Ok(self.read_base(image, puller).await?)
    }

    async fn file(&self, image: &str, path: &str, puller: &Puller) -> Result<Arc<[u8]>, ReadError> {
        Ok(self.read_file(image, path, puller).await?)
    }
}

/// The image at a digest, without its tag.
pub(crate) fn at_digest(image: &str, digest: &str) -> String {
    let reference = image.split('@').next().unwrap_or(image);
    let name = reference.rfind('/').map_or(0, |slash| slash + 1);
    let repository = reference[name..]
        .find(':')
        .map_or(reference, |colon| &reference[..name + colon]);
    format!("{repository}@{digest}")
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
