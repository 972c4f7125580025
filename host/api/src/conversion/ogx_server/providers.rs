//! The typed providers of `OGXServer`, as a table: where each is, and which of its fields are fields of ours.

use serde_json::{Map, Value, json};

use super::{Fields, Notes, camel_case, snake_case};
use crate::field_path::FieldPath;

/// A typed provider.
struct Typed {
    /// The API as both resources spell it.
    api: &'static str,
    side: &'static str,
    name: &'static str,
    provider: &'static str,
    /// Its field for our `endpoint`.
    endpoint: &'static str,
    /// Its field for our `apiKey`.
    key: &'static str,
    /// Whether it has a `host`, which is a field of ours.
    has_host: bool,
    /// Secrets that are no field of ours: `secretRefs` in snake case.
    secrets: &'static [&'static str],
    /// Whether there is one entry, with a fixed id, instead of a list.
    is_single: bool,
}

macro_rules! typed {
    ($($api:literal $side:literal $name:literal $provider:literal, $endpoint:literal, $key:literal, $host:literal, $secrets:expr, $single:literal;)+) => {
        const TYPED: &[Typed] = &[$(Typed {
            api: $api, side: $side, name: $name, provider: $provider, endpoint: $endpoint, key: $key,
            has_host: $host, secrets: &$secrets, is_single: $single,
        }),+];
    };
}

typed! {
    "inference" "remote" "vllm" "remote::vllm", "endpoint", "apiToken", false, [], false;
    "inference" "remote" "openai" "remote::openai", "endpoint", "apiKey", false, [], false;
    "inference" "remote" "azure" "remote::azure", "endpoint", "apiKey", false, [], false;
    "inference" "remote" "bedrock" "remote::bedrock", "", "apiKey", false, ["awsAccessKeyId", "awsSecretAccessKey", "awsSessionToken"], false;
    "inference" "remote" "vertexai" "remote::vertexai", "", "", false, [], false;
    "inference" "remote" "watsonx" "remote::watsonx", "endpoint", "apiKey", false, [], false;
    "vectorIo" "remote" "pgvector" "remote::pgvector", "", "", true, ["password"], false;
    "vectorIo" "remote" "milvus" "remote::milvus", "uri", "token", false, [], false;
    "vectorIo" "remote" "qdrant" "remote::qdrant", "url", "apiKey", true, [], false;
    "toolRuntime" "remote" "braveSearch" "remote::brave-search", "", "apiKey", false, [], false;
    "toolRuntime" "remote" "tavilySearch" "remote::tavily-search", "", "apiKey", false, [], false;
    "toolRuntime" "remote" "modelContextProtocol" "remote::model-context-protocol", "", "", false, [], false;
    "toolRuntime" "inline" "fileSearch" "inline::file-search", "", "", false, [], false;
    "files" "remote" "s3" "remote::s3", "endpointUrl", "", false, ["awsAccessKeyId", "awsSecretAccessKey"], true;
    "files" "inline" "localfs" "inline::localfs", "", "", false, [], true;
    "batches" "inline" "reference" "inline::reference", "", "", false, [], true;
    "responses" "inline" "builtin" "inline::builtin", "", "", false, [], true;
    "fileProcessors" "remote" "doclingServe" "remote::docling-serve", "baseUrl", "apiKey", false, [], true;
    "fileProcessors" "inline" "auto" "inline::auto", "", "", false, [], true;
    "fileProcessors" "inline" "pypdf" "inline::pypdf", "", "", false, [], true;
    "fileProcessors" "inline" "markitdown" "inline::markitdown", "", "", false, [], true;
    "fileProcessors" "inline" "docling" "inline::docling", "", "", false, [], true;
}

/// The APIs that `OGXServer` has providers for.
const APIS: [&str; 7] = [
    "inference",
    "vectorIo",
    "toolRuntime",
    "files",
    "batches",
    "responses",
    "fileProcessors",
];

/// Fields whose name in the server's file is not their snake case: provider, field, key.
const KEYS: [(&str, &str, &str); 1] = [("remote::bedrock", "region", "region_name")];

/// The longest id of ours.
const MAX_ID: usize = 63;

