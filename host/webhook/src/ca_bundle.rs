//! Publishes the CA bundle in the CustomResourceDefinition and the ValidatingWebhookConfiguration, from
//! which the API server reads it.
//!
//! Only `caBundle` is written, and only if it differs. Objects with a cert-manager annotation, objects
//! that do not exist, and a definition without a conversion webhook are not changed.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::{DISTRIBUTION_CRD_NAME, WEBHOOK_NAME};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::cert_rotation::Error;

/// The annotations with which cert-manager injects `caBundle`.
const INJECTION_ANNOTATIONS: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// An object that contains the CA bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BundleTarget {
    Crd,
    WebhookConfiguration,
}

/// Publishes the CA bundle.
pub(crate) struct CaBundlePublisher {
    definitions: Api<CustomResourceDefinition>,
    webhooks: Api<ValidatingWebhookConfiguration>,
    /// The resource version and CA bundle that were published last, by object. The definition is large,
    /// so it is read only if its resource version changed.
    published: Mutex<BTreeMap<BundleTarget, (String, String)>>,
}

impl CaBundlePublisher {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            definitions: Api::all(client.clone()),
            webhooks: Api::all(client.clone()),
            published: Mutex::default(),
        }
    }

    /// Whether cert-manager manages the certificate: one of the objects has an injection annotation.
    pub(crate) async fn is_managed_by_cert_manager(&self) -> Result<bool, Error> {
        let definition = self.definitions.get_metadata_opt(DISTRIBUTION_CRD_NAME);
        let webhook = self.webhooks.get_metadata_opt(WEBHOOK_NAME);
        let (definition, webhook) = tokio::join!(definition, webhook);
        let definition = definition.map_err(BundleTarget::Crd.error("get"))?;
        let webhook = webhook.map_err(BundleTarget::WebhookConfiguration.error("get"))?;
        Ok(definition.is_some_and(|object| is_injected(&object))
            || webhook.is_some_and(|object| is_injected(&object)))
    }

    /// Writes the CA bundle to both objects.
    pub(crate) async fn publish(&self, bundle: &str) -> Result<(), Error> {
        let pem = json!(ByteString(bundle.as_bytes().to_vec()));
        self.publish_in_crd(bundle, &pem)
            .await
            .map_err(BundleTarget::Crd.error("update"))?;
        self.publish_in_webhook_configuration(bundle, &pem)
            .await
            .map_err(BundleTarget::WebhookConfiguration.error("update"))
    }

    async fn publish_in_crd(&self, bundle: &str, pem: &Value) -> kube::Result<()> {
        let (api, name) = (&self.definitions, DISTRIBUTION_CRD_NAME);
        let metadata = api.get_metadata_opt(name).await?;
        if !self.is_due(BundleTarget::Crd, metadata.as_ref(), bundle) {
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
        self.record(BundleTarget::Crd, definition.resource_version(), bundle);
        Ok(())
    }

    async fn publish_in_webhook_configuration(
        &self,
        bundle: &str,
        pem: &Value,
    ) -> kube::Result<()> {
        let (api, name) = (&self.webhooks, WEBHOOK_NAME);
        let metadata = api.get_metadata_opt(name).await?;
        if !self.is_due(
            BundleTarget::WebhookConfiguration,
            metadata.as_ref(),
            bundle,
        ) {
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
        self.record(
            BundleTarget::WebhookConfiguration,
            configuration.resource_version(),
            bundle,
        );
        Ok(())
    }

    /// Whether an object must be updated: it exists, cert-manager does not inject into it, and its resource
    /// version or the bundle changed since it was published.
    fn is_due<K: ResourceExt>(
        &self,
        target: BundleTarget,
        found: Option<&K>,
        bundle: &str,
    ) -> bool {
        let Some(found) = found.filter(|found| !is_injected(*found)) else {
            return false;
        };
        let published = self.published.lock();
        !published.get(&target).is_some_and(|(version, ca_bundle)| {
            found.resource_version().as_deref() == Some(version) && ca_bundle == bundle
        })
    }

    /// Records that this resource version of an object contains the CA bundle.
    fn record(&self, target: BundleTarget, version: Option<String>, bundle: &str) {
        let mut published = self.published.lock();
        published.insert(target, (version.unwrap_or_default(), bundle.to_owned()));
    }
}

fn is_injected<K: ResourceExt>(object: &K) -> bool {
    INJECTION_ANNOTATIONS
        .iter()
        .any(|name| object.annotations().contains_key(*name))
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

impl BundleTarget {
    fn error(self, verb: &'static str) -> impl FnOnce(kube::Error) -> Error {
        let (kind, name) = match self {
            Self::Crd => (CustomResourceDefinition::kind(&()), DISTRIBUTION_CRD_NAME),
            Self::WebhookConfiguration => (ValidatingWebhookConfiguration::kind(&()), WEBHOOK_NAME),
        };
        move |error| api_error(verb, format!("{kind} {name:?}"), error)
    }
}

pub(crate) fn api_error(verb: &'static str, object: String, error: kube::Error) -> Error {
    Error::Api {
        verb,
        object,
        error: Box::new(error),
    }
}
