//! How the server is reached, as sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// How the server is reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Networking {
    /// Port of the server and its Service. Absent: 8321.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The server's certificate, and the authorities it trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Whether clients outside the cluster may connect: true, false, or
    /// {enabled, hostname, ingressClassName, tlsSecretName, annotations}. {} means true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub expose: Option<Value>,
    /// Who may connect from other namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_from: Option<AllowedFrom>,
}

/// Certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Whether the server speaks TLS. Absent: true when secretName is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Secret of type kubernetes.io/tls with the server's certificate and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
    /// Authorities that the server trusts when it connects to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<CaBundle>,
}

/// Certificates of authorities, in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBundle {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_name: String,
    /// Namespace of the ConfigMap. Only resources that came from v1alpha1 name another than their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub config_map_namespace: Option<String>,
    /// Keys that hold certificates. Absent: ca-bundle.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), inner(length(max = 253)))]
    pub config_map_keys: Option<Vec<String>>,
}

/// Namespaces whose pods may connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedFrom {
    /// Names of namespaces; "*" is every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Label keys; a namespace that has one of them may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 317)))]
    pub labels: Option<Vec<String>>,
}
