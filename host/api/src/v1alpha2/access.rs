//! Authentication and authorisation of v1alpha2.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::storage::SecretReference;
use crate::schema;

/// Who may use the server: one way to authenticate clients, and rules about what they may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// Clients send a token of this cluster, for example that of their ServiceAccount. {} is enough. From
    /// llama-stack 0.3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesAccess>,
    /// Clients send a token of an OAuth 2 or OpenID Connect server. From llama-stack 0.3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2Access>,
    /// Clients send a token of GitHub. {} is enough. From llama-stack 0.3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<GitHubAccess>,
    /// Clients send one of these keys. From ogx 1.4 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub api_keys: Option<Vec<SecretReference>>,
    /// A proxy authenticates clients, and passes their names to the server in headers. From ogx 0.8 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_header: Option<UpstreamHeaderAccess>,
    /// A service of yours checks each token. From llama-stack 0.3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomAccess>,
    /// Rules about the server's resources, for example {permit: {actions: [read], resource: "model::*"},
    /// when: [user with admin in roles]}. The first rule that applies decides; if none applies, the request
    /// is denied. By default a user sees what others with the same attributes created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub policy: Option<Vec<AccessRule>>,
    /// Rules about paths, for example {permit: {paths: ["/v1/models*"]}}. The first rule that applies
    /// decides; if none applies, the request is denied. By default all paths are allowed. From llama-stack
    /// 0.5 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub route_policy: Option<Vec<RouteRule>>,
}

/// Tokens of a Kubernetes cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesAccess {
    /// URL of the API server, if it is that of another cluster. The server then trusts the certificates of
    /// networking.tls.caBundle. By default the cluster of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub api_server_url: Option<String>,
    /// Which attribute of the user each field of the token's user becomes, for example {groups: teams}. By
    /// default the server's own: username and groups become roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_strings")]
    pub claims_mapping: Option<BTreeMap<String, String>>,
}

/// Tokens of an OAuth 2 or OpenID Connect server. Set either jwks or introspection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Access {
    /// The issuer that tokens must name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub issuer: Option<String>,
    /// The audience that tokens must name. By default the server's own: llama-stack, or ogx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub audience: Option<String>,
    /// Keys that verify tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Jwks>,
    /// A service of the issuer that checks tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspection: Option<Introspection>,
    /// Which attribute of the user each claim becomes, for example {groups: teams}. By default the server's
    /// own: sub and username become roles, groups and team become teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_strings")]
    pub claims_mapping: Option<BTreeMap<String, String>>,
}

/// A JSON Web Key Set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Jwks {
    /// URL of the keys, for example https://login.example.com/keys.
    #[schemars(length(min = 1, max = 2048))]
    pub uri: String,
    /// Secret with a token that the URL requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretReference>,
    /// Seconds after which the keys are read again. By default the server's own, an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub key_recheck_period: Option<i32>,
}

/// Token introspection, RFC 7662.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Introspection {
    /// URL of the introspection endpoint.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The server's own client id.
    #[schemars(length(min = 1, max = 253))]
    pub client_id: String,
    /// Secret with the server's own client secret.
    pub client_secret: SecretReference,
    /// Whether the client secret is sent in the body instead of a header. Defaults to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_secret_in_body: Option<bool>,
}

/// Tokens of GitHub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitHubAccess {
    /// URL of the API of a GitHub Enterprise server. Defaults to https://api.github.com.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub github_api_base_url: Option<String>,
    /// Which attribute of the user each claim becomes. By default the server's own: login becomes roles,
    /// organizations becomes teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_strings")]
    pub claims_mapping: Option<BTreeMap<String, String>>,
}

/// Headers of a proxy that authenticates clients. Set networking.allowedFrom, so that only the proxy can
/// connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamHeaderAccess {
    /// Header with the name of the user, for example x-auth-user.
    #[schemars(length(min = 1, max = 128))]
    pub principal_header: String,
    /// Header with the attributes of the user, as a JSON object of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub attributes_header: Option<String>,
    /// Headers with one attribute each, by attribute, for example {teams: x-auth-teams}. From ogx 1.0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_strings")]
    pub attribute_headers: Option<BTreeMap<String, String>>,
    /// Addresses of the proxy, for example 10.0.0.0/8. From ogx 1.4 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 64)))]
    pub trusted_proxy_cidrs: Option<Vec<String>>,
}

/// A service that checks tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomAccess {
    /// URL to which the server posts each token. It answers with the name and the attributes of the user.
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: String,
}

/// A rule about resources of the server: either permit or forbid, and at most one of when and unless.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRule {
    /// What is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<AccessScope>,
    /// What is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbid: Option<AccessScope>,
    /// The rule applies if all conditions hold, for example [user is owner, user with admin in roles].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 253)))]
    pub when: Option<Vec<String>>,
    /// The rule does not apply if the conditions hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 253)))]
    pub unless: Option<Vec<String>>,
    /// What the rule is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}

/// Actions of users on resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessScope {
    /// Name of one user. By default all users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub principal: Option<String>,
    /// The actions.
    #[schemars(length(min = 1, max = 4))]
    pub actions: Vec<Action>,
    /// A resource (model::vllm/llama), all of a kind (model::*), or regex: and an expression (from 0.6 on).
    /// By default all resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub resource: Option<String>,
}

/// An action on a resource of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Create it.
    Create,
    /// Use it.
    Read,
    /// Change it.
    Update,
    /// Delete it.
    Delete,
}

/// A rule about paths: either permit or forbid, and at most one of when and unless.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteRule {
    /// What is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<RouteScope>,
    /// What is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbid: Option<RouteScope>,
    /// The rule applies if all conditions hold, for example [user with admin in roles].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 253)))]
    pub when: Option<Vec<String>>,
    /// The rule does not apply if the conditions hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 253)))]
    pub unless: Option<Vec<String>>,
    /// What the rule is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}

/// Paths of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteScope {
    /// Paths (/v1/models), prefixes (/v1/files*), all (*), or regex: and an expression (from 0.6 on).
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 512)))]
    pub paths: Vec<String>,
}
