//! Checks `spec.storage.sql`.

use super::connection::Connection;
use super::postgres;
use super::server_fields::check_server_fields;
use crate::checked::secrets::{Reference, StringOrReference};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::rules;
use crate::v1alpha2::{SqlKind, SqlStorage};

/// Relational storage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a resource has one")]
pub enum CheckedSql {
    /// A file in the data directory.
    Sqlite,
    /// A PostgreSQL server, by connection string.
    PostgresConnectionString {
        /// `postgresql://user:password@host:port/database`.
        connection_string: Reference,
    },
    /// A PostgreSQL server, by separate connection fields.
    Postgres {
        /// Host name.
        host: StringOrReference,
        /// Port. `None`: 5432.
        port: Option<StringOrReference>,
        /// Database.
        database: Option<StringOrReference>,
        /// User.
        user: StringOrReference,
        /// Password.
        password: Option<Reference>,
    },
}

impl CheckedSql {
    /// All secret references.
    pub(super) fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Sqlite => Vec::new(),
            Self::PostgresConnectionString { connection_string } => vec![connection_string],
            Self::Postgres {
                host,
                port,
                database,
                user,
                password,
            } => {
                let fields = [Some(host), port.as_ref(), database.as_ref(), Some(user)];
                let fields = fields.into_iter().flatten();
                fields
                    .filter_map(StringOrReference::reference)
                    .chain(password)
                    .collect()
            }
        }
    }
}

pub(super) fn check(
    sql: &SqlStorage,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedSql> {
    let SqlStorage {
        kind,
        connection_string,
        host,
        port,
        database,
        user,
        password,
        tls_mode: _,
        pool_size: _,
    } = sql;
    let connection = Connection {
        owner: "sql",
        connection_string,
        host,
        port,
        database,
        user,
        password,
    };
    if kind == &Some(SqlKind::Postgres) {
        return postgres::check(&connection, path, diagnostics);
    }
    connection.read(path, diagnostics);
    check_server_fields(
        kind.is_some(),
        &connection.used(),
        path,
        ("postgres", &rules::SQL_NEEDS_TYPE),
        diagnostics,
    );
    Some(CheckedSql::Sqlite)
}
