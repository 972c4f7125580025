//! Reads the base configuration of a distribution from its image.
//!
//! In: an image reference and the credentials to try. Out: the configuration and the metadata from
//! the labels. Only the manifest and the config blob are read, and one layer if the labels refer to a
//! file in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::{Inner, Located, Registry};
use crate::credentials::{self, Keyring};
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::labels::{self, BadLabel, Scheme, Source};
use crate::layer::{self, LayerPath};
use crate::opened_image::{OpenedImage, find_layer, open_image, read_config};
use crate::reference::{ParseReferenceError, Reference};

/// The longest user of an image: two names of Linux and a colon.
const MAX_USER_BYTES: usize = 65;

/// The longest name of a variable that is kept. A base configuration names shorter ones.
const MAX_VARIABLE_BYTES: usize = 256;

/// The base configuration of an image, and the metadata from its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseConfig {
    /// The content of the configuration file.
    pub yaml: String,
    /// The digest of `yaml`.
    pub config_digest: Digest,
    /// The digest of the manifest or index that the reference resolved to.
    pub image_digest: Digest,
    /// The digest of the manifest for the platform.
    pub manifest_digest: Digest,
    /// The label scheme of the image.
    pub scheme: Scheme,
    /// The label, or the layer and path, that contains the configuration.
    pub source: String,
    /// Label `io.llamastack.config.schema`.
    pub schema: Option<String>,
    /// Label `io.llamastack.config.version`.
    pub config_version: Option<String>,
    /// The release of the server: from a label of the published schemes, or else from the server package
    /// in the layer that contains the configuration.
    pub server_version: Option<String>,
    /// Where `server_version` comes from: the label, or the folder of the package.
    pub server_version_source: Option<String>,
    /// Label `io.llamastack.config.plugin`: a proposed plugin. It is used only if a policy allows it.
    pub plugin: Option<String>,
    /// The user in the image config; `None` is root.
    pub user: Option<String>,
    /// The environment variables to which the image config gives a value.
    pub variables: BTreeSet<String>,
    /// Labels that help to detect the schema, without those that contain files.
    pub hints: BTreeMap<String, String>,
}

impl BaseConfig {
    /// The memory of its strings that an image controls.
    pub(crate) fn held_bytes(&self) -> usize {
        let hints = self.hints.iter();
        let hints: usize = hints.map(|(name, value)| name.len() + value.len()).sum();
        let variables: usize = self.variables.iter().map(|name| name.len() + 64).sum();
        self.yaml.len() + 2 * hints + variables
    }
}

/// Why the base configuration cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The mirror settings rewrite the image to an invalid reference.
    #[error("the mirror settings rewrite the image to an invalid reference")]
    Mirror(#[from] ParseReferenceError),
    /// A pull secret is invalid.
    #[error("the credentials for the image are invalid")]
    Credentials(#[from] credentials::Error),
    /// A request to the registry failed.
    #[error("failed to read the image from its registry")]
    Registry(#[from] RegistryError),
    /// The image has no configuration labels. FR-027e specifies this message literally.
    #[error(
        "Distribution image {image} missing config labels. Add labels using `crane mutate` or use `overrideConfig` to \
         provide configuration manually. See docs/configuration.md for details."
    )]
    MissingConfigLabels {
        /// The image as the user wrote it.
        image: String,
    },
    /// A label is invalid.
    #[error("image {image}, label {label}: {problem}; {fix}")]
    BadLabel {
        /// The image as the user wrote it.
        image: String,
        /// Which label.
        label: String,
        /// What is wrong with it.
        problem: String,
        /// How to fix it.
        fix: String,
    },
    /// The reference does not refer to a container image.
    #[error(
        "{image} is not a container image: {problem}; use the reference of a distribution image"
    )]
    NotAnImage {
        /// The image as the user wrote it.
        image: String,
        /// What it is instead.
        problem: String,
    },
    /// The layer named by the label cannot be searched.
    #[error("image {image}, layer {layer}: failed to read the configuration from the layer")]
    Layer {
        /// The image as the user wrote it.
        image: String,
        /// Which layer.
        layer: Digest,
        /// What is wrong with it.
        #[source]
        source: layer::Error,
    },
}

impl Error {
    /// The reason for the condition `ConfigGenerated=False`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Mirror(_) => "BadMirror",
            Self::Credentials(_) => "BadPullSecret",
            Self::Registry(error) => error.reason(),
            Self::MissingConfigLabels { .. } => "MissingConfigLabels",
            Self::BadLabel { .. } => "BadConfigLabel",
            Self::NotAnImage { .. } => "NotAnImage",
            Self::Layer { .. } => "BadConfigLayer",
        }
    }

    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Registry(error) if error.is_transient())
    }
}

impl Registry {
    /// Reads the base configuration of an image. Known digests come from the caches; a tag is resolved
    /// at most once per [`crate::Settings::tag_ttl`].
    pub async fn base_config(
        &self,
        image: &Reference,
        keyring: &Keyring,
    ) -> Result<Arc<BaseConfig>, Error> {
        let located = Arc::new(self.inner.locate(image, keyring)?);
        let digest = self.inner.current_digest(&located).await?;
        let scope = self.inner.scope(&located.target.name());
        if let Some(known) = self.inner.base_cache.get(&(scope, digest.clone())) {
            self.inner.check_access(&located, &digest).await?;
            return Ok(known);
        }
        let key = (located.key(), digest.clone());
        let (inner, written) = (Arc::clone(&self.inner), image.to_string());
        self.inner
            .base_fetches
            .run(key, || {
                let (inner, located) = (Arc::clone(&inner), Arc::clone(&located));
                let (digest, written) = (digest.clone(), written.clone());
                async move { fetch(&inner, &located, &digest, &written).await }
            })
            .await
    }
}

