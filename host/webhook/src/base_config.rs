//! Reads the base configuration of a resource from a ConfigMap in its namespace or from its image.
//!
//! A failure is only a warning: an image may be pushed, or a registry may recover, after the resource
//! was applied. Until then the operator changes nothing and reports the problem in the status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource, DEFAULT_CONFIG_KEY, ServerSource};
use llsd_api::{Diagnostic, FieldPath};
use llsd_render::{override_config, yaml};
use serde_json::Value;

use crate::preview::Catalog;

/// The time limit for reading the base configuration. An image that is not cached takes three requests to
/// its registry; the API server waits ten seconds for the webhook.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// Reads images as the operator does: with the pull secrets of the resource, its ServiceAccount and its
/// namespace.
pub trait ImageReader: Send + Sync {
    /// The base configuration of `image`, or why it cannot be read.
    fn base_config<'a>(
        &'a self,
        image: &'a str,
        checked: &'a Checked,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<ImageBaseConfig, String>>;
}

/// The base configuration of an image.
#[derive(Debug, Clone)]
pub struct ImageBaseConfig {
    /// The content of the file.
    pub yaml: String,
    /// The hints in the labels of the image.
    pub hints: Hints,
    /// The digest of the image.
    pub digest: String,
    /// The environment variables to which the image gives a value.
    pub variables: BTreeSet<String>,
}

/// A base configuration that was read for one request.
#[derive(Debug)]
pub(crate) struct FetchedBase {
    pub(crate) config: Value,
    pub(crate) hints: Hints,
    /// The digest of the image; `None` if it was not read.
    pub(crate) image_digest: Option<String>,
    /// The variables of the image; empty if it was not read.
    pub(crate) image_variables: BTreeSet<String>,
}

impl FetchedBase {
    fn parse(yaml: &str) -> Result<Self, String> {
        let config = yaml::read(yaml)
            .map_err(|error| format!("it is not a valid server configuration: {error}"))?;
        Ok(Self {
            config,
            hints: Hints::default(),
            image_digest: None,
            image_variables: BTreeSet::new(),
        })
    }

    fn from_image(base: ImageBaseConfig) -> Result<Self, String> {
        let ImageBaseConfig {
            yaml,
            hints,
            digest,
            variables,
        } = base;
        Ok(Self {
            hints,
            image_digest: Some(digest),
            image_variables: variables,
            ..Self::parse(&yaml)?
        })
    }
}

/// Reads the base configuration of a resource within a time limit. `None` if no base configuration has to
/// be read, or if the ConfigMap does not exist, which `missing_references` reports.
pub(crate) async fn fetch(
    client: &Client,
    images: &Arc<dyn ImageReader>,
    catalog: &Catalog,
    namespace: &str,
    checked: &Checked,
) -> Result<Option<FetchedBase>, Diagnostic> {
    let read = async {
        let ConfigSource::Generated { base } = &checked.config_source else {
            return Ok(None);
        };
        match base {
            Some(BaseConfigMap { name, key }) => {
                let yaml = config_map(client, namespace, name, key).await?;
                yaml.map(|yaml| FetchedBase::parse(&yaml)).transpose()
            }
            None => match catalog.image_of(checked) {
                Some(image) => {
                    let base = images.base_config(image, checked, namespace).await?;
                    FetchedBase::from_image(base).map(Some)
                }
                None => Ok(None),
            },
        }
    };
    let result = tokio::time::timeout(READ_TIMEOUT, read).await;
    result
        .unwrap_or_else(|_| Err(format!("timed out after {READ_TIMEOUT:?}")))
        .map_err(|reason| read_warning(checked, &reason))
}

/// The problems of the resource with its complete configuration in `spec.overrideConfig`. None if it
/// cannot be read: the operator retries and reports that.
pub(crate) async fn check_override(
    client: &Client,
    namespace: &str,
    checked: &Checked,
) -> Vec<Diagnostic> {
    let ConfigSource::Override {
        config_map: name,
        namespace: None,
    } = &checked.config_source
    else {
        return Vec::new();
    };
    let read = config_map(client, namespace, name, DEFAULT_CONFIG_KEY);
    match tokio::time::timeout(READ_TIMEOUT, read).await {
        Ok(Ok(Some(text))) => override_config::check(checked, name, &text),
        _ => Vec::new(),
    }
}

fn read_warning(checked: &Checked, reason: &str) -> Diagnostic {
    let field: &[&str] = match (&checked.config_source, &checked.server) {
        (ConfigSource::Generated { base: Some(_) }, _) => {
            &["distribution", "baseConfig", "configMapName"]
        }
        (_, ServerSource::Named(_)) => &["distribution", "name"],
        (_, ServerSource::Image(_)) => &["distribution", "image"],
    };
    Diagnostic::warning(
        FieldPath::spec().at(field),
        format!("failed to read the base configuration: {reason}"),
        "the operator retries and changes nothing until then; see the status of the resource",
    )
}

/// The value of a key of a ConfigMap; `None` if the ConfigMap does not exist.
async fn config_map(
    client: &Client,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Option<String>, String> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await;
    let found = found.map_err(|error| format!("failed to get ConfigMap {name:?}: {error}"))?;
    let Some(ConfigMap { data, .. }) = found else {
        return Ok(None);
    };
    match data.unwrap_or_default().remove(key) {
        Some(yaml) => Ok(Some(yaml)),
        None => Err(format!("ConfigMap {name:?} has no key {key:?}")),
    }
}
