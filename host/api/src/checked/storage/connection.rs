//! The fields of the connection to a database server of `spec.storage.sql` or `spec.storage.kv`.

use serde_json::Value;

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

    /// The fields, each checked by itself.
    pub(super) fn read(&self, path: &FieldPath, diagnostics: &mut Collector) -> ConnectionFields {
        let owner = self.owner;
        let refer = |field: &str| (path.field(field), secrets::variable(owner, field));
        let connection_string = self.connection_string.as_ref().map(|reference| {
            let (path, variable) = refer("connectionString");
            secrets::read_typed(reference, &path, variable, diagnostics)
        });
        let mut part = |value: &Option<Value>, field: &str| {
            connection_field(value, (owner, field), path, diagnostics)
        };
        ConnectionFields {
            connection_string,
            host: part(self.host, "host"),
            port: part(self.port, "port"),
            database: part(self.database, "database"),
            user: part(self.user, "user"),
            password: self.password.as_ref().map(|reference| {
                let (path, variable) = refer("password");
                secrets::read_typed(reference, &path, variable, diagnostics)
            }),
        }
    }
}

/// The connection fields. Outer `None`: absent; inner `None`: invalid.
pub(super) struct ConnectionFields {
    pub(super) connection_string: Option<Option<Reference>>,
    pub(super) host: Option<Option<StringOrReference>>,
    pub(super) port: Option<Option<StringOrReference>>,
    pub(super) database: Option<Option<StringOrReference>>,
    pub(super) user: Option<Option<StringOrReference>>,
    pub(super) password: Option<Option<Reference>>,
}

impl ConnectionFields {
    /// A port in the resource must be one; that of a Secret cannot be known.
    pub(super) fn check_port(&self, path: &FieldPath, diagnostics: &mut Collector) {
        if let Some(Some(StringOrReference::String(port))) = &self.port
            && let Err(error) = names::port(port)
        {
            diagnostics.error(
                &path.field("port"),
                format!("{port:?} {error}"),
                "use an integer from 1 to 65535",
            );
        }
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