async fn fetch(
    inner: &Arc<Inner>,
    located: &Located,
    digest: &Digest,
    image: &str,
) -> Result<Arc<BaseConfig>, Error> {
    let cache_key = (inner.scope(&located.target.name()), digest.clone());
    if let Some(known) = inner.base_cache.get(&cache_key) {
        inner.check_access(located, digest).await?;
        return Ok(known);
    }
    let read = async {
        let opened = open_image(inner, located, digest, image).await?;
        read_base(inner, &opened, image).await
    };
    let base = Arc::new(inner.within_deadline(image, read).await?);
    inner.base_cache.insert(cache_key, Arc::clone(&base));
    Ok(base)
}

/// Reads the configuration that the labels of an image contain or refer to.
pub(crate) async fn read_base(
    inner: &Arc<Inner>,
    opened: &OpenedImage,
    image: &str,
) -> Result<BaseConfig, Error> {
    let run = opened.config.config.clone().unwrap_or_default();
    let invalid = |bad: BadLabel| bad_label(image, &bad.label, bad.problem, bad.fix);
    let all = run.labels.into_result().map_err(invalid)?;
    let limit = inner.settings.limits.base_bytes;
    let found = labels::find(&all, limit).map_err(invalid)?;
    let Some((scheme, source)) = found else {
        return Err(Error::MissingConfigLabels {
            image: image.to_owned(),
        });
    };
    let (content, label, source, package) = match source {
        Source::Inline { label, content } => {
            let source = format!("label {label}");
            (content, label, source, None)
        }
        Source::Layer { layer, path } => {
            let (content, package) = read_from_layer(inner, opened, &layer, &path, image).await?;
            let source = format!("layer {layer}, file /{}", path.as_str());
            (content, labels::PATH.to_owned(), source, package)
        }
    };
    let yaml = String::from_utf8(content).map_err(|_| {
        let problem = "the configuration is not valid UTF-8".to_owned();
        bad_label(image, &label, problem, "label the image with the YAML file")
    })?;
    let (server_version, server_version_source) =
        server_version(labels::server_version(&all), package).unzip();
    let value_of = |label: &str| all.get(label).filter(|v| !v.trim().is_empty()).cloned();
    Ok(BaseConfig {
        config_digest: Digest::of(yaml.as_bytes()),
        yaml,
        image_digest: opened.image_digest.clone(),
        manifest_digest: opened.manifest_digest.clone(),
        scheme,
        source,
        schema: value_of(labels::SCHEMA),
        config_version: value_of(labels::VERSION),
        server_version,
        server_version_source,
        plugin: value_of(labels::PLUGIN),
        // Longer ones are no user of Linux.
        user: run
            .user
            .filter(|user| (1..=MAX_USER_BYTES).contains(&user.len())),
        variables: variables(&run.env),
        hints: labels::hints(&all),
    })
}

/// The names of the variables in the form `NAME=value`. The server treats an empty one as unset.
fn variables(env: &[String]) -> BTreeSet<String> {
    env.iter()
        .filter_map(|variable| variable.split_once('='))
        .filter(|(name, value)| !value.is_empty() && name.len() <= MAX_VARIABLE_BYTES)
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// The release of the server, and where it comes from. A label decides, unless it contains no number,
/// such as `latest`.
fn server_version(
    labelled: Option<(String, String)>,
    package: Option<String>,
) -> Option<(String, String)> {
    let is_release = |version: &str| {
        let version = version.trim().trim_start_matches('v');
        version.starts_with(|c: char| c.is_ascii_digit())
    };
    let of_package = package.and_then(|folder| {
        let version = layer::version_of(&folder)?.to_owned();
        Some((version, format!("package folder /{folder}")))
    });
    let of_label = labelled.map(|(label, version)| (version, format!("label {label}")));
    match &of_label {
        Some((version, _)) if is_release(version) => of_label,
        _ => of_package.or(of_label),
    }
}

/// Reads the configuration from the layer and path that the labels name, and the folder that records
/// the server package in that layer.
async fn read_from_layer(
    inner: &Arc<Inner>,
    opened: &OpenedImage,
    layer: &Digest,
    path: &LayerPath,
    image: &str,
) -> Result<(Vec<u8>, Option<String>), Error> {
    let descriptor = find_layer(opened, layer).ok_or_else(|| {
        let problem = format!("the image has no layer {layer}");
        let fix = "label the image again after its layers changed";
        bad_label(image, labels::LAYER, problem, fix)
    })?;
    let found = read_config(inner, opened, descriptor, path, image).await?;
    found.ok_or_else(|| {
        let problem = format!("layer {layer} has no file {:?}", path.as_str());
        let fix = "correct the path, or name the layer that contains the file";
        bad_label(image, labels::PATH, problem, fix)
    })
}

fn bad_label(image: &str, label: &str, problem: String, fix: &str) -> Error {
    Error::BadLabel {
        image: image.to_owned(),
        label: label.to_owned(),
        problem,
        fix: fix.to_owned(),
    }
}
