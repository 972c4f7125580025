//! Checks `spec.storage`: a file, or the connection to a database server.

mod connection;
mod kv;
mod mongodb;
mod postgres;
mod server_fields;
mod sql;

use std::collections::BTreeMap;

pub use kv::CheckedKv;
pub use mongodb::CheckedMongoDb;
pub use sql::CheckedSql;

use super::secrets::{self, Reference};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::v1alpha2::{KvKind, SqlKind, StateStorage, TlsMode};

/// State storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedStorage {
    /// `spec.storage.kv`. `None`: unchanged from the base configuration.
    pub kv: Option<CheckedKv>,
    /// `spec.storage.sql`. `None`: unchanged from the base configuration.
    pub sql: Option<CheckedSql>,
    /// Options of the connection of `spec.storage.kv`.
    pub kv_options: CheckedOptions,
    /// Options of the connection of `spec.storage.sql`.
    pub sql_options: CheckedOptions,
}

/// Options of a connection to PostgreSQL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckedOptions {
    /// Encryption of the connection.
    pub tls_mode: Option<TlsMode>,
    /// Connections that each process keeps open.
    pub pool_size: Option<u16>,
}

impl CheckedStorage {
    /// All secret references.
    pub fn references(&self) -> Vec<&Reference> {
        let mut references = Vec::new();
        match &self.kv {
            Some(CheckedKv::Redis { password, .. }) => references.extend(password),
            Some(CheckedKv::Postgres(server)) => references.extend(server.references()),
            Some(CheckedKv::MongoDb(server)) => references.extend(server.references()),
            Some(CheckedKv::Sqlite) | None => {}
        }
        references.extend(self.sql.iter().flat_map(CheckedSql::references));
        references
    }

    /// The environment variables that a plugin may derive from a connection string, with the field of
    /// the connection string.
    pub(super) fn derived_variables(&self) -> BTreeMap<String, FieldPath> {
        let kv = match &self.kv {
            Some(CheckedKv::Postgres(server)) => Some(server.as_ref()),
            _ => None,
        };
        let mut variables = BTreeMap::new();
        for (owner, server) in [("kv", kv), ("sql", self.sql.as_ref())] {
            let Some(CheckedSql::PostgresConnectionString { connection_string }) = server else {
                continue;
            };
            for part in ["host", "port", "db", "user", "password"] {
                let variable = secrets::variable(owner, part);
                variables.insert(variable, connection_string.path.clone());
            }
        }
        variables
    }
}

/// Checks both kinds of storage.
pub(super) fn check(storage: &StateStorage, diagnostics: &mut Collector) -> CheckedStorage {
    let StateStorage { kv, sql } = storage;
    let path = FieldPath::spec().field("storage");
    let (kv_path, sql_path) = (path.field("kv"), path.field("sql"));
    let kv_options = kv.as_ref().map(|kv| {
        let is_postgres = kv.kind == Some(KvKind::Postgres);
        options(
            kv.tls_mode,
            kv.pool_size,
            is_postgres,
            &kv_path,
            diagnostics,
        )
    });
    let sql_options = sql.as_ref().map(|sql| {
        let is_postgres = sql.kind == Some(SqlKind::Postgres);
        options(
            sql.tls_mode,
            sql.pool_size,
            is_postgres,
            &sql_path,
            diagnostics,
        )
    });
    CheckedStorage {
        kv: kv
            .as_ref()
            .and_then(|storage| kv::check(storage, &kv_path, diagnostics)),
        sql: sql
            .as_ref()
            .and_then(|storage| sql::check(storage, &sql_path, diagnostics)),
        kv_options: kv_options.unwrap_or_default(),
        sql_options: sql_options.unwrap_or_default(),
    }
}

/// The options, which only a connection to PostgreSQL has.
fn options(
    tls_mode: Option<TlsMode>,
    pool_size: Option<i32>,
    is_postgres: bool,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> CheckedOptions {
    if is_postgres {
        return CheckedOptions {
            tls_mode,
            pool_size: pool_size.and_then(|size| u16::try_from(size).ok()),
        };
    }
    for (field, is_set) in [
        ("tlsMode", tls_mode.is_some()),
        ("poolSize", pool_size.is_some()),
    ] {
        if is_set {
            diagnostics.error(
                &path.field(field),
                "is an option of PostgreSQL, which is not the type of this storage",
                "remove it, or set type: postgres",
            );
        }
    }
    CheckedOptions::default()
}
