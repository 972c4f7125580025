//! Checks `spec.storage.kv`.

use super::postgres::{self, Connection};
use super::server_fields::check_server_fields;
use super::sql::CheckedSql;
use crate::checked::secrets::{self, Reference};
use crate::checked::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::rules;
use crate::v1alpha2::{KvKind, KvStorage};

/// Key-value storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckedKv {
    /// A file in the data directory.
    Sqlite,
    /// A Redis server.
    Redis {
        /// `redis://host:port` or `host:port`, as written.
        endpoint: String,
        /// The password.
        password: Option<Reference>,
    },
    /// A PostgreSQL server; never [`CheckedSql::Sqlite`].
    Postgres(Box<CheckedSql>),
}

pub(super) fn check(
    kv: &KvStorage,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedKv> {
    let KvStorage {
        kind,
        endpoint,
        connection_string,
        host,
        port,
        database,
        user,
        password,
        tls_mode: _,
        pool_size: _,
    } = kv;
    let connection = Connection {
        owner: "kv",
        connection_string,
        host,
        port,
        database,
        user,
        password,
    };
    let is_postgres = kind == &Some(KvKind::Postgres);
    let server = match kind {
        // Its password has no other connection fields beside it.
        Some(KvKind::Redis) => None,
        _ => postgres::check(&connection, is_postgres, path, diagnostics),
    };
    match kind {
        Some(KvKind::Postgres) => {
            if endpoint.is_some() {
                diagnostics.error(
                    &path.field("endpoint"),
                    "is the address of Redis, and the type is postgres",
                    "remove it, and set host and user, or connectionString",
                );
            }
            server.map(Box::new).map(CheckedKv::Postgres)
        }
        Some(KvKind::Redis) => check_redis(&connection, endpoint.as_deref(), path, diagnostics),
        kind => {
            let mut used = vec![("endpoint", endpoint.is_some())];
            used.extend(connection.used());
            check_server_fields(
                kind.is_some(),
                &used,
                path,
                ("redis or postgres", &rules::KV_NEEDS_TYPE),
                diagnostics,
            );
            Some(CheckedKv::Sqlite)
        }
    }
}

fn check_redis(
    connection: &Connection<'_>,
    endpoint: Option<&str>,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedKv> {
    let variable = secrets::variable("kv", "password");
    let password = connection.password.as_ref().and_then(|password| {
        secrets::read_typed(password, &path.field("password"), variable, diagnostics)
    });
    for (field, is_set) in connection.used() {
        if is_set && field != "password" {
            diagnostics.error(
                &path.field(field),
                "is a connection field of PostgreSQL, and the type is redis",
                "remove it, or set type: postgres",
            );
        }
    }
    let Some(endpoint) = endpoint else {
        diagnostics.violation(&rules::REDIS_NEEDS_ENDPOINT, &path.field("endpoint"));
        return None;
    };
    let fix = "use an address such as redis://redis:6379";
    untyped::check_string(
        endpoint,
        &path.field("endpoint"),
        names::address(endpoint),
        fix,
        diagnostics,
    );
    Some(CheckedKv::Redis {
        endpoint: endpoint.to_owned(),
        password,
    })
}
