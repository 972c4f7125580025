//! Where a server keeps its state, and what does not move by itself.
//!
//! In: the configurations before and after a move, and the variables of the pod. Out: every store whose
//! place changes. The home folders of both products and the mount path of the volume are one place,
//! because the operator puts the data folders of either product on the volume.

use std::collections::BTreeMap;
use std::fmt;

use llsd_api::server_variables::conditional_text;
use llsd_env_expressions::{Form, expressions, whole};
use serde_json::{Map, Value};

/// Stands for the volume, or for the home folder of the server.
const DATA: &str = "<data>";
/// The home folders of servers, as their configurations name them.
const HOMES: [&str; 2] = ["~/.llama", "~/.ogx"];
/// Sections of old dialects that hold a store, and the name that later dialects give it.
const OLD_STORES: [(&str, &str); 3] = [
    ("metadata_store", "metadata"),
    ("inference_store", "inference"),
    ("conversations_store", "conversations"),
];
/// How deep a store is below the settings of a provider.
const MAX_DEPTH: usize = 3;

/// The variables of a pod: the value, or `None` if only the cluster knows it.
pub(crate) type Variables = BTreeMap<String, Option<String>>;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// `sqlite`, `postgres`, `redis`, or `folder`.
    engine: String,
    /// The file, or the address of the database.
    at: String,
    /// The namespace of its keys, or its table.
    part: Option<String>,
    /// Whether it is a table; `None` if the configuration does not tell.
    is_table: Option<bool>,
}

impl Location {
    fn is_local(&self) -> bool {
        ["sqlite", "folder"].contains(&self.engine.as_str())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.engine, self.at)?;
        match &self.part {
            Some(part) => write!(f, " ({part})"),
            None => Ok(()),
        }
    }
}

/// A store whose place changes, or that nothing reads after the move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateMove {
    /// `inference`, or `vector_io/faiss persistence`.
    pub(crate) store: String,
    /// Where it is.
    pub(crate) from: Location,
    /// Where the server looks for it afterwards; `None` if it has no such store.
    pub(crate) to: Option<Location>,
}

impl StateMove {
    /// What to do about it.
    pub(crate) fn advice(&self) -> String {
        let Some(to) = &self.to else {
            return "export what you need through the API before the move; no server reads it afterwards"
                .to_owned();
        };
        let from = &self.from;
        let has_same_form = from.engine == to.engine
            && from.part == to.part
            && from.is_table == to.is_table
            && from.is_table.is_some();
        match (has_same_form, from.is_local()) {
            (true, true) => format!("stop the server, copy {} to {}, then move", from.at, to.at),
            (true, false) => format!(
                "stop the server, copy the data with the tools of {} from {} to {}, then move",
                from.engine, from.at, to.at
            ),
            (false, _) => "the server keeps it in another form: export it through the API before the move, and create it again afterwards".to_owned(),
        }
    }
}

/// A configuration, its variables and the mount path of its volume.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) config: &'a Value,
    pub(crate) variables: &'a Variables,
    pub(crate) mount_path: &'a str,
}

/// The stores whose place differs. Without a volume, SQLite databases do not survive a restart today, so
/// they are left out.
pub(crate) fn moves(before: Place<'_>, after: Place<'_>, has_volume: bool) -> Vec<StateMove> {
    let (old, mut new) = (stores(before), stores(after));
    old.into_iter()
        .filter(|(_, location)| has_volume || !location.is_local())
        .filter_map(|(store, from)| {
            let to = new.remove(&store);
            (to.as_ref() != Some(&from)).then_some(StateMove { store, from, to })
        })
        .collect()
}

/// Every store of a configuration, by name.
fn stores(place: Place<'_>) -> BTreeMap<String, Location> {
    let mut found = BTreeMap::new();
    let storage = &place.config["storage"];
    let reader = Reader {
        place,
        backends: storage["backends"].as_object(),
    };
    for (name, store) in storage["stores"].as_object().into_iter().flatten() {
        found.extend(reader.store(store).map(|at| (name.clone(), at)));
    }
    for (key, name) in OLD_STORES {
        found.extend(
            reader
                .store(&place.config[key])
                .map(|at| (name.to_owned(), at)),
        );
    }
    for (api, entries) in place.config["providers"].as_object().into_iter().flatten() {
        // The API was renamed; its state is the same.
        let api = if api == "agents" { "responses" } else { api };
        for entry in entries.as_array().into_iter().flatten() {
            let Some(id) = reader.id(entry) else { continue };
            reader.collect(
                &entry["config"],
                &format!("{api}/{id}"),
                MAX_DEPTH,
                &mut found,
            );
        }
    }
    found
}

