//! Where the API server finds the webhooks, and which resources it asks the validating one about.

use serde_json::{Value, json};

use crate::document::GROUP;

/// Where the API server finds the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// A Service of the cluster, or an address outside it.
    pub endpoint: WebhookEndpoint,
    /// Certificates of the authorities that sign the webhook's, in PEM. Absent: filled in later.
    pub ca_bundle: Option<String>,
}

/// Who answers for a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEndpoint {
    /// A Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// A server outside the cluster, without a path: `https://127.0.0.1:9443`.
    Url(String),
}

/// The path of the conversion webhook.
pub const CONVERSION_PATH: &str = "/convert";
/// The path of the validating webhook.
pub const VALIDATION_PATH: &str = "/validate";
/// Name of the webhook configuration, and of the one webhook in it.
pub const WEBHOOK_NAME: &str = "llamastackdistributions.llamastack.io";

impl Webhook {
    /// How the API server calls a path.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        let mut client = match &self.endpoint {
            WebhookEndpoint::Service {
                namespace,
                name,
                port,
            } => {
                json!({ "service": { "namespace": namespace, "name": name, "port": port, "path": path } })
            }
            WebhookEndpoint::Url(url) => json!({ "url": format!("{url}{path}") }),
        };
        if let Some(pem) = &self.ca_bundle {
            client["caBundle"] = json!(k8s_openapi::ByteString(pem.clone().into_bytes()));
        }
        client
    }
}

/// The ValidatingWebhookConfiguration, as `admissionregistration.k8s.io/v1` has it.
pub fn validating_webhook(webhook: &Webhook) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": WEBHOOK_NAME },
        "webhooks": [{
            "name": WEBHOOK_NAME,
            "admissionReviewVersions": ["v1"],
            "clientConfig": webhook.client_config(VALIDATION_PATH),
            // The operator checks everything again and changes nothing that runs by a resource that
            // slips through while nobody answers. Edits that nobody answers for would do harm.
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "rules": [{
                "apiGroups": [GROUP],
                // Both, so that a v1alpha1 author is answered in v1alpha1 words.
                "apiVersions": ["v1alpha1", "v1alpha2"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["llamastackdistributions"],
                "scope": "Namespaced",
            }],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_asked_about_and_the_status_is_not() {
        let webhook = Webhook {
            endpoint: WebhookEndpoint::Url("https://127.0.0.1:9443".to_owned()),
            ca_bundle: Some("pem".to_owned()),
        };
        let configuration = validating_webhook(&webhook);
        let webhook = &configuration["webhooks"][0];
        assert_eq!(
            webhook["clientConfig"],
            json!({"url": "https://127.0.0.1:9443/validate", "caBundle": "cGVt"})
        );
        assert_eq!(
            webhook["rules"][0]["apiVersions"],
            json!(["v1alpha1", "v1alpha2"])
        );
        assert_eq!(
            webhook["rules"][0]["resources"],
            json!(["llamastackdistributions"])
        );
    }
}