/// The providers of ours, by API, and the ids of the inference providers.
pub(super) fn from_ogx(mut given: Fields, notes: &mut Notes) -> (Map<String, Value>, Vec<String>) {
    let path = FieldPath::spec().field("providers");
    let mut providers = Map::new();
    let mut ids = Vec::new();
    for api in APIS {
        let Some(mut sides) = given.object(api) else {
            continue;
        };
        let path = path.field(api);
        let mut entries = Vec::new();
        for side in ["remote", "inline"] {
            let Some(mut vendors) = sides.object(side) else {
                continue;
            };
            let path = path.field(side);
            for typed in TYPED
                .iter()
                .filter(|one| one.api == api && one.side == side)
            {
                let path = path.field(typed.name);
                for (place, entry) in entries_of(&mut vendors, typed).into_iter().enumerate() {
                    let path = if typed.is_single {
                        path.clone()
                    } else {
                        path.index(place)
                    };
                    entries.push(typed_from_ogx(typed, Fields::of(entry), &path, notes));
                }
            }
            for (place, entry) in vendors.list("custom").into_iter().enumerate() {
                let path = path.field("custom").index(place);
                entries.push(custom_from_ogx(Fields::of(entry), &path, notes));
            }
            notes.leftovers(vendors, &path);
        }
        notes.leftovers(sides, &path);
        if api == "inference" {
            let found = entries.iter().filter_map(|entry| entry["id"].as_str());
            ids = found.map(str::to_owned).collect();
            ids.sort();
        }
        if !entries.is_empty() {
            notes.differs(
                path,
                "replaces all providers of the API in ogx-k8s-operator, and is added to those of the distribution here",
                "list the providers of the distribution that you do not want in spec.disabled, for example inference/ollama",
            );
            providers.insert(api.to_owned(), Value::Array(entries));
        }
    }
    notes.leftovers(given, &path);
    (providers, ids)
}

fn entries_of(vendors: &mut Fields, typed: &Typed) -> Vec<Value> {
    if typed.is_single {
        vendors.take(typed.name).into_iter().collect()
    } else {
        vendors.list(typed.name)
    }
}

fn typed_from_ogx(typed: &Typed, mut entry: Fields, path: &FieldPath, notes: &mut Notes) -> Value {
    let mut ours = Fields::default();
    let default = typed.provider.replace("::", "-");
    let id = entry.text("id").unwrap_or(default);
    check_id(&id, path, notes);
    ours.set("id", id.into());
    ours.set("provider", typed.provider.into());
    ours.set_some("endpoint", entry.take(typed.endpoint));
    if typed.has_host {
        ours.set_some("host", entry.take("host"));
    }
    ours.set_some("apiKey", entry.take(typed.key));
    let mut secrets = Fields::default();
    for name in typed.secrets {
        secrets.set_some(&snake_case(name), entry.take(name));
    }
    ours.set_some("secretRefs", secrets.into_value());
    let mut settings = Map::new();
    for (field, value) in entry.0 {
        let own = KEYS
            .iter()
            .find(|(provider, name, _)| *provider == typed.provider && *name == field);
        let key = own.map_or_else(|| snake_case(&field), |(_, _, key)| (*key).to_owned());
        settings.insert(key, setting(&field, value));
    }
    ours.set_unless_empty("settings", settings);
    Value::Object(ours.0)
}

/// A setting as the server reads it.
fn setting(field: &str, value: Value) -> Value {
    match (field, value) {
        // Names of headers are not ours to change.
        ("headers", value) => value,
        ("vectorIndex", Value::Object(index)) => {
            let Some((kind, options)) = index.into_iter().next() else {
                return json!({});
            };
            let name = if kind == "hnsw" { "HNSW" } else { "IVFFlat" };
            let mut flat = Map::from_iter([("type".to_owned(), json!(name))]);
            if let Value::Object(options) = setting("", options) {
                flat.extend(options);
            }
            Value::Object(flat)
        }
        // The resource has decimal strings, because Kubernetes has no floating point numbers.
        ("temperature" | "rrfImpactFactor" | "weightedSearchAlpha", Value::String(text)) => {
            let number = text
                .parse::<f64>()
                .ok()
                .and_then(serde_json::Number::from_f64);
            number.map_or(Value::String(text), Value::Number)
        }
        (_, Value::Object(map)) => {
            let fields = map.into_iter().map(|(key, value)| {
                let value = setting(&key, value);
                (snake_case(&key), value)
            });
            Value::Object(fields.collect())
        }
        (_, Value::Array(list)) => list.into_iter().map(|item| setting("", item)).collect(),
        (_, value) => value,
    }
}

fn custom_from_ogx(mut entry: Fields, path: &FieldPath, notes: &mut Notes) -> Value {
    let mut ours = Fields::default();
    let provider = entry.text("type").unwrap_or_default();
    let id = entry
        .text("id")
        .unwrap_or_else(|| provider.replace("::", "-"));
    check_id(&id, path, notes);
    ours.set("id", id.into());
    ours.set("provider", provider.into());
    entry.copy_to(&mut ours, &["secretRefs", "settings"]);
    notes.leftovers(entry, path);
    Value::Object(ours.0)
}

fn check_id(id: &str, path: &FieldPath, notes: &mut Notes) {
    let is_valid = id.len() <= MAX_ID
        && id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_valid {
        notes.differs(
            path.field("id"),
            "is not a valid id here",
            "use at most 63 letters, digits, '-', '_' and '.'; clients use the id in the names of models",
        );
    }
}

