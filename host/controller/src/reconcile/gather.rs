//! Reads what a resource points at: its base configuration, or the file that replaces it.
//!
//! In: a checked resource. Out: the image, what the configuration starts from, and whom the server
//! trusts. Reads only.

mod cluster;
mod connection;
mod contents;
mod conversion;
mod external;
pub(crate) mod secrets;
pub(crate) mod trust;

use std::collections::BTreeMap;
use std::sync::Arc;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource, DEFAULT_CONFIG_KEY, ServerSource};
use llsd_api::v1alpha2::ConfigSourceKind;
use llsd_api::{FieldPath, Rejection, Rejections, choices};
use llsd_registry::BaseConfig;
use llsd_render::digest;
use llsd_render::distributions::KnownDistribution;
use llsd_render::objects::Owner;
use llsd_render::trust::TrustBundle;
use llsd_render::{ProviderPackage, yaml};
use serde_json::Value;

use crate::configuration::{Configuration, InForce, Missing, Unreadable};
use crate::images::{self, Images, Puller};
pub(crate) use cluster::{ask, discover};
pub(crate) use contents::Contents;

/// What a resource points at.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// The image that runs.
    pub(crate) image: String,
    /// What the configuration starts from.
    pub(crate) source: Source,
    /// Certificates that the server trusts.
    pub(crate) trust: Option<TrustBundle>,
    /// What the image itself says, where it was read.
    pub(crate) labels: Option<Arc<BaseConfig>>,
    /// By provider id, what the images of external providers declare.
    pub(crate) packages: BTreeMap<String, ProviderPackage>,
    /// Whether there is a network policy, where the operator's own switch decides.
    pub(crate) network_policy: Option<bool>,
    /// Parts of the operator's ConfigMap that concern the resource and cannot be used.
    pub(crate) warnings: Vec<String>,
}

impl Gathered {
    /// The plugin that the image wishes for.
    pub(crate) fn proposed_plugin(&self) -> Option<&str> {
        self.labels.as_ref()?.plugin.as_deref()
    }

    /// The user that the image names; absent: it names none, or was not read.
    pub(crate) fn image_user(&self) -> Option<&str> {
        self.labels.as_ref()?.user.as_deref()
    }
}

/// What the configuration starts from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A base that the resource is put over.
    Base {
        config: Value,
        /// What is known about it from outside.
        hints: Hints,
        kind: ConfigSourceKind,
        digest: String,
    },
    /// The user's own file.
    Override { config_map: String, digest: String },
    /// The file inside the image.
    DistributionDefault,
}

