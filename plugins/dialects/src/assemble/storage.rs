//! State storage: redis, postgres, mongodb and sqlite in the shape of the dialect.
//!
//! If the resource does not set storage, the base is unchanged.

mod options;
mod shape;

use llsd_adapter_sdk::documents::{
    KvStorage, Object, Part, ReadAs, SqlStorage, Storage, TextOrReference, Variable,
};
use llsd_adapter_sdk::serde_json::{Map, Value, json};

use super::base::Stack;
use super::take_text;
use crate::endpoint;
use crate::env;
use crate::layout::{Kind, State};
use llsd_adapter_sdk::Release;

/// The storage that the resource sets, independent of the dialect.
struct Choice {
    /// `sqlite`, `redis`, `postgres` or `mongodb`.
    engine: &'static str,
    /// Everything but the type; empty for sqlite, whose file depends on the store.
    settings: Object,
}

/// Applies the storage of the resource to the base.
#[inline(never)]
pub(super) fn apply(stack: &mut Stack, storage: Storage, data_dir: &str) {
    let Storage {
        kv,
        sql,
        kv_postgres,
        kv_mongodb,
        kv_options,
        sql_options,
    } = storage;
    let mut kv = match kv_postgres {
        Some(server) => choose_postgres(stack, Kind::Kv, server),
        None if !kv_mongodb.is_empty() => choose_mongodb(stack, kv_mongodb),
        None => kv.and_then(|kv| choose_kv(stack, kv)),
    };
    let mut sql = sql.and_then(|sql| choose_postgres(stack, Kind::Sql, sql));
    for (kind, choice, options) in [
        (Kind::Kv, &mut kv, kv_options),
        (Kind::Sql, &mut sql, sql_options),
    ] {
        if let (Some(choice), Some(options)) = (choice, options) {
            options::apply(stack, kind, choice, options);
        }
    }
    for (kind, choice) in [(Kind::Kv, kv), (Kind::Sql, sql)] {
        let Some(choice) = choice else { continue };
        match stack.dialect.state {
            State::Blocks => shape::write_blocks(stack, kind, &choice, data_dir),
            State::Backends(stores) => shape::write_backend(stack, kind, &choice, stores, data_dir),
        }
    }
}

fn choose_kv(stack: &mut Stack, kv: KvStorage) -> Option<Choice> {
    let (text, password) = match kv {
        KvStorage::Sqlite => {
            return Some(Choice {
                engine: "sqlite",
                settings: Map::new(),
            });
        }
        KvStorage::Redis { endpoint, password } => (endpoint, password),
    };
    let field = "spec.storage.kv.endpoint";
    let mut refuse = |problem: String, fix: &str| {
        stack.diagnostics.error("bad-endpoint", field, problem, fix);
        None
    };
    let address = match endpoint::parse(&text) {
        Ok(address) => address,
        Err(why) => {
            return refuse(
                format!("{text:?} is not a valid address: {why}"),
                "use the form redis://redis.default.svc:6379",
            );
        }
    };
    if address.has_userinfo {
        return refuse(
            "it must not contain a user name or a password".to_owned(),
            "remove them, and set password to a Secret reference",
        );
    }
    match address.scheme {
        None | Some("redis") => {}
        Some("rediss") => {
            return refuse(
                "the server does not support TLS connections to Redis".to_owned(),
                "use redis://, with a TLS sidecar if the connection must be encrypted",
            );
        }
        Some(other) => {
            return refuse(
                format!("{other:?} is not a Redis scheme"),
                "use the form redis://redis.default.svc:6379",
            );
        }
    }
    if !address.path.trim_matches('/').is_empty() {
        stack.diagnostics.warning(
            "endpoint-path",
            field,
            format!(
                "the server takes a host and a port only; {:?} is ignored",
                address.path
            ),
            "use a Redis whose database 0 is free",
        );
    }
    let mut host = address.host.to_owned();
    if let Some(variable) = password {
        // No release has a key for the password, but the server builds redis://host:port from the host.
        host = format!(":{}@{host}", env::reference(&variable));
        stack.diagnostics.warning(
            "logged-password",
            "spec.storage.kv.password",
            "the server has no setting for a Redis password, so the password is part of the host setting, which the server logs in clear text at startup",
            "percent-encode the value in the Secret and restrict access to the pod's log, or protect Redis with a NetworkPolicy instead",
        );
        let reference = Some(variable.clone());
        stack.variables.push(Variable {
            env: variable,
            reference,
            part: None,
            value: None,
            read_as: ReadAs::Text,
        });
    }
    let mut settings = Map::new();
    settings.insert("host".to_owned(), Value::String(host));
    settings.insert("port".to_owned(), json!(address.port.unwrap_or(6379)));
    Some(Choice {
        engine: "redis",
        settings,
    })
}

