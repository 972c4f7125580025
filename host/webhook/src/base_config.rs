//! The base configuration of a resource, where it takes a question to get it: from a ConfigMap of its
//! namespace, or from its image.
//!
//! Only ever warnings: an image may be pushed, and a registry come back, after the resource was
//! applied. Until then the operator changes nothing, and says so on the status.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource, ServerSource};
use llsd_api::{Diagnostic, FieldPath};
use llsd_render::yaml;
use serde_json::Value;

use crate::preview::Knowledge;

/// A first look into an image takes three requests to its registry; the API server waits ten seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// Reads images as the operator does: with the credentials of the resource, its account and namespace.
pub trait Images: Send + Sync {
    /// The base configuration that the labels of `image` hold or lead to, or why there is none.
    fn base<'a>(
        &'a self,
        image: &'a str,
        checked: &'a Checked,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<ImageBase, String>>;
}

/// A base configuration out of an image.
#[derive(Debug, Clone)]
pub struct ImageBase {
    /// The file.
    pub text: String,
    /// What the image says about it.
    pub hints: Hints,
}

/// A base configuration that was asked for.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) config: Value,
    pub(crate) hints: Hints,
}

/// Asks for the base of a resource, within the time of a review. `None`: nobody has to be asked, or
/// the ConfigMap is not there, which the survey of references tells.
pub(crate) async fn find(
    client: &Client,
    images: &Arc<dyn Images>,
    knowledge: &Knowledge,
    namespace: &str,
    checked: &Checked,
) -> Result<Option<Base>, Diagnostic> {
    let asked = async {
        let ConfigSource::Generated { base } = &checked.config_source else {
            return Ok(None);
        };
        let found = match base {
            Some(BaseConfigMap { name, key }) => {
                let text = config_map(client, namespace, name, key).await?;
                let hints = Hints::default();
                text.map(|text| ImageBase { text, hints })
            }
            None => match knowledge.image_of(checked) {
                Some(image) => Some(images.base(image, checked, namespace).await?),
                None => None,
            },
        };
        let Some(ImageBase { text, hints }) = found else {
            return Ok(None);
        };
        match yaml::read(&text) {
            Ok(config) => Ok(Some(Base { config, hints })),
            Err(error) => Err(format!("it is no server configuration: {error}")),
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer
        .unwrap_or_else(|_| Err(format!("there was no answer within {PATIENCE:?}")))
        .map_err(|reason| unread(checked, &reason))
}

fn unread(checked: &Checked, reason: &str) -> Diagnostic {
    let field: &[&str] = match (&checked.config_source, &checked.server) {
        (ConfigSource::Generated { base: Some(_) }, _) => {
            &["distribution", "baseConfig", "configMapName"]
        }
        (_, ServerSource::Named(_)) => &["distribution", "name"],
        (_, ServerSource::Image(_)) => &["distribution", "image"],
    };
    Diagnostic::warning(
        FieldPath::spec().at(field),
        format!("the base configuration could not be read: {reason}"),
        "nothing changes until it can be; the status of the resource will tell",
    )
}

async fn config_map(
    client: &Client,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Option<String>, String> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
    let Some(ConfigMap { data, .. }) = found else {
        return Ok(None);
    };
    match data.unwrap_or_default().remove(key) {
        Some(text) => Ok(Some(text)),
        None => Err(format!("the ConfigMap {name:?} has no key {key:?}")),
    }
}
