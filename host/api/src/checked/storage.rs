//! Checks `spec.storage`: a file, or the connection to a database server.

mod kv;
mod server_fields;
mod sql;

use std::collections::BTreeMap;

pub use kv::CheckedKv;
pub use sql::CheckedSql;

use super::secrets::{self, Reference, StringOrReference};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::v1alpha2::StateStorage;

/// State storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedStorage {
    /// `spec.storage.kv`. `None`: unchanged from the base configuration.
    pub kv: Option<CheckedKv>,
    /// `spec.storage.sql`. `None`: unchanged from the base configuration.
    pub sql: Option<CheckedSql>,
}

impl CheckedStorage {
    /// All secret references.
    pub fn references(&self) -> Vec<&Reference> {
        let mut references = Vec::new();
        if let Some(CheckedKv::Redis { password, .. }) = &self.kv {
            references.extend(password);
        }
        match &self.sql {
            Some(CheckedSql::PostgresConnectionString { connection_string }) => {
                references.push(connection_string)
            }
            Some(CheckedSql::Postgres {
                host,
                port,
                database,
                user,
                password,
            }) => {
                let fields = [Some(host), port.as_ref(), database.as_ref(), Some(user)];
                references.extend(
                    fields
                        .into_iter()
                        .flatten()
                        .filter_map(StringOrReference::reference),
                );
                references.extend(password);
            }
            Some(CheckedSql::Sqlite) | None => {}
        }
        references
    }

    /// The environment variables that a plugin may derive from a connection string, with the field of
    /// the connection string.
    pub(super) fn derived_variables(&self) -> BTreeMap<String, FieldPath> {
        match &self.sql {
            Some(CheckedSql::PostgresConnectionString { connection_string }) => {
                ["host", "port", "db", "user", "password"]
                    .into_iter()
                    .map(|part| {
                        (
                            secrets::variable("sql", part),
                            connection_string.path.clone(),
                        )
                    })
                    .collect()
            }
            _ => BTreeMap::new(),
        }
    }
}

/// Checks both kinds of storage.
pub(super) fn check(storage: &StateStorage, diagnostics: &mut Collector) -> CheckedStorage {
    let StateStorage { kv, sql } = storage;
    let path = FieldPath::spec().field("storage");
    CheckedStorage {
        kv: kv
            .as_ref()
            .and_then(|storage| kv::check(storage, &path.field("kv"), diagnostics)),
        sql: sql
            .as_ref()
            .and_then(|storage| sql::check(storage, &path.field("sql"), diagnostics)),
    }
}
