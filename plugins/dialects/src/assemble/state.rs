//! The stores of providers: a reference to a backend, or a store block in each provider.

use llsd_adapter_sdk::documents::Object;
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::Stack;
use crate::layout::{Kind, State};
use crate::names;

/// Templates for the stores of a new provider.
pub(super) struct StoreTemplates {
    /// The mounted volume.
    pub(super) data_dir: String,
    how: How,
}

enum How {
    /// Names of the backends.
    Backends { kv: String, sql: String },
    /// The server's own stores, which are copied.
    Blocks {
        kv: Option<Object>,
        sql: Option<Object>,
    },
}

impl StoreTemplates {
    /// Derives the templates from the file.
    pub(super) fn of(stack: &Stack, data_dir: &str) -> Self {
        let how = match stack.dialect.state {
            State::Backends(_) => How::Backends {
                kv: backend(stack, Kind::Kv),
                sql: backend(stack, Kind::Sql),
            },
            State::Blocks => {
                let block = |key: &str| stack.top.get(key).and_then(Value::as_object);
                let sql = block("inference_store");
                // From 0.2.22 the block may be wrapped.
                let wrapped = sql
                    .and_then(|block| block.get("sql_store_config"))
                    .and_then(Value::as_object);
                How::Blocks {
                    kv: block("metadata_store").cloned(),
                    sql: wrapped.or(sql).cloned(),
                }
            }
        };
        Self {
            data_dir: data_dir.to_owned(),
            how,
        }
    }

    /// A store for a key of a provider's configuration.
    pub(super) fn store(&self, kind: Kind, api: &str, id: &str, field: &str) -> Value {
        match (&self.how, kind) {
            (How::Backends { kv, .. }, Kind::Kv) => {
                json!({"namespace": format!("{api}::{id}"), "backend": kv})
            }
            (How::Backends { sql, .. }, Kind::Sql) => {
                json!({"table_name": names::plain(&format!("{id}_{field}")), "backend": sql})
            }
            (How::Blocks { kv, .. }, Kind::Kv) => self.block(kv.as_ref(), kind, api, id, field),
            (How::Blocks { sql, .. }, Kind::Sql) => self.block(sql.as_ref(), kind, api, id, field),
        }
    }

    /// An object of stores: `a:kv+b:sql`.
    pub(super) fn stores(&self, list: &str, api: &str, id: &str) -> Value {
        let mut stores = Object::new();
        for (name, kind) in list.split('+').filter_map(|word| word.split_once(':')) {
            let kind = if kind == "kv" { Kind::Kv } else { Kind::Sql };
            stores.insert(name.to_owned(), self.store(kind, api, id, name));
        }
        Value::Object(stores)
    }

    fn block(&self, like: Option<&Object>, kind: Kind, api: &str, id: &str, field: &str) -> Value {
        let file = names::plain(&format!("{id}_{field}"));
        let text = |key: &str| like.and_then(|like| like.get(key)).and_then(Value::as_str);
        match (like, text("type")) {
            (Some(like), Some(other)) if other != "sqlite" => {
                let mut block = like.clone();
                if kind == Kind::Kv {
                    block.insert(
                        "namespace".to_owned(),
                        Value::String(format!("{api}::{id}")),
                    );
                }
                Value::Object(block)
            }
            _ => {
                let folder = text("db_path")
                    .and_then(|path| path.rsplit_once('/'))
                    .map(|(folder, _)| folder);
                json!({"type": "sqlite", "db_path": format!("{}/{file}.db", folder.unwrap_or(&self.data_dir))})
            }
        }
    }
}

/// The backend that the server's own stores use, or the first of its kind, or the default name.
fn backend(stack: &Stack, kind: Kind) -> String {
    let storage = stack.top.get("storage");
    let backends = storage
        .and_then(|storage| storage.get("backends"))
        .and_then(Value::as_object);
    let is_kind = |name: &str| {
        let backend = backends.and_then(|backends| backends.get(name));
        backend
            .and_then(|backend| backend.get("type"))
            .and_then(Value::as_str)
            .is_some_and(|t| t.starts_with(kind.prefix()))
    };
    let store = match kind {
        Kind::Kv => "metadata",
        Kind::Sql => "inference",
    };
    let used = storage
        .and_then(|storage| storage.get("stores")?.get(store)?.get("backend")?.as_str())
        .filter(|name| is_kind(name));
    let first = || {
        backends?
            .keys()
            .filter(|name| is_kind(name))
            .min()
            .map(String::as_str)
    };
    used.or_else(first)
        .unwrap_or(kind.default_backend())
        .to_owned()
}
