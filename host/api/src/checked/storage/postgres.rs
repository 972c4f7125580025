//! Checks the connection to PostgreSQL of `spec.storage.sql` or `spec.storage.kv`.

use serde_json::Value;

use super::sql::CheckedSql;
use crate::checked::secrets::{self, Reference, StringOrReference};
use crate::checked::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::v1alpha2::SecretReference;

/// The connection fields as written.
pub(super) struct Connection<'a> {
    /// `kv` or `sql`: part of the names of environment variables.
    pub(super) owner: &'static str,
    pub(super) connection_string: &'a Option<SecretReference>,
    pub(super) host: &'a Option<Value>,
    pub(super) port: &'a Option<Value>,
    pub(super) database: &'a Option<Value>,
    pub(super) user: &'a Option<Value>,
    pub(super) password: &'a Option<SecretReference>,
}

impl Connection<'_> {
    /// All fields, and whether they are set.
    pub(super) fn used(&self) -> [(&'static str, bool); 6] {
        [
            ("connectionString", self.connection_string.is_some()),
            ("host", self.host.is_some()),
            ("port", self.port.is_some()),
            ("database", self.database.is_some()),
            ("user", self.user.is_some()),
            ("password", self.password.is_some()),
        ]
    }
}

/// Checks the fields; the address must be complete if `is_postgres`.
pub(super) fn check(
    connection: &Connection<'_>,
    is_postgres: bool,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedSql> {
    let owner = connection.owner;
    let refer = |field: &str| (path.field(field), secrets::variable(owner, field));
    let connection_string = connection.connection_string.as_ref().map(|reference| {
        let (path, variable) = refer("connectionString");
        secrets::read_typed(reference, &path, variable, diagnostics)
    });
    let mut part = |value: &Option<Value>, field: &str| {
        connection_field(value, (owner, field), path, diagnostics)
    };
    let fields = ConnectionFields {
        host: part(connection.host, "host"),
        port: part(connection.port, "port"),
        database: part(connection.database, "database"),
        user: part(connection.user, "user"),
        password: connection.password.as_ref().map(|reference| {
            let (path, variable) = refer("password");
            secrets::read_typed(reference, &path, variable, diagnostics)
        }),
    };
    if !is_postgres {
        return None;
    }
    let used = connection.used();
    let first_field = used
        .iter()
        .skip(1)
        .find(|(_, used)| *used)
        .map(|(field, _)| *field);
    match (connection_string, first_field) {
        (Some(_), Some(field)) => {
            let problem = "cannot be combined with connectionString";
            diagnostics.error(
                &path.field(field),
                problem,
                "keep connectionString or the separate fields",
            );
            None
        }
        (Some(connection_string), None) => Some(CheckedSql::PostgresConnectionString {
            connection_string: connection_string?,
        }),
        (None, Some(_)) => fields.finish(path, diagnostics),
        (None, None) => {
            let fix = "add connectionString: {name: <secret>, key: <key in it>}, or host and user";
            diagnostics.error(
                &path.field("connectionString"),
                "is missing, but required for type postgres",
                fix,
            );
            None
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
    (owner, field): (&str, &str),
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
        value => secrets::read(value, &path, secrets::variable(owner, field), diagnostics)
            .map(StringOrReference::Reference),
    })
}
