//! State storage: a file, or a server with everything that is needed to reach it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::names;
use super::object;
use super::secrets::{self, Reference, TextOrReference};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::rules::{self, Rule};
use crate::v1alpha2::{KvKind, KvStorage, SqlKind, SqlStorage, StateStorage};

/// Key-value storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckedKv {
    /// A file in the data folder.
    Sqlite,
    /// A Redis server.
    Redis {
        /// `redis://host:port` or `host:port`, as written.
        endpoint: String,
        /// Its password.
        password: Option<Reference>,
    },
}

/// Relational storage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a resource has one")]
pub enum CheckedSql {
    /// A file in the data folder.
    Sqlite,
    /// A PostgreSQL server, by connection string.
    PostgresConnectionString {
        /// `postgresql://user:password@host:port/database`.
        connection_string: Reference,
    },
    /// A PostgreSQL server, by its parts.
    Postgres {
        /// Host name.
        host: TextOrReference,
        /// Port; absent: 5432.
        port: Option<TextOrReference>,
        /// Database.
        database: Option<TextOrReference>,
        /// User.
        user: TextOrReference,
        /// Password.
        password: Option<Reference>,
    },
}

/// What the resource says about storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedStorage {
    /// At `spec.storage.kv`; absent: what the base says stays.
    pub kv: Option<CheckedKv>,
    /// At `spec.storage.sql`; absent: what the base says stays.
    pub sql: Option<CheckedSql>,
}

impl CheckedStorage {
    /// Every secret reference.
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
                let parts = [Some(host), port.as_ref(), database.as_ref(), Some(user)];
                references.extend(
                    parts
                        .into_iter()
                        .flatten()
                        .filter_map(TextOrReference::reference),
                );
                references.extend(password);
            }
            Some(CheckedSql::Sqlite) | None => {}
        }
        references
    }

    /// Variables that a plugin may derive from a connection string, and who owns them.
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

/// Reads both halves.
pub(super) fn check(storage: &StateStorage, diagnostics: &mut Collector) -> CheckedStorage {
    let StateStorage { kv, sql } = storage;
    let path = FieldPath::spec().field("storage");
    CheckedStorage {
        kv: kv
            .as_ref()
            .and_then(|kv| check_kv(kv, &path.field("kv"), diagnostics)),
        sql: sql
            .as_ref()
            .and_then(|sql| check_sql(sql, &path.field("sql"), diagnostics)),
    }
}

fn check_kv(kv: &KvStorage, path: &FieldPath, diagnostics: &mut Collector) -> Option<CheckedKv> {
    let KvStorage {
        kind,
        endpoint,
        password,
    } = kv;
    let variable = secrets::variable("kv", "password");
    let password = password.as_ref().and_then(|password| {
        secrets::read_typed(password, &path.field("password"), variable, diagnostics)
    });
    let used = [
        ("endpoint", endpoint.is_some()),
        ("password", kv.password.is_some()),
    ];
    match kind {
        Some(KvKind::Redis) => {
            let Some(endpoint) = endpoint else {
                diagnostics.violation(&rules::REDIS_NEEDS_ENDPOINT, &path.field("endpoint"));
                return None;
            };
            let fix = "give an address such as redis://redis:6379";
            object::typed_text(
                endpoint,
                &path.field("endpoint"),
                names::address(endpoint),
                fix,
                diagnostics,
            );
            Some(CheckedKv::Redis {
                endpoint: endpoint.clone(),
                password,
            })
        }
        kind => {
            refuse_server_fields(
                kind.is_some(),
                &used,
                path,
                ("redis", &rules::KV_NEEDS_TYPE),
                diagnostics,
            );
            Some(CheckedKv::Sqlite)
        }
    }
}

/// Fields of a server have no effect on a file. Without a type their author surely meant the server.
fn refuse_server_fields(
    has_type: bool,
    used: &[(&str, bool)],
    path: &FieldPath,
    (server, rule): (&str, &Rule),
    diagnostics: &mut Collector,
) {
    let mut used = used
        .iter()
        .filter(|(_, used)| *used)
        .map(|(field, _)| *field);
    if !has_type && used.next().is_some() {
        diagnostics.violation(rule, &path.field("type"));
        return;
    }
    for field in used {
        diagnostics.warning(
            &path.field(field),
            "has no effect: the type is sqlite",
            format!("remove it, or write type: {server}"),
        );
    }
}

