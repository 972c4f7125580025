//! Deserializes the two kinds of storage.
//!
//! The format is the one that serde derives for a tagged enum. A derived implementation buffers the
//! value, which adds thirty kilobytes to a component. A flat struct does not.

use serde::de::{Deserialize, Deserializer, Error as _};

use super::{KvStorage, SqlStorage, TextOrReference};

/// All keys of key-value storage.
#[derive(serde::Deserialize)]
struct Kv {
    #[serde(rename = "type")]
    kind: String,
    endpoint: Option<String>,
    password: Option<String>,
}

/// All keys of relational storage.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sql {
    #[serde(rename = "type")]
    kind: String,
    connection_string: Option<String>,
    host: Option<TextOrReference>,
    port: Option<TextOrReference>,
    database: Option<TextOrReference>,
    user: Option<TextOrReference>,
    password: Option<TextOrReference>,
}

impl<'de> Deserialize<'de> for KvStorage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::unfold(Kv::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for SqlStorage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::unfold(Sql::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl KvStorage {
    fn unfold(
        Kv {
            kind,
            endpoint,
            password,
        }: Kv,
    ) -> Result<Self, String> {
        match kind.as_str() {
            "sqlite" => Ok(Self::Sqlite),
            "redis" => Ok(Self::Redis {
                endpoint: need(endpoint, "endpoint")?,
                password,
            }),
            _ => Err(format!("unknown kind of key-value storage: {kind:?}")),
        }
    }
}

impl SqlStorage {
    fn unfold(sql: Sql) -> Result<Self, String> {
        let Sql {
            kind,
            connection_string,
            host,
            port,
            database,
            user,
            password,
        } = sql;
        match kind.as_str() {
            "sqlite" => Ok(Self::Sqlite),
            "postgres" => Ok(Self::Postgres {
                host: need(host, "host")?,
                port,
                database,
                user: need(user, "user")?,
                password,
            }),
            "postgres-connection-string" => Ok(Self::PostgresConnectionString {
                connection_string: need(connection_string, "connectionString")?,
            }),
            _ => Err(format!("unknown kind of relational storage: {kind:?}")),
        }
    }
}

fn need<T>(value: Option<T>, name: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("missing field `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn storage_is_read_as_it_is_written() {
        let text = |text: &str| TextOrReference::Text(text.to_owned());
        for kv in [
            KvStorage::Sqlite,
            KvStorage::Redis {
                endpoint: "redis:6379".to_owned(),
                password: Some("P".to_owned()),
            },
            KvStorage::Redis {
                endpoint: "redis:6379".to_owned(),
                password: None,
            },
        ] {
            assert_eq!(from_value::<KvStorage>(to_value(&kv).unwrap()).unwrap(), kv);
        }
        for sql in [
            SqlStorage::Sqlite,
            SqlStorage::PostgresConnectionString {
                connection_string: "DSN".to_owned(),
            },
            SqlStorage::Postgres {
                host: text("pg"),
                port: Some(text("5432")),
                database: None,
                user: TextOrReference::Reference("U".to_owned()),
                password: None,
            },
        ] {
            assert_eq!(
                from_value::<SqlStorage>(to_value(&sql).unwrap()).unwrap(),
                sql
            );
        }
        for bad in [
            json!({}),
            json!({"type": "redis"}),
            json!({"type": "mongodb"}),
            json!("redis"),
        ] {
            assert!(from_value::<KvStorage>(bad).is_err());
        }
    }
}
