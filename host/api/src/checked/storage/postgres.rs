//! Checks the connection to PostgreSQL of `spec.storage.sql` or `spec.storage.kv`.

use super::connection::{Connection, ConnectionFields};
use super::sql::CheckedSql;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;

pub(super) fn check(
    connection: &Connection<'_>,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedSql> {
    let mut fields = connection.read(path, diagnostics);
    let connection_string = fields.connection_string.take();
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
        (None, Some(_)) => finish(fields, path, diagnostics),
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

/// The connection by separate fields, which must be complete.
fn finish(
    fields: ConnectionFields,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedSql> {
    for (field, part) in [("host", &fields.host), ("user", &fields.user)] {
        if part.is_none() {
            let problem = "is missing, but required for type postgres without connectionString";
            diagnostics.error(
                &path.field(field),
                problem,
                format!("add {field}, as a string or as {{name: <secret>, key: <key in it>}}"),
            );
        }
    }
    fields.check_port(path, diagnostics);
    Some(CheckedSql::Postgres {
        host: fields.host??,
        port: fields.port.flatten(),
        database: fields.database.flatten(),
        user: fields.user??,
        password: fields.password.flatten(),
    })
}