fn check_sql(
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
    } = sql;
    let refer = |field: &str| (path.field(field), secrets::variable("sql", field));
    let connection = connection_string.as_ref().map(|reference| {
        let (path, variable) = refer("connectionString");
        secrets::read_typed(reference, &path, variable, diagnostics)
    });
    let parts = Parts {
        host: part(host, "host", path, diagnostics),
        port: part(port, "port", path, diagnostics),
        database: part(database, "database", path, diagnostics),
        user: part(user, "user", path, diagnostics),
        password: password.as_ref().map(|reference| {
            let (path, variable) = refer("password");
            secrets::read_typed(reference, &path, variable, diagnostics)
        }),
    };
    let used = [
        ("connectionString", connection_string.is_some()),
        ("host", host.is_some()),
        ("port", port.is_some()),
        ("database", database.is_some()),
        ("user", user.is_some()),
        ("password", password.is_some()),
    ];
    let first_part = used[1..]
        .iter()
        .find(|(_, used)| *used)
        .map(|(field, _)| *field);
    match (kind, connection, first_part) {
        (Some(SqlKind::Postgres), Some(_), Some(field)) => {
            let problem = "is given beside connectionString, which says the same";
            diagnostics.error(
                &path.field(field),
                problem,
                "keep connectionString or the parts",
            );
            None
        }
        (Some(SqlKind::Postgres), Some(connection_string), None) => {
            Some(CheckedSql::PostgresConnectionString {
                connection_string: connection_string?,
            })
        }
        (Some(SqlKind::Postgres), None, Some(_)) => parts.finish(path, diagnostics),
        (Some(SqlKind::Postgres), None, None) => {
            let fix = "add connectionString: {name: <secret>, key: <key in it>}, or host and user";
            diagnostics.error(
                &path.field("connectionString"),
                "is missing, and postgres needs it",
                fix,
            );
            None
        }
        (kind, _, _) => {
            refuse_server_fields(
                kind.is_some(),
                &used,
                path,
                ("postgres", &rules::SQL_NEEDS_TYPE),
                diagnostics,
            );
            Some(CheckedSql::Sqlite)
        }
    }
}

/// The parts of a PostgreSQL address: outer `None` is absent, inner `None` is refused.
struct Parts {
    host: Option<Option<TextOrReference>>,
    port: Option<Option<TextOrReference>>,
    database: Option<Option<TextOrReference>>,
    user: Option<Option<TextOrReference>>,
    password: Option<Option<Reference>>,
}

impl Parts {
    fn finish(self, path: &FieldPath, diagnostics: &mut Collector) -> Option<CheckedSql> {
        for (field, part) in [("host", &self.host), ("user", &self.user)] {
            if part.is_none() {
                let problem =
                    "is missing, and postgres needs it when connectionString is not given";
                diagnostics.error(
                    &path.field(field),
                    problem,
                    format!("add {field}, as a text or as {{name: <secret>, key: <key in it>}}"),
                );
            }
        }
        if let Some(Some(TextOrReference::Text(port))) = &self.port
            && port.parse::<u16>().map_or(true, |port| port == 0)
        {
            diagnostics.error(
                &path.field("port"),
                format!("{port:?} is no port"),
                "use a number from 1 to 65535",
            );
        }
        Some(CheckedSql::Postgres {
            host: self.host??,
            port: self.port.flatten(),
            database: self.database.flatten(),
            user: self.user??,
            password: self.password.flatten(),
        })
    }
}

fn part(
    value: &Option<Value>,
    field: &str,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<Option<TextOrReference>> {
    let path = path.field(field);
    Some(match value.as_ref()? {
        Value::Number(number) if field == "port" => Some(TextOrReference::Text(number.to_string())),
        value @ (Value::String(_) | Value::Number(_) | Value::Bool(_)) => object::text(
            value,
            &path,
            object::short,
            "give a text or a secret reference",
            diagnostics,
        )
        .map(TextOrReference::Text),
        value => secrets::read(value, &path, secrets::variable("sql", field), diagnostics)
            .map(TextOrReference::Reference),
    })
}
