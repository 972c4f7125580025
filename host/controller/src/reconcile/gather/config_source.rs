//! The source of the server's configuration: a base configuration, a file of the user, or the file
//! in the image.

use std::sync::Arc;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource, DEFAULT_CONFIG_KEY, ServerSource};
use llsd_api::v1alpha2::ConfigSourceKind;
use llsd_api::{Diagnostic, Diagnostics, FieldPath};
use llsd_registry::BaseConfig;
use llsd_render::distributions::KnownDistribution;
use llsd_render::objects::Owner;
use llsd_render::{digest, override_config};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Error, ImageFacts, reject};
use crate::cache::ContentCache;
use crate::images::{self, ImageReader, Puller, at_digest};
use crate::settings::Settings;

/// The source of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// A base configuration, which the resource changes.
    Base {
        config: Arc<Value>,
        /// What is known about the base from elsewhere.
        hints: Hints,
        kind: ConfigSourceKind,
        digest: String,
    },
    /// A complete configuration of the user.
    Override { config_map: String, digest: String },
    /// The file inside the image.
    DistributionDefault,
}

/// The source of the configuration, and what was read to find it.
pub(super) struct Found {
    pub(super) source: Source,
    /// What the image states, if it was read.
    pub(super) facts: Option<ImageFacts>,
    /// The file of a server without a generated configuration, if it is known.
    pub(super) file: Option<String>,
}

impl From<Source> for Found {
    fn from(source: Source) -> Self {
        Self {
            source,
            facts: None,
            file: None,
        }
    }
}

/// Reads the source of the configuration of one resource.
pub(super) struct Reader<'a, I> {
    pub(super) contents: &'a ContentCache,
    pub(super) settings: &'a Settings,
    pub(super) images: &'a I,
    pub(super) checked: &'a Checked,
    pub(super) owner: &'a Owner,
}

impl<I: ImageReader> Reader<'_, I> {
    /// Reads the source, and the labels of the image if they are needed for it.
    pub(super) async fn read(
        &self,
        image: &str,
        pinned: Option<&str>,
        known: Option<&KnownDistribution>,
    ) -> Result<Found, Error> {
        let source = match &self.checked.config_source {
            ConfigSource::Override { config_map, .. } => {
                let field = FieldPath::spec().at(&["overrideConfig", "configMapName"]);
                let (contents, owner) = (self.contents, self.owner);
                let text = read_key(contents, owner, config_map, DEFAULT_CONFIG_KEY, field).await?;
                let source = Source::Override {
                    config_map: config_map.clone(),
                    digest: digest::of(&text),
                };
                return Ok(Found {
                    file: Some(text),
                    ..source.into()
                });
            }
            ConfigSource::Generated {
                base: Some(BaseConfigMap { name, key }),
            } => {
                let field = FieldPath::spec().at(&["distribution", "baseConfig", "configMapName"]);
                let (contents, owner) = (self.contents, self.owner);
                let text = read_key(contents, owner, name, key, field.clone()).await?;
                let hints = Hints::default();
                base(contents, &text, hints, ConfigSourceKind::ConfigMap, field)?
            }
            ConfigSource::Generated { base: None } => match known {
                Some(KnownDistribution {
                    base: Some(text),
                    schema,
                    ..
                }) => {
                    let hints = Hints {
                        schema: schema.clone(),
                        ..Hints::default()
                    };
                    let field = FieldPath::spec().at(&["distribution", "name"]);
                    base(
                        self.contents,
                        text,
                        hints,
                        ConfigSourceKind::Embedded,
                        field,
                    )?
                }
                _ => return self.read_labels(image, pinned, known).await,
            },
            ConfigSource::DistributionDefault => {
                return Ok(Found {
                    file: known.and_then(|known| known.base.clone()),
                    ..Source::DistributionDefault.into()
                });
            }
        };
        Ok(source.into())
    }

    async fn read_labels(
        &self,
        image: &str,
        pinned: Option<&str>,
        known: Option<&KnownDistribution>,
    ) -> Result<Found, Error> {
        // Without valid mirrors, the image might be read from the wrong registry.
        self.settings.mirrors()?;
        let puller = Puller::of(self.checked, &self.owner.namespace);
        let image = match pinned {
            Some(digest) => at_digest(image, digest),
            None => image.to_owned(),
        };
        let labels = self.images.base_config(&image, &puller).await;
        let field = image_field(&self.checked.server);
        let labels = labels.map_err(|error| Error::server_image(field, error))?;
        let source = base_from_labels(self.contents, &labels, known, &self.checked.server)?;
        Ok(Found {
            facts: Some(ImageFacts::from(&*labels)),
            ..source.into()
        })
    }
}

