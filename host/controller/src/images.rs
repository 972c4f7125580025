//! Base configurations from the labels of images, and single files.
//!
//! In: an image, and who pulls it. Out: what its labels say, or the file. Images are read once by digest, however
//! many resources name them, and a tag is asked for again on the registry client's schedule. A
//! registry that is down is an error here and changes nothing that runs.

mod keyrings;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::Checked;
use llsd_registry::{
    BaseConfig, BaseError, Error as RegistryError, FileError, Keyring, ParseReferenceError,
    Reference, Registry, chain,
};

use crate::configuration::Registries;
use keyrings::Keyrings;
pub(crate) use keyrings::Puller;

/// Until a registry that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(10);
/// Until an answer that somebody has to mend is asked for again: nobody tells us of a push.
const RECHECK: Duration = Duration::from_secs(60);

/// Reads images for all resources.
pub struct Images {
    registries: Arc<Registries>,
    keyrings: Keyrings,
}

/// Why an image was not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The resource does not name an image.
    #[error(transparent)]
    Reference(#[from] ParseReferenceError),
    /// The image says nothing usable, or its registry nothing at all.
    #[error("{}", chain(.0))]
    Image(#[from] BaseError),
    /// A file of it was not found.
    #[error("{}", chain(.0))]
    File(#[from] FileError),
    /// Credentials could not be looked for.
    #[error("the API server did not give the {kind} {name:?}: {error}")]
    Api {
        /// What was asked for.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What the API server said.
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

    /// Whether it goes away only when somebody changes the resource, the image or a credential.
    pub(crate) fn needs_help(&self) -> bool {
        match self {
            Self::Reference(_) => true,
            Self::Image(error) => !error.is_transient(),
            Self::File(error) => !error.is_transient(),
            Self::Api { .. } => false,
        }
    }

    /// Whether another credential might help. Some registries hide what one may not see.
    fn is_about_access(&self) -> bool {
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

    /// When to try again.
    pub(crate) fn retry_after(&self) -> Duration {
        if self.needs_help() { RECHECK } else { RETRY }
    }
}

impl Images {
    /// `mounted` is tried after the credentials of the namespace.
    pub fn new(client: Client, registries: Arc<Registries>, mounted: Keyring) -> Self {
        Self {
            registries,
            keyrings: Keyrings::new(client, mounted),
        }
    }

    /// The base configuration that the labels of an image hold or lead to, for a resource of a
    /// namespace, and what they say about it.
    pub async fn base(
        &self,
        image: &str,
        checked: &Checked,
        namespace: &str,
    ) -> Result<(String, Hints), Error> {
        let puller = Puller::of(checked, namespace);
        let read = self.base_config(image, &puller).await?;
        Ok((read.yaml.clone(), hints(&read)))
    }

    /// The pull secrets that were looked for when images were last read for a puller.
    pub(crate) fn pull_secrets(&self, puller: &Puller) -> Vec<String> {
        self.keyrings.secrets(puller)
    }

    /// What the labels of an image say.
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
        ask: impl Fn(Registry, Keyring) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let keyring = self.keyrings.of(puller).await?;
        let registry = self.registries.current();
        let refused = match ask(registry.clone(), keyring.clone()).await {
            Err(error) if error.is_about_access() => error,
            answer => return answer,
        };
        // A credential may have been added or renewed since it was read.
        let fresh = self.keyrings.read_again(puller).await?;
        if fresh == keyring {
            return Err(refused);
        }
        ask(registry, fresh).await
    }
}

/// What the labels of an image say about its configuration.
pub(crate) fn hints(read: &BaseConfig) -> Hints {
    Hints {
        labels: read.hints.clone(),
        schema: read.schema.clone(),
        server_version: read.server_version.clone(),
    }
}
