//! Checks `spec.storage.kv`.

use super::connection::Connection;
use super::mongodb::{self, CheckedMongoDb};
use super::postgres;
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
    /// A MongoDB server.
    MongoDb(Box<CheckedMongoDb>),
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
    if let (Some(kind @ (KvKind::Postgres | KvKind::MongoDb)), Some(_)) = (kind, endpoint) {
        let name = match kind {
            KvKind::MongoDb => "mongodb",
            _ => "postgres",
        };
        diagnostics.error(
            &path.field("endpoint"),
            format!("is the address of Redis, and the type is {name}"),
            "remove it, and set host and user",
        );
    }
    match kind {
        Some(KvKind::Postgres) => {
            let server = postgres::check(&connection, path, diagnostics);
            server.map(Box::new).map(CheckedKv::Postgres)
        }
        Some(KvKind::MongoDb) => {
            let server = mongodb::check(&connection, path, diagnostics);
            server.map(Box::new).map(CheckedKv::MongoDb)
        }
        Some(KvKind::Redis) => check_redis(&connection, endpoint.as_deref(), path, diagnostics),
        kind => {
            connection.read(path, diagnostics);
            let mut used = vec![("endpoint", endpoint.is_some())];
            used.extend(connection.used());
            check_server_fields(
                kind.is_some(),
                &used,
                path,
                ("redis, postgres or mongodb", &rules::KV_NEEDS_TYPE),
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
                "is a connection field of PostgreSQL and MongoDB, and the type is redis",
                "remove it, or set type: postgres or type: mongodb",
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
