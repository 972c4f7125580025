//! Writes the storage settings in the two layouts of the dialects.

use llsd_adapter_sdk::documents::Object;
use llsd_adapter_sdk::serde_json::{Map, Value, json};

use super::Choice;
use crate::assemble::base::Stack;
use crate::catalog::Filling;
use crate::layout::{Kind, Store};
use crate::names;
use llsd_adapter_sdk::Release;

/// From 0.3: replaces the backends of this kind under their names, which all stores refer to.
pub(super) fn write_backend(
    stack: &mut Stack,
    kind: Kind,
    choice: &Choice,
    stores: &'static [Store],
    data_dir: &str,
) {
    let had_storage = stack
        .top
        .get("storage")
        .is_some_and(|storage| !storage.is_null());
    let Some(storage) = stack.section_mut("storage") else {
        return;
    };
    let backends = storage.entry("backends").or_insert_with(|| json!({}));
    let Some(backends) = backends.as_object_mut() else {
        stack.diagnostics.error(
            "malformed-base",
            "",
            "storage.backends of the base configuration is not a mapping",
            "fix the base configuration, or provide another one with spec.distribution.baseConfig",
        );
        return;
    };
    let is_kind = |backend: &Value, kind: Kind| {
        backend
            .get("type")
            .and_then(Value::as_str)
            .is_some_and(|t| t.starts_with(kind.prefix()))
    };
    let mut found = false;
    for backend in backends
        .values_mut()
        .filter(|backend| is_kind(backend, kind))
    {
        found = true;
        let is_sqlite = backend
            .get("type")
            .and_then(Value::as_str)
            .is_some_and(|t| t.ends_with("_sqlite"));
        if choice.engine != "sqlite" || !is_sqlite {
            *backend = new_backend(kind, choice, data_dir);
        }
    }
    if !found {
        backends.insert(
            kind.default_backend().to_owned(),
            new_backend(kind, choice, data_dir),
        );
    }
    if had_storage {
        return;
    }
    // Without `storage` the server's defaults apply, which have both backends.
    let sqlite = Choice {
        engine: "sqlite",
        settings: Map::new(),
    };
    for other in [Kind::Kv, Kind::Sql] {
        if !backends.values().any(|backend| is_kind(backend, other)) {
            backends.insert(
                other.default_backend().to_owned(),
                new_backend(other, &sqlite, data_dir),
            );
        }
    }
    let mut written = Object::new();
    for Store { name, kind, place } in stores {
        let reference = json!({kind.place_key(): place, "backend": kind.default_backend()});
        written.insert((*name).to_owned(), reference);
    }
    storage.insert("stores".to_owned(), Value::Object(written));
}

fn new_backend(kind: Kind, choice: &Choice, data_dir: &str) -> Value {
    let mut backend = choice.settings.clone();
    backend.insert(
        "type".to_owned(),
        Value::String(format!("{}{}", kind.prefix(), choice.engine)),
    );
    if choice.engine == "sqlite" {
        let file = match kind {
            Kind::Kv => "kvstore.db",
            Kind::Sql => "sql_store.db",
        };
        backend.insert(
            "db_path".to_owned(),
            Value::String(format!("{data_dir}/{file}")),
        );
    }
    Value::Object(backend)
}

/// Up to 0.2.24: replaces the server's store, and the store of every provider that has one.
pub(super) fn write_blocks(stack: &mut Stack, kind: Kind, choice: &Choice, data_dir: &str) {
    match kind {
        Kind::Kv => {
            let block = new_block(kind, choice, "registry", data_dir);
            replace(&mut stack.top, "metadata_store", choice, block);
        }
        Kind::Sql
            if stack.dialect.text_version && !stack.is_from(Release::first(0, 2, 8), true) =>
        {
            stack.diagnostics.warning(
                "no-sql-storage",
                "spec.storage.sql",
                "this release does not use an SQL store",
                "remove it, or use llama-stack 0.2.8 or newer",
            )
        }
        Kind::Sql => {
            let block = new_block(kind, choice, "inference_store", data_dir);
            let wrapper = stack
                .top
                .get_mut("inference_store")
                .and_then(Value::as_object_mut);
            match wrapper.filter(|wrapper| wrapper.contains_key("sql_store_config")) {
                Some(wrapper) => replace(wrapper, "sql_store_config", choice, block),
                None => replace(&mut stack.top, "inference_store", choice, block),
            }
        }
    }
    let catalog = stack.catalog;
    for (api, entry) in stack.all_entries_mut() {
        let Some(known) = catalog.find(api, entry.provider_type()) else {
            continue;
        };
        let Some(id) = entry.id().name().map(str::to_owned) else {
            continue;
        };
        for field in known
            .fields()
            .filter(|field| field.filling == Filling::Store(kind))
        {
            let block = new_block(
                kind,
                choice,
                &format!("{api}::{id}::{}", field.name),
                data_dir,
            );
            if let Some(config) = entry.config_mut() {
                replace(config, field.name, choice, block);
            }
        }
    }
}

/// A store that already is sqlite keeps its file.
fn replace(home: &mut Object, key: &str, choice: &Choice, block: Value) {
    let is_sqlite = home
        .get(key)
        .and_then(|old| old.get("type"))
        .and_then(Value::as_str)
        == Some("sqlite");
    if choice.engine != "sqlite" || !is_sqlite {
        home.insert(key.to_owned(), block);
    }
}

fn new_block(kind: Kind, choice: &Choice, label: &str, data_dir: &str) -> Value {
    let mut block = choice.settings.clone();
    block.insert("type".to_owned(), Value::String(choice.engine.to_owned()));
    match (choice.engine, kind) {
        ("sqlite", _) => {
            block.insert(
                "db_path".to_owned(),
                Value::String(format!("{data_dir}/{}.db", names::plain(label))),
            );
        }
        (_, Kind::Kv) => {
            block.insert("namespace".to_owned(), Value::String(label.to_owned()));
        }
        (_, Kind::Sql) => {}
    }
    Value::Object(block)
}