struct Reader<'a> {
    place: Place<'a>,
    backends: Option<&'a Map<String, Value>>,
}

impl Reader<'_> {
    /// The id of a provider that is switched on.
    fn id(&self, entry: &Value) -> Option<String> {
        let id = entry["provider_id"].as_str()?;
        if let Some(expression) = whole(id)
            && matches!(expression.form, Form::When(_))
            && !self.place.variables.contains_key(expression.name)
        {
            return None;
        }
        Some(conditional_text(id).to_owned())
    }

    fn collect(
        &self,
        value: &Value,
        name: &str,
        depth: usize,
        found: &mut BTreeMap<String, Location>,
    ) {
        let Some(object) = value.as_object() else {
            return;
        };
        if let Some(at) = self.store(value) {
            found.insert(name.to_owned(), at);
            return;
        }
        for key in ["db_path", "storage_dir"] {
            if let Some(path) = object.get(key).and_then(Value::as_str) {
                let engine = if key == "db_path" { "sqlite" } else { "folder" };
                let location = Location {
                    engine: engine.to_owned(),
                    at: self.resolve(path),
                    part: None,
                    // The whole file belongs to the provider.
                    is_table: Some(true),
                };
                found.insert(format!("{name} {key}"), location);
            }
        }
        if depth > 0 {
            for (key, value) in object {
                self.collect(value, &format!("{name} {key}"), depth - 1, found);
            }
        }
    }

    /// The place of a store: a reference to a backend, or a database of its own.
    fn store(&self, store: &Value) -> Option<Location> {
        let table = store["table_name"].as_str();
        let part = table.or_else(|| store["namespace"].as_str());
        let database = match store["backend"].as_str() {
            Some(name) => self.backends?.get(name)?,
            None => store,
        };
        let mut location = self.database(database)?;
        location.part = part.map(|part| self.resolve(part));
        if table.is_some() {
            location.is_table = Some(true);
        }
        Some(location)
    }

    fn database(&self, database: &Value) -> Option<Location> {
        let kind = database["type"].as_str()?;
        let text = |key: &str| match &database[key] {
            Value::String(text) => Some(self.resolve(text)),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let (engine, is_table) = match kind.split_once('_') {
            Some(("kv", engine)) => (engine, Some(false)),
            Some(("sql", engine)) => (engine, Some(true)),
            _ => (kind, None),
        };
        let at = match engine {
            "sqlite" => text("db_path")?,
            _ => {
                let parts = ["connection_string", "url", "host", "port", "db"];
                parts
                    .into_iter()
                    .filter_map(text)
                    .collect::<Vec<_>>()
                    .join(" ")
            }
        };
        Some(Location {
            engine: engine.to_owned(),
            at,
            part: None,
            is_table,
        })
    }

    /// A string as the server reads it in this pod.
    fn resolve(&self, text: &str) -> String {
        let mut resolved = String::new();
        let mut from = 0;
        for expression in expressions(text) {
            resolved += &text[from..expression.range.start];
            from = expression.range.end;
            match (self.place.variables.get(expression.name), expression.form) {
                (Some(Some(value)), Form::Bare | Form::Or(_)) => resolved += value,
                (Some(_), Form::When(value)) | (None, Form::Or(value)) => resolved += value,
                (Some(None), _) | (None, Form::Bare) => {
                    resolved += &format!("${}", expression.name)
                }
                (None, Form::When(_)) => {}
            }
        }
        resolved += &text[from..];
        let mount = self.place.mount_path.trim_end_matches('/');
        let roots = HOMES
            .into_iter()
            .chain([mount])
            .filter(|root| !root.is_empty());
        for root in roots {
            let below = resolved.strip_prefix(root);
            if let Some(below) = below.filter(|below| below.is_empty() || below.starts_with('/')) {
                return format!("{DATA}{below}");
            }
        }
        resolved
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(before: &Value, after: &Value, has_volume: bool) -> Vec<StateMove> {
        let variables = Variables::from([
            ("DB".to_owned(), Some("vectors".to_owned())),
            ("SECRET".to_owned(), None),
        ]);
        let place = |config| Place {
            config,
            variables: &variables,
            mount_path: "/.llama",
        };
        moves(place(before), place(after), has_volume)
    }

    fn backends(kv: &str, stores: Value) -> Value {
        json!({"storage": {
            "backends": {
                "kv_default": {"type": "kv_sqlite", "db_path": kv},
                "sql_default": {"type": "sql_sqlite", "db_path": "${env.SQLITE_STORE_DIR:=~/.llama/x}/sql.db"},
            },
            "stores": stores,
        }})
    }

    #[test]
    fn the_home_of_either_product_and_the_volume_are_one_place() {
        let stores = json!({"metadata": {"backend": "kv_default", "namespace": "registry"}});
        let homes = [
            "~/.llama/x/kv.db",
            "${env.SQLITE_STORE_DIR:=~/.ogx/x}/kv.db",
            "/.llama/x/kv.db",
        ];
        for home in homes {
            let old = backends(homes[0], stores.clone());
            assert_eq!(
                found(&old, &backends(home, stores.clone()), true),
                [],
                "{home}"
            );
        }
    }

    #[test]
    fn a_store_that_moves_from_keys_to_a_table_is_reported() {
        let old = backends(
            "/.llama/kv.db",
            json!({"prompts": {"backend": "kv_default", "namespace": "prompts"}}),
        );
        let new = backends(
            "/.llama/kv.db",
            json!({"prompts": {"backend": "sql_default", "table_name": "prompts"}}),
        );
        let moved = found(&old, &new, true);
        assert_eq!(moved[0].store, "prompts");
        assert_eq!(moved[0].from.to_string(), "sqlite <data>/kv.db (prompts)");
        let to = moved[0].to.as_ref().unwrap();
        assert_eq!(to.to_string(), "sqlite <data>/x/sql.db (prompts)");
        assert!(
            moved[0]
                .advice()
                .starts_with("the server keeps it in another form")
        );
        assert_eq!(found(&old, &new, false), [], "nothing survives a restart");
    }

    #[test]
    fn a_file_with_another_name_is_copied() {
        let stores = json!({"metadata": {"backend": "kv_default", "namespace": "registry"}});
        let moved = found(
            &backends("/.llama/a.db", stores.clone()),
            &backends("~/.ogx/b.db", stores),
            true,
        );
        assert_eq!(
            moved[0].advice(),
            "stop the server, copy <data>/a.db to <data>/b.db, then move"
        );
    }

    #[test]
    fn an_old_block_is_the_store_of_the_same_name() {
        let old = json!({"metadata_store": {"type": "sqlite", "db_path": "/.llama/registry.db"}});
        let new = backends(
            "/.llama/kv.db",
            json!({"metadata": {"backend": "kv_default", "namespace": "registry"}}),
        );
        let moved = found(&old, &new, true);
        assert_eq!(moved.len(), 1);
        assert_eq!(
            moved[0].to.as_ref().unwrap().to_string(),
            "sqlite <data>/kv.db (registry)"
        );
    }

    #[test]
    fn state_of_providers_counts_while_they_are_switched_on() {
        let config = |id: &str, db: &str| json!({"providers": {"vector_io": [{"provider_id": id, "config": {"db_path": db}}]}});
        let gone = json!({"providers": {}});
        let on = found(
            &config("${env.DB:+faiss}", "/data/${env.DB}.db"),
            &gone,
            true,
        );
        assert_eq!(on[0].store, "vector_io/faiss db_path");
        assert_eq!(on[0].from.to_string(), "sqlite /data/vectors.db");
        assert!(on[0].advice().starts_with("export what you need"));
        assert_eq!(found(&config("${env.OFF:+faiss}", "/a"), &gone, true), []);
        let unknown = found(&config("faiss", "/${env.SECRET}"), &gone, true);
        assert_eq!(unknown[0].from.to_string(), "sqlite /$SECRET");
    }

    #[test]
    fn database_servers_are_compared_without_a_volume() {
        let config = |host: &str| {
            json!({"storage": {
                "backends": {"sql": {"type": "sql_postgres", "host": host, "port": 5432, "db": "d"}},
                "stores": {"inference": {"backend": "sql", "table_name": "t"}},
            }})
        };
        let moved = found(&config("a"), &config("b"), false);
        assert_eq!(
            moved[0].advice(),
            "stop the server, copy the data with the tools of postgres from a 5432 d to b 5432 d, then move"
        );
        assert_eq!(found(&config("a"), &config("a"), false), []);
    }
}
