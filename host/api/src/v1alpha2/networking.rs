//! Networking of v1alpha2.

use k8s_openapi::api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyPeer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// Port, TLS, exposure, and allowed clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Networking {
    /// Port of the server and its Service. Defaults to 8321.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Serving certificate of the server, and the CA certificates it trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Exposes the server outside the cluster: true, false, or
    /// {enabled, hostname, ingressClassName, tlsSecretName, annotations}. {} means true. {gateway:
    /// {parentRefs: [{name: public, namespace: gateways}], hostnames: [llama.example.com]}} exposes it through
    /// the Gateway API instead of an Ingress or Route. For a server with TLS, the Gateway passes connections
    /// through, unless gateway.backendTLS: {hostname, caConfigMapName} lets it terminate TLS and connect to the
    /// server with TLS again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub expose: Option<Value>,
    /// Other namespaces whose pods may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_from: Option<AllowedFrom>,
    /// Where the server may connect to, as the egress rules of a NetworkPolicy, for example
    /// {to: [{podSelector: {matchLabels: {app: vllm}}}]}. DNS is always allowed. Absent: everywhere. An empty
    /// list: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<NetworkPolicyEgressRule, 64>")]
    pub egress: Option<Vec<NetworkPolicyEgressRule>>,
}

/// TLS of the server and its clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Whether the server uses TLS. Defaults to true if secretName is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Secret of type kubernetes.io/tls with the serving certificate and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
    /// CA certificates that the server trusts for outgoing connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<CaBundle>,
}

/// CA certificates in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBundle {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_name: String,
    /// Namespace of the ConfigMap. Only resources converted from v1alpha1 may use another namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub config_map_namespace: Option<String>,
    /// Keys with certificates. Defaults to ca-bundle.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), inner(length(max = 253)))]
    pub config_map_keys: Option<Vec<String>>,
}

/// Other namespaces whose pods may connect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedFrom {
    /// Names of namespaces. "*" allows all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Label keys. A namespace with one of these labels may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 317)))]
    pub labels: Option<Vec<String>>,
    /// Pods by selector, or addresses, as in a NetworkPolicy: {podSelector, namespaceSelector, ipBlock}, for
    /// example {podSelector: {matchLabels: {app: web}}}. If set, other pods of the resource's own namespace
    /// may not connect, unless an entry selects them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<NetworkPolicyPeer, 64>")]
    pub peers: Option<Vec<NetworkPolicyPeer>>,
}
