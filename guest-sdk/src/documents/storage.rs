//! The storage of an assembly request.

mod flat;

use serde::{Deserialize, Serialize};

use super::Object;

/// State storage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Key-value storage, at `spec.storage.kv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvStorage>,
    /// Relational storage, at `spec.storage.sql`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<SqlStorage>,
    /// Key-value storage in PostgreSQL, at `spec.storage.kv`; `kv` is absent then. Capability
    /// `kv-postgres`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_postgres: Option<SqlStorage>,
    /// Key-value storage in MongoDB, at `spec.storage.kv`: a [`MongoDb`], and `kv` is absent then; or empty.
    /// Capability `kv-mongodb`.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<MongoDb>"))]
    pub kv_mongodb: Object,
    /// Options of the key-value storage. Capability `storage-options`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_options: Option<StorageOptions>,
    /// Options of the relational storage. Capability `storage-options`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql_options: Option<StorageOptions>,
}

/// Options of a connection to PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StorageOptions {
    /// `disable`, `require`, `verify-ca` or `verify-full`, at `tlsMode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_mode: Option<String>,
    /// Connections that each process keeps open, at `poolSize`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_size: Option<u16>,
}

/// Key-value storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum KvStorage {
    /// A file in the data folder.
    Sqlite,
    /// A Redis server.
    Redis {
        /// `redis://host:port` or `host:port`.
        endpoint: String,
        /// Variable that will hold the password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<String>,
    },
}

/// Relational storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum SqlStorage {
    /// A file in the data folder.
    Sqlite,
    /// A PostgreSQL server, by connection string.
    #[serde(rename = "postgres-connection-string")]
    PostgresConnectionString {
        /// Variable that will hold the connection string.
        #[serde(rename = "connectionString")]
        connection_string: String,
    },
    /// A PostgreSQL server, by its parts.
    Postgres {
        /// Host name.
        host: TextOrReference,
        /// Port; absent: 5432.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<TextOrReference>,
        /// Database name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        database: Option<TextOrReference>,
        /// User name.
        user: TextOrReference,
        /// Password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<TextOrReference>,
    },
}

/// The connection to a MongoDB server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MongoDb {
    /// Host name.
    pub host: TextOrReference,
    /// Port; absent: 27017.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<TextOrReference>,
    /// Database name; absent: the default of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<TextOrReference>,
    /// User name; absent: without authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<TextOrReference>,
    /// Password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<TextOrReference>,
}

/// A string, or the environment variable that will contain it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum TextOrReference {
    /// The string.
    Text(String),
    /// Name of a variable.
    Reference(String),
}
