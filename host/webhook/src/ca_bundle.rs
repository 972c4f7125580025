//! The objects by which the API server finds the webhooks, and the authorities that stand in them.
//!
//! Only `caBundle` is written, and only where it differs. An object that cert-manager injects into is
//! left to cert-manager; one that is not there, or asks for no webhook, is left alone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::{DISTRIBUTION_CRD_NAME, WEBHOOK_NAME};
use serde_json::{Value, json};

use crate::keeper::Error;

/// Annotations by which cert-manager is told to fill in `caBundle`.
const INJECTIONS: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// An object that holds the authorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Definition,
    Webhooks,
}

/// Where the authorities are published.
pub(crate) struct Publication {
    definitions: Api<CustomResourceDefinition>,
    webhooks: Api<ValidatingWebhookConfiguration>,
    /// By object, the resource version that is known to carry a bundle. A definition is large, so
    /// it is read whole only when it changed.
    current: Mutex<BTreeMap<Place, (String, String)>>,
}

impl Publication {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            definitions: Api::all(client.clone()),
            webhooks: Api::all(client.clone()),
            current: Mutex::default(),
        }
    }

    /// Whether cert-manager keeps the certificate: it injects into the definition or the webhooks.
    pub(crate) async fn is_kept_by_others(&self) -> Result<bool, Error> {
        let definition = self.definitions.get_metadata_opt(DISTRIBUTION_CRD_NAME);
        let webhook = self.webhooks.get_metadata_opt(WEBHOOK_NAME);
        let (definition, webhook) = tokio::join!(definition, webhook);
        let definition = definition.map_err(Place::Definition.failure("give"))?;
        let webhook = webhook.map_err(Place::Webhooks.failure("give"))?;
        Ok(definition.is_some_and(|one| is_injected(&one))
            || webhook.is_some_and(|one| is_injected(&one)))
    }

    /// Writes the bundle wherever it belongs.
    pub(crate) async fn publish(&self, bundle: &str) -> Result<(), Error> {
        let pem = json!(ByteString(bundle.as_bytes().to_vec()));
        self.publish_in_definition(bundle, &pem)
            .await
            .map_err(Place::Definition.failure("take"))?;
        self.publish_in_webhooks(bundle, &pem)
            .await
            .map_err(Place::Webhooks.failure("take"))
    }

    async fn publish_in_definition(&self, bundle: &str, pem: &Value) -> kube::Result<()> {
        let (api, name) = (&self.definitions, DISTRIBUTION_CRD_NAME);
        let metadata = api.get_metadata_opt(name).await?;
        if !self.is_due(Place::Definition, metadata.as_ref(), bundle) {
            return Ok(());
        }
        let Some(definition) = api.get_opt(name).await? else {
            return Ok(());
        };
        let client = definition
            .spec
            .conversion
            .as_ref()
            .and_then(|conversion| conversion.webhook.as_ref()?.client_config.as_ref());
        let Some(client) = client else {
            return Ok(());
        };
        let definition = if json!(client.ca_bundle) == *pem {
            definition
        } else {
            let patch =
                json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": pem}}}}});
            api.patch(name, &parameters(), &Patch::Merge(&patch))
                .await?
        };
        self.remember(Place::Definition, definition.resource_version(), bundle);
        Ok(())
    }

    async fn publish_in_webhooks(&self, bundle: &str, pem: &Value) -> kube::Result<()> {
        let (api, name) = (&self.webhooks, WEBHOOK_NAME);
        let metadata = api.get_metadata_opt(name).await?;
        if !self.is_due(Place::Webhooks, metadata.as_ref(), bundle) {
            return Ok(());
        }
        let Some(configuration) = api.get_opt(name).await? else {
            return Ok(());
        };
        let stale: Vec<Value> = configuration
            .webhooks
            .iter()
            .flatten()
            .filter(|webhook| json!(webhook.client_config.ca_bundle) != *pem)
            .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": pem}}))
            .collect();
        let configuration = if stale.is_empty() {
            configuration
        } else {
            let patch = json!({ "webhooks": stale });
            api.patch(name, &parameters(), &Patch::Strategic(&patch))
                .await?
        };
        self.remember(Place::Webhooks, configuration.resource_version(), bundle);
        Ok(())
    }

    /// Whether an object has to be looked at: it is there, ours to write, and not known to be current.
    fn is_due<K: ResourceExt>(&self, place: Place, found: Option<&K>, bundle: &str) -> bool {
        let Some(found) = found.filter(|found| !is_injected(*found)) else {
            return false;
        };
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        !current.get(&place).is_some_and(|(version, published)| {
            found.resource_version().as_deref() == Some(version) && published == bundle
        })
    }

    fn remember(&self, place: Place, version: Option<String>, bundle: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.insert(place, (version.unwrap_or_default(), bundle.to_owned()));
    }
}

fn is_injected<K: ResourceExt>(object: &K) -> bool {
    INJECTIONS
        .iter()
        .any(|name| object.annotations().contains_key(*name))
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

impl Place {
    fn failure(self, verb: &'static str) -> impl FnOnce(kube::Error) -> Error {
        let (kind, name) = match self {
            Self::Definition => (CustomResourceDefinition::kind(&()), DISTRIBUTION_CRD_NAME),
            Self::Webhooks => (ValidatingWebhookConfiguration::kind(&()), WEBHOOK_NAME),
        };
        move |error| failure(verb, format!("the {kind} {name:?}"), error)
    }
}

pub(crate) fn failure(verb: &'static str, object: String, error: kube::Error) -> Error {
    Error::Api {
        verb,
        object,
        error: Box::new(error),
    }
}
