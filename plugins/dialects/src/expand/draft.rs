//! Builds a provider's configuration: maps each field of the entry to the provider's key.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{Object, Variable};
use llsd_adapter_sdk::serde_json::{Value, json};
use llsd_adapter_sdk::{Diagnostic, Diagnostics};

use crate::catalog::{Endpoint, EndpointKind, EndpointPath, Provider, Unknown};
use crate::env;
use crate::layout::Dialect;
use crate::{endpoint, names};

/// A provider's configuration while it is built.
pub(super) struct Draft<'r> {
    pub(super) dialect: &'static Dialect,
    pub(super) path: &'r str,
    pub(super) name: String,
    pub(super) known: Option<Provider>,
    pub(super) config: Object,
    pub(super) wants: Vec<Variable>,
    pub(super) diagnostics: Diagnostics,
}

impl Draft<'_> {
    /// Maps endpoint, host and references to the provider's keys.
    pub(super) fn place(
        &mut self,
        address: Option<&str>,
        host: Option<&str>,
        references: &BTreeMap<String, String>,
    ) {
        if let Some(address) = address {
            self.place_endpoint(address);
        }
        if let Some(host) = host {
            self.place_host(host.to_owned());
        }
        for (field, variable) in references {
            if !env::is_name(variable) {
                self.error(
                    "bad-variable",
                    field,
                    format!("the variable name {variable:?} is not substituted by the server"),
                    "report this as a bug of the operator",
                );
                continue;
            }
            let text = env::reference(variable);
            let key = match field.as_str() {
                "apiKey" => self.credential_key(),
                "endpoint" => self
                    .endpoint_key(field)
                    .map(|endpoint| endpoint.key.to_owned()),
                "host" => {
                    self.place_host(text.clone());
                    Some("host".to_owned())
                }
                other => other
                    .strip_prefix("secretRefs.")
                    .map(|name| self.known_key(name, other)),
            };
            let Some(key) = key else { continue };
            let read_as = env::read_as(self.dialect.env, &key);
            if field != "host" {
                self.set(key, Value::String(text), field);
            }
            let reference = Some(variable.clone());
            self.wants.push(Variable {
                env: variable.clone(),
                reference,
                part: None,
                value: None,
                read_as,
            });
        }
    }

    fn place_endpoint(&mut self, text: &str) {
        let Some(Endpoint { key, kind, path }) = self.endpoint_key("endpoint") else {
            return;
        };
        if env::is_in(text) {
            return self.set(key.to_owned(), Value::String(text.to_owned()), "endpoint");
        }
        let address = match endpoint::parse(text) {
            Ok(address) => address,
            Err(why) if kind != EndpointKind::Dsn => {
                return self.error(
                    "bad-endpoint",
                    "endpoint",
                    format!("{text:?} is not a valid address: {why}"),
                    "use the form http://host:8000",
                );
            }
            Err(_) => return self.set(key.to_owned(), Value::String(text.to_owned()), "endpoint"),
        };
        if address.has_userinfo && kind != EndpointKind::Dsn {
            return self.error(
                "secret-in-endpoint",
                "endpoint",
                "it must not contain a user name or a password",
                "remove them, and reference a Secret with apiKey or secretRefs",
            );
        }
        if kind == EndpointKind::Host {
            return self.place_host_and_port(address);
        }
        if address.scheme.is_none() && kind == EndpointKind::Http {
            return self.error(
                "no-scheme",
                "endpoint",
                format!("{text:?} has no scheme, which this release requires"),
                format!("write http://{text} or https://{text}"),
            );
        }
        let text = match (path, address.path.trim_end_matches('/')) {
            (EndpointPath::V1, "") => {
                let full = address.with_path("/v1");
                self.warn(
                    "endpoint-path",
                    "endpoint",
                    format!("{} serves its API under /v1; using {full}", self.name),
                    format!("write endpoint: {full}"),
                );
                full
            }
            (EndpointPath::Bare, "/v1") => {
                let bare = address.with_path("");
                self.warn(
                    "endpoint-path",
                    "endpoint",
                    format!(
                        "{} appends /v1 itself in this release; using {bare}",
                        self.name
                    ),
                    format!("write endpoint: {bare}"),
                );
                bare
            }
            _ => text.to_owned(),
        };
        self.set(key.to_owned(), Value::String(text), "endpoint");
    }

    fn place_host_and_port(&mut self, address: endpoint::Address<'_>) {
        self.set(
            "host".to_owned(),
            Value::String(address.host.to_owned()),
            "endpoint",
        );
        if let Some(port) = address.port {
            self.set("port".to_owned(), json!(port), "endpoint");
        }
        match address.path.trim_matches('/') {
            "" => {}
            database if self.has_field("db") && !database.contains(['/', '?', '#']) => {
                self.set("db".to_owned(), json!(database), "endpoint");
            }
            path => self.warn(
                "endpoint-path",
                "endpoint",
                format!(
                    "{} takes a host and a port only; {path:?} is ignored",
                    self.name
                ),
                "move it to settings",
            ),
        }
    }

    fn place_host(&mut self, host: String) {
        if self.known.is_none() || self.has_field("host") {
            return self.set("host".to_owned(), Value::String(host), "host");
        }
        let fix = match self.known.and_then(|known| known.endpoint()) {
            Some(_) => "set endpoint instead, for example http://host:8000",
            None => "remove it: it runs inside the server or at a fixed address",
        };
        self.error(
            "no-host-field",
            "host",
            format!("{} has no host setting in this release", self.name),
            fix,
        );
    }

    fn endpoint_key(&mut self, field: &str) -> Option<Endpoint> {
        let found = self.known.and_then(|known| known.endpoint());
        if found.is_none() {
            let fix = match self.known {
                None => "put it under settings, with the key that the provider reads",
                Some(_) => "remove it: the provider runs inside the server or at a fixed address",
            };
            self.error(
                "no-endpoint-field",
                field,
                format!("{} has no endpoint setting in this release", self.name),
                fix,
            );
        }
        found
    }

    fn credential_key(&mut self) -> Option<String> {
        let found = self.known.and_then(|known| known.credential);
        if found.is_none() {
            let fix = match self.known {
                None => "use secretRefs with the key that the provider reads",
                Some(_) => "remove it: the provider needs no credential",
            };
            self.error(
                "no-credential-field",
                "apiKey",
                format!("{} has no credential setting in this release", self.name),
                fix,
            );
        }
        found.map(str::to_owned)
    }

    /// Checks a key that the user sets, and reports it if the release does not read it.
    fn known_key(&mut self, key: &str, field: &str) -> String {
        let Some(known) = self.known else {
            return key.to_owned();
        };
        match known.field(key) {
            Some(found) if found.is_deprecated => {
                self.warn(
                    "deprecated-setting",
                    field,
                    format!("{key:?} of {} is deprecated", self.name),
                    "see the provider's documentation for its replacement",
                );
            }
            Some(_) => {}
            None => {
                let fix = names::choose(key, known.fields().map(|field| field.name));
                let dropped = format!("{} has no setting {key:?} in this release", self.name);
                match known.unknown() {
                    Unknown::Kept => {}
                    Unknown::Dropped => self.warn(
                        "unknown-setting",
                        field,
                        format!("{dropped}; the server will ignore it"),
                        fix,
                    ),
                    Unknown::Refused => self.error(
                        "unknown-setting",
                        field,
                        format!("{dropped}, and does not start with it"),
                        fix,
                    ),
                }
            }
        }
        key.to_owned()
    }

    /// Applies the settings. They come last, because they take precedence.
    pub(super) fn merge_settings(&mut self, settings: Object) {
        for (key, value) in settings {
            let field = format!("settings.{key}");
            let key = self.known_key(&key, &field);
            self.set(key, value, &field);
        }
    }

    fn set(&mut self, key: String, value: Value, field: &str) {
        if self.config.contains_key(&key) {
            self.warn("set-twice", field, format!("it sets config.{key}, which another field of this provider also sets; this field takes precedence"), "remove one of the two");
        }
        self.config.insert(key, value);
    }

    fn has_field(&self, name: &str) -> bool {
        self.known.is_some_and(|known| known.field(name).is_some())
    }

    fn error(
        &mut self,
        code: &str,
        field: &str,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::error(
            code,
            format!("{}.{field}", self.path),
            problem,
            fix,
        ));
    }

    fn warn(
        &mut self,
        code: &str,
        field: &str,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::warning(
            code,
            format!("{}.{field}", self.path),
            problem,
            fix,
        ));
    }
}
