//! Checks `spec.storage.sql`.

use serde_json::Value;

use super::server_fields::check_server_fields;
use crate::checked::secrets::{self, Reference, StringOrReference};
use crate::checked::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
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
    } = sql;
    let refer = |field: &str| (path.field(field), secrets::variable("sql", field));
    let connection = connection_string.as_ref().map(|reference| {
        let (path, variable) = refer("connectionString");
        secrets::read_typed(reference, &path, variable, diagnostics)
    });
    let fields = ConnectionFields {
        host: connection_field(host, "host", path, diagnostics),
        port: connection_field(port, "port", path, diagnostics),
        database: connection_field(database, "database", path, diagnostics),
        user: connection_field(user, "user", path, diagnostics),
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
    let first_field = used[1..]
        .iter()
        .find(|(_, used)| *used)
        .map(|(field, _)| *field);
    match (kind, connection, first_field) {
        (Some(SqlKind::Postgres), Some(_), Some(field)) => {
            let problem = "cannot be combined with connectionString";
            diagnostics.error(
                &path.field(field),
                problem,
                "keep connectionString or the separate fields",
            );
            None
        }
        (Some(SqlKind::Postgres), Some(connection_string), None) => {
            Some(CheckedSql::PostgresConnectionString {
                connection_string: connection_string?,
            })
        }
        (Some(SqlKind::Postgres), None, Some(_)) => fields.finish(path, diagnostics),
        (Some(SqlKind::Postgres), None, None) => {
            let fix = "add connectionString: {name: <secret>, key: <key in it>}, or host and user";
            diagnostics.error(
                &path.field("connectionString"),
                "is missing, but required for type postgres",
                fix,
            );
            None
        }
        (kind, _, _) => {
            check_server_fields(
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

/// The separate connection fields of PostgreSQL. Outer `None`: absent; inner `None`: invalid.
struct ConnectionFields {
    host: Option<Option<StringOrReference>>,
    port: Option<Option<StringOrReference>>,
    database: Option<Option<StringOrReference>>,
    user: Option<Option<StringOrReference>>,
    password: Option<Option<Reference>>,
}

impl ConnectionFields {
    fn finish(self, path: &FieldPath, diagnostics: &mut Collector) -> Option<CheckedSql> {
        for (field, part) in [("host", &self.host), ("user", &self.user)] {
            if part.is_none() {
                let problem = "is missing, but required for type postgres without connectionString";
                diagnostics.error(
                    &path.field(field),
                    problem,
                    format!("add {field}, as a string or as {{name: <secret>, key: <key in it>}}"),
                );
            }
        }
        if let Some(Some(StringOrReference::String(port))) = &self.port
            && let Err(error) = names::port(port)
        {
            diagnostics.error(
                &path.field("port"),
                format!("{port:?} {error}"),
                "use an integer from 1 to 65535",
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

fn connection_field(
    value: &Option<Value>,
    field: &str,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<Option<StringOrReference>> {
    let path = path.field(field);
    Some(match value.as_ref()? {
        Value::Number(number) if field == "port" => {
            Some(StringOrReference::String(number.to_string()))
        }
        value @ (Value::String(_) | Value::Number(_) | Value::Bool(_)) => untyped::read_string(
            value,
            &path,
            names::short,
            "use a string or a secret reference",
            diagnostics,
        )
        .map(StringOrReference::String),
        value => secrets::read(value, &path, secrets::variable("sql", field), diagnostics)
            .map(StringOrReference::Reference),
    })
}