/// Why it could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The author must change the resource.
    #[error(transparent)]
    Refused(#[from] Rejections),
    /// Somebody must make or fill a ConfigMap.
    #[error("{field}: {problem}; {fix}")]
    ConfigMapNotFound {
        field: FieldPath,
        problem: String,
        fix: String,
    },
    /// The image of an external provider cannot be read.
    #[error("{field}: {error}")]
    ProviderImage {
        field: FieldPath,
        error: Box<images::Error>,
    },
    /// Somebody must mend the operator's own ConfigMap.
    #[error(transparent)]
    OperatorConfig(#[from] Unreadable),
    /// The image says nothing usable, or its registry nothing at all.
    #[error(transparent)]
    Image(#[from] images::Error),
    /// The API server did not answer as it should.
    #[error("the API server did not give the ConfigMap {name:?}: {error}")]
    Api {
        name: String,
        error: Box<kube::Error>,
    },
}

impl Error {
    pub(crate) fn waits_for_somebody(&self) -> bool {
        match self {
            Self::Refused(_) | Self::ConfigMapNotFound { .. } | Self::OperatorConfig(_) => true,
            Self::Image(_) | Self::ProviderImage { .. } => {
                self.image().is_some_and(images::Error::needs_help)
            }
            Self::Api { .. } => false,
        }
    }

    /// What is wrong with an image.
    pub(crate) fn image(&self) -> Option<&images::Error> {
        match self {
            Self::Image(error) => Some(error),
            Self::ProviderImage { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Reads what a resource points at.
pub(crate) async fn gather(
    contents: &Contents,
    configuration: &Configuration,
    images: &Images,
    checked: &Checked,
    owner: &Owner,
) -> Result<Gathered, Error> {
    let (mut labels, mut warnings) = (None, Vec::new());
    let network_policy = match checked.was_made_in_v1alpha1 {
        true => {
            let switch = configuration.network_policy()?;
            Some(*in_force(switch, &mut warnings))
        }
        false => None,
    };
    let (image, known) = match &checked.server {
        ServerSource::Image(image) => (image.clone(), None),
        ServerSource::Named(name) => {
            let found = configuration.distribution(name);
            let found = found.map_err(|missing| no_distribution(name, missing))?;
            let known = in_force(found, &mut warnings);
            (known.image.clone(), Some(known))
        }
    };
    let source = match &checked.config_source {
        ConfigSource::Override { config_map, .. } => {
            let field = FieldPath::spec().at(&["overrideConfig", "configMapName"]);
            let text = read(contents, owner, config_map, DEFAULT_CONFIG_KEY, field).await?;
            Source::Override {
                config_map: config_map.clone(),
                digest: digest::of(&text),
            }
        }
        ConfigSource::Generated {
            base: Some(BaseConfigMap { name, key }),
        } => {
            let field = FieldPath::spec().at(&["distribution", "baseConfig", "configMapName"]);
            let text = read(contents, owner, name, key, field.clone()).await?;
            let hints = Hints::default();
            base(&text, hints, ConfigSourceKind::ConfigMap, field)?
        }
        ConfigSource::Generated { base: None } => match known {
            Some(KnownDistribution {
                base: Some(text),
                schema,
                image: _,
            }) => {
                let hints = Hints {
                    schema: schema.clone(),
                    ..Hints::default()
                };
                let field = FieldPath::spec().at(&["distribution", "name"]);
                base(text, hints, ConfigSourceKind::Embedded, field)?
            }
            _ => {
                // Another registry may hold another image of that name.
                configuration.mirrors()?;
                let puller = Puller::of(checked, &owner.namespace);
                let read = images.base_config(&image, &puller).await?;
                let source = labelled(&read, known, &checked.server)?;
                labels = Some(read);
                source
            }
        },
        ConfigSource::DistributionDefault => Source::DistributionDefault,
    };
    if !checked.external.is_empty() {
        configuration.mirrors()?;
    }
    Ok(Gathered {
        image,
        source,
        trust: trust::trust(contents, checked, owner).await?,
        labels,
        packages: external::packages(images, checked, owner).await?,
        network_policy,
        warnings,
    })
}

fn in_force<'a, T>(found: InForce<'a, T>, warnings: &mut Vec<String>) -> &'a T {
    let InForce { value, problem } = found;
    warnings.extend(problem.map(|problem| format!("{problem}; the last good reading is used")));
    value
}

fn no_distribution(name: &str, missing: Missing) -> Error {
    match missing {
        Missing::Unreadable(unreadable) => unreadable.into(),
        Missing::Unknown(names) => refuse(
            FieldPath::spec().at(&["distribution", "name"]),
            format!("no distribution is called {name:?}"),
            choices(name, names.iter().map(String::as_str)),
        ),
    }
}

/// The base that the labels of the image hold or lead to.
fn labelled(
    read: &BaseConfig,
    known: Option<&KnownDistribution>,
    server: &ServerSource,
) -> Result<Source, Error> {
    let field = match server {
        ServerSource::Named(_) => "name",
        ServerSource::Image(_) => "image",
    };
    let mut hints = images::hints(read);
    hints.schema = hints
        .schema
        .or_else(|| known.and_then(|known| known.schema.clone()));
    base(
        &read.yaml,
        hints,
        ConfigSourceKind::ImageLabels,
        FieldPath::spec().at(&["distribution", field]),
    )
}

fn base(
    text: &str,
    hints: Hints,
    kind: ConfigSourceKind,
    field: FieldPath,
) -> Result<Source, Error> {
    let config = yaml::read(text).map_err(|error| {
        let fix = "put the distribution's own configuration there".to_owned();
        refuse(
            field,
            format!("the base is no server configuration: {error}"),
            fix,
        )
    })?;
    Ok(Source::Base {
        config,
        hints,
        kind,
        digest: digest::of(text),
    })
}

/// One key of a ConfigMap of the resource's namespace.
async fn read(
    contents: &Contents,
    owner: &Owner,
    name: &str,
    key: &str,
    field: FieldPath,
) -> Result<String, Error> {
    let namespace = &owner.namespace;
    let found = contents
        .config_map(namespace, name)
        .await
        .map_err(|error| Error::Api {
            name: name.to_owned(),
            error: Box::new(error),
        })?;
    let Some(texts) = found else {
        let problem = format!("namespace {namespace:?} has no ConfigMap {name:?}");
        return Err(Error::ConfigMapNotFound {
            field,
            problem,
            fix: format!("create it with the key {key:?}, or correct the name"),
        });
    };
    texts
        .get(key)
        .cloned()
        .ok_or_else(|| Error::ConfigMapNotFound {
            field,
            problem: format!("the ConfigMap {name:?} has no key {key:?}"),
            fix: "put the configuration under that key".to_owned(),
        })
}

fn refuse(field: FieldPath, problem: String, fix: String) -> Error {
    Error::Refused(Rejections::from(Rejection {
        field,
        problem,
        fix,
    }))
}
