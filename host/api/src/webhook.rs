//! The address of the webhooks, and the ValidatingWebhookConfiguration.

use serde_json::{Value, json};

use crate::gvk::GROUP;

/// The address of the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// A Service, or a URL outside the cluster.
    pub endpoint: WebhookEndpoint,
    /// CA certificates for the webhook's certificate, in PEM. `None`: set later.
    pub ca_bundle: Option<String>,
}

/// The server of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEndpoint {
    /// A Service.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
        /// Port of the Service.
        port: u16,
    },
    /// The URL of a server outside the cluster, without a path: `https://127.0.0.1:9443`.
    Url(String),
}

/// The path of the conversion webhook.
pub const CONVERSION_PATH: &str = "/convert";
/// The path of the validating webhook.
pub const VALIDATION_PATH: &str = "/validate";
/// Name of the webhook configuration, and of its only webhook.
pub const WEBHOOK_NAME: &str = "llamastackdistributions.llamastack.io";

impl Webhook {
    /// The `clientConfig` for a path.
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

/// The ValidatingWebhookConfiguration (`admissionregistration.k8s.io/v1`).
pub fn validating_webhook(webhook: &Webhook) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": WEBHOOK_NAME },
        "webhooks": [{
            "name": WEBHOOK_NAME,
            "admissionReviewVersions": ["v1"],
            "clientConfig": webhook.client_config(VALIDATION_PATH),
            // The operator repeats all checks and leaves running objects as they are if one fails.
            // With Fail, an outage of the webhook would block every edit.
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "rules": [{
                "apiGroups": [GROUP],
                // Both, so that messages for a v1alpha1 resource name v1alpha1 fields.
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
    fn both_versions_are_validated_without_the_status_subresource() {
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