/// A file that the author of a resource provides in a ConfigMap.
#[derive(Default)]
pub(crate) struct AuthorFile {
    /// `None` if the author provides none.
    pub(crate) digest: Option<String>,
    /// Its problems that do not stop the resource.
    pub(crate) warnings: Vec<String>,
}

/// Reads the file that the author of a resource provides, and checks it against the resource.
pub(crate) async fn author_file(
    contents: &ContentCache,
    checked: &Checked,
    owner: &Owner,
) -> Result<AuthorFile, Error> {
    let (name, key, field) = match &checked.config_source {
        ConfigSource::Override { config_map, .. } => (
            config_map.as_str(),
            DEFAULT_CONFIG_KEY,
            FieldPath::spec().at(&["overrideConfig", "configMapName"]),
        ),
        ConfigSource::Generated {
            base: Some(BaseConfigMap { name, key }),
        } => (
            name.as_str(),
            key.as_str(),
            FieldPath::spec().at(&["distribution", "baseConfig", "configMapName"]),
        ),
        ConfigSource::Generated { base: None } | ConfigSource::DistributionDefault => {
            return Ok(AuthorFile::default());
        }
    };
    let text = read_key(contents, owner, name, key, field).await?;
    let warnings = match &checked.config_source {
        ConfigSource::Override { config_map, .. } => check_override(checked, config_map, &text)?,
        ConfigSource::Generated { .. } | ConfigSource::DistributionDefault => Vec::new(),
    };
    Ok(AuthorFile {
        digest: Some(digest::of(&text)),
        warnings,
    })
}

/// Checks the author's configuration against the resource, and returns the warnings.
fn check_override(
    checked: &Checked,
    config_map: &str,
    text: &str,
) -> Result<Vec<String>, Diagnostics> {
    let found = override_config::check(checked, config_map, text);
    let (errors, warnings): (Vec<_>, Vec<_>) = found.into_iter().partition(Diagnostic::is_error);
    match Diagnostics::new(errors) {
        Some(errors) => Err(errors),
        None => Ok(warnings.iter().map(ToString::to_string).collect()),
    }
}

/// Reads one key of a ConfigMap in the resource's namespace.
async fn read_key(
    contents: &ContentCache,
    owner: &Owner,
    name: &str,
    key: &str,
    field: FieldPath,
) -> Result<String, Error> {
    let namespace = &owner.namespace;
    let found = contents.config_map(namespace, name).await;
    let Some(data) = found.map_err(|error| Error::api(name, error))? else {
        return Err(Error::ConfigMapNotFound {
            field,
            problem: format!("ConfigMap {name:?} not found in namespace {namespace:?}"),
            fix: format!("create it with the key {key:?}, or correct the name"),
        });
    };
    data.get(key)
        .cloned()
        .ok_or_else(|| Error::ConfigMapNotFound {
            field,
            problem: format!("ConfigMap {name:?} has no key {key:?}"),
            fix: "put the configuration under that key".to_owned(),
        })
}

/// The base configuration that the labels of the image contain or point to.
fn base_from_labels(
    contents: &ContentCache,
    labels: &BaseConfig,
    known: Option<&KnownDistribution>,
    server: &ServerSource,
) -> Result<Source, Error> {
    let mut hints = images::hints(labels);
    hints.schema = hints
        .schema
        .or_else(|| known.and_then(|known| known.schema.clone()));
    base(
        contents,
        &labels.yaml,
        hints,
        ConfigSourceKind::ImageLabels,
        image_field(server),
    )
}

/// The field that names the image of the server.
fn image_field(server: &ServerSource) -> FieldPath {
    let field = match server {
        ServerSource::Named(_) => "name",
        ServerSource::Image(_) => "image",
    };
    FieldPath::spec().at(&["distribution", field])
}

fn base(
    contents: &ContentCache,
    text: &str,
    hints: Hints,
    kind: ConfigSourceKind,
    field: FieldPath,
) -> Result<Source, Error> {
    let parsed = contents.bases().parse(text).map_err(|error| {
        let problem = format!("the base configuration is invalid: {error}");
        let fix = "use the configuration of the distribution".to_owned();
        reject(field, problem, fix)
    })?;
    Ok(Source::Base {
        config: parsed.config,
        hints,
        kind,
        digest: parsed.digest,
    })
}
