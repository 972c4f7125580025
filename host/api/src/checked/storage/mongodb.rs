//! Checks the connection to MongoDB of `spec.storage.kv`.

use super::connection::Connection;
use crate::checked::secrets::{Reference, StringOrReference};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;

/// The connection to a MongoDB server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedMongoDb {
    /// Host name.
    pub host: StringOrReference,
    /// Port. `None`: 27017.
    pub port: Option<StringOrReference>,
    /// Database. `None`: the default of the server.
    pub database: Option<StringOrReference>,
    /// User. `None`: without authentication.
    pub user: Option<StringOrReference>,
    /// Password of the user.
    pub password: Option<Reference>,
}

impl CheckedMongoDb {
    /// All secret references.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        let Self {
            host,
            port,
            database,
            user,
            password,
        } = self;
        let fields = [Some(host), port.as_ref(), database.as_ref(), user.as_ref()];
        let fields = fields.into_iter().flatten();
        fields
            .filter_map(StringOrReference::reference)
            .chain(password)
    }
}

pub(super) fn check(
    connection: &Connection<'_>,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedMongoDb> {
    let fields = connection.read(path, diagnostics);
    if fields.connection_string.is_some() {
        diagnostics.error(
            &path.field("connectionString"),
            "is a connection field of PostgreSQL, and the type is mongodb",
            "remove it, and set host",
        );
    }
    if fields.host.is_none() {
        diagnostics.error(
            &path.field("host"),
            "is missing, but required for type mongodb",
            "add host, as a string or as {name: <secret>, key: <key in it>}",
        );
    }
    for (field, is_set, other, has_other) in [
        (
            "password",
            fields.password.is_some(),
            "user",
            fields.user.is_some(),
        ),
        (
            "user",
            fields.user.is_some(),
            "password",
            fields.password.is_some(),
        ),
    ] {
        if is_set && !has_other {
            diagnostics.error(
                &path.field(other),
                format!("is missing, but required beside {field}"),
                format!("add {other}, or remove {field}"),
            );
        }
    }
    fields.check_port(path, diagnostics);
    Some(CheckedMongoDb {
        host: fields.host??,
        port: fields.port.flatten(),
        database: fields.database.flatten(),
        user: fields.user.flatten(),
        password: fields.password.flatten(),
    })
}
