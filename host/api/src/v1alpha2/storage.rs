//! State storage of v1alpha2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// Storage of the server's state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateStorage {
    /// Key-value storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvStorage>,
    /// Relational storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<SqlStorage>,
}

/// Key-value storage: a file on the server's volume, Redis, PostgreSQL or MongoDB.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KvStorage {
    /// sqlite, redis, postgres, or mongodb from ogx 1.2 on. Defaults to sqlite.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<KvKind>,
    /// Address of the Redis server: redis://host:port or host:port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: Option<String>,
    /// Secret with postgresql://user:password@host:port/database, for type postgres. Cannot be combined with
    /// the fields below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_string: Option<SecretReference>,
    /// Host name of PostgreSQL or MongoDB: a string or a secret reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub host: Option<Value>,
    /// Port of PostgreSQL or MongoDB: an integer, a string or a secret reference. Defaults to 5432 or 27017.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub port: Option<Value>,
    /// Database: a string or a secret reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub database: Option<Value>,
    /// User: a string or a secret reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub user: Option<Value>,
    /// Secret with the password of Redis, PostgreSQL or MongoDB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretReference>,
    /// Encryption of the connection to PostgreSQL. By default the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_mode: Option<TlsMode>,
    /// Connections to PostgreSQL that each server process keeps open. By default the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub pool_size: Option<i32>,
}

/// Type of key-value storage. Defaults to sqlite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KvKind {
    /// A file.
    Sqlite,
    /// A Redis server.
    Redis,
    /// A PostgreSQL server.
    Postgres,
    /// A MongoDB server.
    MongoDb,
}

/// Relational storage: a file on the server's volume, or PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SqlStorage {
    /// sqlite or postgres. Defaults to sqlite.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<SqlKind>,
    /// Secret with postgresql://user:password@host:port/database. Cannot be combined with the fields
    /// below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_string: Option<SecretReference>,
    /// Host name: a string or a secret reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub host: Option<Value>,
    /// Port: an integer, a string or a secret reference. Defaults to 5432.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub port: Option<Value>,
    /// Database: a string or a secret reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub database: Option<Value>,
    /// User: a string or a secret reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped")]
    pub user: Option<Value>,
    /// Secret with the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretReference>,
    /// Encryption of the connection to PostgreSQL. By default the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_mode: Option<TlsMode>,
    /// Connections to PostgreSQL that each server process keeps open. By default the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub pool_size: Option<i32>,
}

/// Encryption of a connection to PostgreSQL, as libpq names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// No encryption.
    Disable,
    /// Encryption, without checking the certificate.
    Require,
    /// Encryption, and the certificate must be of a trusted CA.
    VerifyCa,
    /// Encryption, and the certificate must be of a trusted CA and for the host.
    VerifyFull,
}

impl TlsMode {
    /// The name that libpq and the server use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// Type of relational storage. Defaults to sqlite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SqlKind {
    /// A file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
}

/// A key of a Secret in the same namespace: {name, key} or {secretKeyRef: {name, key}}.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Key in the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
    /// Alternative form of the same reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKey>,
}

/// A key of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}