/// The connection to PostgreSQL, of either kind of storage; or sqlite.
fn choose_postgres(stack: &mut Stack, kind: Kind, server: SqlStorage) -> Option<Choice> {
    let settings = match server {
        SqlStorage::Sqlite => {
            return Some(Choice {
                engine: "sqlite",
                settings: Map::new(),
            });
        }
        SqlStorage::PostgresConnectionString { connection_string } => {
            connection_settings(stack, kind, connection_string)
        }
        SqlStorage::Postgres {
            host,
            port,
            database,
            user,
            password,
        } => {
            if kind == Kind::Sql && stack.dialect.pastes_password && password.is_some() {
                stack.diagnostics.warning(
                    "pasted-password",
                    "spec.storage.sql.password",
                    "the server inserts it into a URL without encoding it, where some characters have a special meaning",
                    "percent-encode the value in the Secret, or use connectionString",
                );
            }
            let parts = [Some(host), port, database, Some(user), password];
            connection_parts(stack, parts, "5432")
        }
    };
    Some(Choice {
        engine: "postgres",
        settings,
    })
}

/// The connection to MongoDB. Other releases start their stores in another event loop than the one that serves
/// requests, and the client of MongoDB works in one only.
fn choose_mongodb(stack: &mut Stack, mut server: Object) -> Option<Choice> {
    if stack.dialect.product != "ogx" || !stack.has(Release::first(1, 2, 0)) {
        let problem = format!("requests to {} fail with MongoDB", stack.dialect.id);
        stack.diagnostics.error(
            "unsupported-option",
            "spec.storage.kv.type",
            problem,
            "use postgres or redis, or ogx 1.2 or newer",
        );
        return None;
    }
    let parts = ["host", "port", "database", "user", "password"].map(|key| {
        let Some(Value::Object(mut part)) = server.remove(key) else {
            return None;
        };
        let text = take_text(&mut part, "text").map(TextOrReference::Text);
        text.or_else(|| take_text(&mut part, "reference").map(TextOrReference::Reference))
    });
    Some(Choice {
        engine: "mongodb",
        settings: connection_parts(stack, parts, "27017"),
    })
}

/// The settings for host, port, database, user and password.
fn connection_parts(
    stack: &mut Stack,
    parts: [Option<TextOrReference>; 5],
    default_port: &str,
) -> Object {
    let mut settings = Map::new();
    for (key, part) in ["host", "port", "db", "user", "password"]
        .into_iter()
        .zip(parts)
    {
        let value = match part {
            None if key == "port" => port_value(stack, default_port),
            None => continue,
            Some(TextOrReference::Text(text)) if key == "port" => port_value(stack, &text),
            Some(TextOrReference::Text(text)) => Value::String(text),
            Some(TextOrReference::Reference(variable)) => {
                let text = env::reference(&variable);
                let reference = Some(variable.clone());
                let read_as = env::read_as(stack.dialect.env, key);
                stack.variables.push(Variable {
                    env: variable,
                    reference,
                    part: None,
                    value: None,
                    read_as,
                });
                Value::String(text)
            }
        };
        settings.insert(key.to_owned(), value);
    }
    settings
}

/// A connection string if the release is known to accept one; otherwise its parts, each from a
/// variable that the host derives.
fn connection_settings(stack: &mut Stack, kind: Kind, variable: String) -> Object {
    let mut settings = Map::new();
    if stack
        .dialect
        .connection_string_from
        .is_some_and(|first| stack.is_from(first, false))
    {
        settings.insert(
            "connection_string".to_owned(),
            Value::String(env::reference(&variable)),
        );
        let reference = Some(variable.clone());
        stack.variables.push(Variable {
            env: variable,
            reference,
            part: None,
            value: None,
            read_as: ReadAs::Text,
        });
        return settings;
    }
    // Only the SQL store inserts them into a URL.
    let (user, password) = if kind == Kind::Sql && stack.dialect.pastes_password {
        (Part::EncodedUser, Part::EncodedPassword)
    } else {
        (Part::User, Part::Password)
    };
    let prefix = match kind {
        Kind::Kv => "LLSD_KV",
        Kind::Sql => "LLSD_SQL",
    };
    for (key, suffix, part) in [
        ("host", "HOST", Part::Host),
        ("port", "PORT", Part::Port),
        ("db", "DB", Part::Database),
        ("user", "USER", user),
        ("password", "PASSWORD", password),
    ] {
        let name = format!("{prefix}_{suffix}");
        settings.insert(key.to_owned(), Value::String(env::reference(&name)));
        let read_as = env::read_as(stack.dialect.env, key);
        let reference = Some(variable.clone());
        stack.variables.push(Variable {
            env: name,
            reference,
            part: Some(part),
            value: None,
            read_as,
        });
    }
    settings
}

/// A port is an integer, except in 0.2.9 to 0.2.13, which accept a string only.
fn port_value(stack: &Stack, text: &str) -> Value {
    let is_text = match (stack.dialect.text_version, stack.release) {
        (true, release) => release.is_none_or(|release| release >= Release::first(0, 2, 9)),
        (false, release) => release.is_some_and(|release| release.is_version(0, 2, 13)),
    };
    match text.parse::<u16>() {
        Ok(port) if !is_text => json!(port),
        _ => Value::String(text.to_owned()),
    }
}