/// The providers of `OGXServer`, by API.
pub(super) fn to_ogx(mut given: Fields, notes: &mut Notes) -> Map<String, Value> {
    let path = FieldPath::spec().field("providers");
    let mut providers = Map::new();
    for api in APIS {
        let Some(entries) = given.take(api) else {
            continue;
        };
        let (entries, is_list) = match entries {
            Value::Array(list) => (list, true),
            one => (vec![one], false),
        };
        let mut sides = json!({});
        for (place, entry) in entries.into_iter().enumerate() {
            let path = path.field(api);
            let path = if is_list { path.index(place) } else { path };
            place_in_ogx(api, Fields::of(entry), &path, &mut sides, notes);
        }
        if let Value::Object(sides) = sides
            && !sides.is_empty()
        {
            notes.differs(
                path.field(api),
                "is added to the providers of the distribution here, and replaces all of them in ogx-k8s-operator",
                "also list the providers of the distribution that you use",
            );
            providers.insert(api.to_owned(), Value::Object(sides));
        }
    }
    notes.leftovers(given, &path);
    providers
}

fn place_in_ogx(
    api: &str,
    mut entry: Fields,
    path: &FieldPath,
    sides: &mut Value,
    notes: &mut Notes,
) {
    let provider = entry.text("provider").unwrap_or_default();
    let named = |typed: &&Typed| {
        typed.api == api
            && (typed.provider == provider
                || typed
                    .provider
                    .split_once("::")
                    .is_some_and(|(_, name)| name == provider))
    };
    let found = TYPED.iter().find(named);
    if let Some(typed) = found {
        let default = if entry.0.contains_key("id") {
            None
        } else {
            typed
                .provider
                .split_once("::")
                .map(|(_, name)| name.to_owned())
        };
        let mut theirs = Fields::default();
        let id = entry.text("id").or(default);
        if !typed.is_single {
            theirs.set_some("id", id);
        }
        if !typed.endpoint.is_empty() {
            theirs.set_some(typed.endpoint, entry.take("endpoint"));
        }
        if typed.has_host {
            theirs.set_some("host", entry.take("host"));
        }
        if !typed.key.is_empty() {
            theirs.set_some(typed.key, entry.take("apiKey").map(plain_reference));
        }
        let mut secrets = entry.object("secretRefs").unwrap_or_default();
        for name in typed.secrets {
            theirs.set_some(name, secrets.take(&snake_case(name)).map(plain_reference));
        }
        notes.leftovers(secrets, &path.field("secretRefs"));
        for (key, value) in entry.object("settings").unwrap_or_default().0 {
            let own = KEYS
                .iter()
                .find(|(provider, _, own)| *provider == typed.provider && *own == key);
            let field = own.map_or_else(|| camel_case(&key), |(_, field, _)| (*field).to_owned());
            theirs.set(&field, field_of(&field, value));
        }
        notes.leftovers(entry, path);
        let slot = &mut sides[typed.side][typed.name];
        if typed.is_single {
            *slot = Value::Object(theirs.0);
        } else {
            push(slot, Value::Object(theirs.0));
        }
        return;
    }
    let Some((side @ ("remote" | "inline"), name)) = provider.split_once("::") else {
        notes.lost(
            path.field("provider"),
            "write the full type of the provider, for example remote::vllm",
        );
        return;
    };
    let mut theirs = Fields::default();
    let id = entry.text("id").unwrap_or_else(|| name.to_owned());
    theirs.set("id", id.into());
    theirs.set("type", provider.clone().into());
    entry.copy_to(&mut theirs, &["settings"]);
    let mut secrets = Map::new();
    for (key, reference) in entry.object("secretRefs").unwrap_or_default().0 {
        secrets.insert(key, plain_reference(reference));
    }
    theirs.set_unless_empty("secretRefs", secrets);
    // A custom provider has no such fields, and only the release knows which keys they become.
    notes.leftovers(entry, path);
    push(&mut sides[side]["custom"], Value::Object(theirs.0));
}

fn push(slot: &mut Value, entry: Value) {
    match slot {
        Value::Array(list) => list.push(entry),
        _ => *slot = Value::Array(vec![entry]),
    }
}

/// A reference in the short form.
pub(super) fn plain_reference(reference: Value) -> Value {
    match reference.get("secretKeyRef") {
        Some(inner) => inner.clone(),
        None => reference,
    }
}

/// A setting as a field: the reverse of [`setting`].
fn field_of(field: &str, value: Value) -> Value {
    match (field, value) {
        ("headers", value) => value,
        ("vectorIndex", Value::Object(mut flat)) => {
            let kind = flat.shift_remove("type");
            let name = if kind == Some(json!("HNSW")) {
                "hnsw"
            } else {
                "ivfFlat"
            };
            json!({ name: field_of("", Value::Object(flat)) })
        }
        ("temperature" | "rrfImpactFactor" | "weightedSearchAlpha", Value::Number(number)) => {
            Value::String(number.to_string())
        }
        (_, Value::Object(map)) => {
            let fields = map.into_iter().map(|(key, value)| {
                let field = camel_case(&key);
                let value = field_of(&field, value);
                (field, value)
            });
            Value::Object(fields.collect())
        }
        (_, Value::Array(list)) => list.into_iter().map(|item| field_of("", item)).collect(),
        (_, value) => value,
    }
}
