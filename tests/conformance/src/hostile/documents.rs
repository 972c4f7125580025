//! Hostile documents, made by changing ordinary ones.

use serde_json::{Value, json};

use crate::ordinary::expanded_entry;

/// Names that users can write, although no provider, API or model has them.
const NAMES: [&str; 16] = [
    "",
    " ",
    "a b",
    "a/b",
    "../../etc/passwd",
    "${env.HOME}",
    "${env.X:+a}",
    "%s%n",
    "a\u{0}b",
    "a\nb",
    "\u{1b}[31m",
    "ünï-日本語-🦙",
    "\u{fffd}",
    "\u{202e}abc",
    "remote::",
    "::",
];

/// One value of each JSON type, none of which fits where it is put.
fn wrong_values() -> [Value; 7] {
    [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!("x"),
        json!([[]]),
        json!({ "a": {} }),
    ]
}

/// A description of the hostile change, and the changed document.
pub(super) type Hostile = (String, Value);

/// JSON nested deeper than a parser should follow.
pub(super) fn deeply_nested_json() -> String {
    format!(
        "{{\"schema\":{}{}}}",
        "[".repeat(20_000),
        "]".repeat(20_000)
    )
}

/// Objects and arrays nested to a depth that parsers accept.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({ "a": [inner] }))
}

/// An ordinary `expand` request.
fn expansion(schema: &str, id: &str, provider: &str) -> Value {
    json!({
        "schema": schema, "api": "inference", "path": "spec.providers.inference[0]", "capabilities": [],
        "entry": { "id": id, "provider": provider, "endpoint": "http://a", "settings": { "k": 1 }, "references": { "apiKey": "LLSD_P_API_KEY" } },
    })
}

/// Hostile `expand` requests.
pub(super) fn expansions(schema: &str) -> Vec<Hostile> {
    let ordinary = expansion(schema, "p", "vllm");
    let mut all = Vec::new();
    for name in NAMES {
        for at in [
            "/entry/id",
            "/entry/provider",
            "/schema",
            "/api",
            "/serverVersion",
            "/entry/endpoint",
            "/entry/host",
        ] {
            all.push(with(&ordinary, at, json!(name)));
        }
        all.push(with(&ordinary, "/entry/settings", json!({ name: name })));
        all.push(with(
            &ordinary,
            "/entry/references",
            json!({ name: "LLSD_X" }),
        ));
    }
    for at in [
        "/entry/id",
        "/entry/provider",
        "/entry/endpoint",
        "/api",
        "/schema",
        "/serverVersion",
    ] {
        all.push(with(&ordinary, at, json!("x".repeat(100_000))));
    }
    for endpoint in [
        "://",
        "http://",
        "http://[::",
        "https://user:pass@host:99999/?#",
        "host",
        ":8000",
        "http://a b",
    ] {
        all.push(with(&ordinary, "/entry/endpoint", json!(endpoint)));
    }
    all.push(with(&ordinary, "/entry/settings", many(2_000)));
    all.push(with(
        &ordinary,
        "/entry/settings",
        json!({ "deep": nested(40) }),
    ));
    all.extend(wrong_types(&ordinary));
    all
}

/// Hostile `assemble` requests, changed from an ordinary one.
pub(super) fn assemblies(ordinary: &Value) -> Vec<Hostile> {
    let mut all: Vec<Hostile> = Vec::new();
    for (change, base) in bases() {
        let (_, document) = with(ordinary, "/base", base);
        all.push((format!("base {change}"), document));
    }
    let crowd: Vec<Value> = (0..1_000)
        .map(|number| expanded_entry("inference", number, &format!("p{number}")))
        .collect();
    all.push(with(ordinary, "/providers", json!({ "inference": crowd })));
    let twins = json!([
        expanded_entry("inference", 0, "a"),
        expanded_entry("inference", 1, "a")
    ]);
    all.push(with(ordinary, "/providers", json!({ "inference": twins })));
    let model = |number| json!({ "path": format!("spec.resources.models[{number}]"), "name": format!("m{number}"), "provider": "main" });
    all.push(with(
        ordinary,
        "/resources/models",
        (0..1_000).map(model).collect(),
    ));
    for name in NAMES {
        all.push(with(
            ordinary,
            "/providers",
            json!({ name: [expanded_entry("inference", 0, name)] }),
        ));
        for at in [
            "models/0/name",
            "models/0/provider",
            "tools/0/name",
            "shields/0/name",
        ] {
            all.push(with(ordinary, &format!("/resources/{at}"), json!(name)));
        }
        all.push(with(ordinary, "/disabled/0/name", json!(name)));
        all.push(with(
            ordinary,
            "/storage/kv",
            json!({ "type": "redis", "endpoint": name }),
        ));
        let external = json!([{ "path": "spec.externalProviders.x[0]", "api": name, "id": name, "type": name, "config": {} }]);
        all.push(with(ordinary, "/external", external));
    }
    all.extend(wrong_types(ordinary));
    all
}

/// Base configurations that are nothing like a server's.
pub(super) fn bases() -> Vec<Hostile> {
    let mut all = vec![
        json!({ "apis": "x".repeat(200_000) }),
        json!({ "version": 2, "apis": ["inference"], "providers": many(5_000) }),
        many(5_000),
        nested(50),
    ];
    all.extend(wrong_values());
    for value in wrong_values() {
        all.extend([
            json!({ "version": value, "apis": ["inference"], "providers": {} }),
            json!({ "version": 2, "apis": value, "providers": {} }),
            json!({ "version": 2, "apis": [value], "providers": value }),
            json!({ "version": 2, "providers": { "inference": value } }),
            json!({ "version": 2, "providers": { "inference": [value] } }),
            json!({ "version": 2, "providers": { "inference": [{ "provider_id": value, "provider_type": value, "config": value }] } }),
            json!({ "version": 2, "models": value, "server": value, "storage": value, "registered_resources": value }),
            json!({ "version": 2, "storage": { "backends": value, "stores": value }, "registered_resources": { "models": value } }),
            json!({ "version": 2, "metadata_store": value, "inference_store": value, "telemetry": value, "vector_stores": value }),
        ]);
    }
    all.into_iter().map(|base| (shorten(&base), base)).collect()
}

/// An object with many keys.
fn many(count: usize) -> Value {
    let members = (0..count).map(|number| (format!("k{number}"), json!({ "v": number })));
    Value::Object(members.collect())
}

/// Replaces each value of the document in turn with values of other types.
fn wrong_types(document: &Value) -> Vec<Hostile> {
    pointers(document, "")
        .iter()
        .flat_map(|at| wrong_values().map(|value| with(document, at, value)))
        .collect()
}

/// The JSON pointers of all values. Of an array, only the first item counts.
fn pointers(value: &Value, at: &str) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object
            .iter()
            .map(|(key, value)| (format!("{at}/{key}"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .take(1)
            .map(|value| (format!("{at}/0"), value))
            .collect(),
        _ => Vec::new(),
    };
    let mut all = Vec::new();
    for (child, value) in children {
        // `bases` covers what is below /base.
        if child != "/base" {
            all.extend(pointers(value, &child));
        }
        all.push(child);
    }
    all
}

/// Replaces or adds one value, and describes the change.
fn with(document: &Value, at: &str, value: Value) -> Hostile {
    let change = format!("{at} = {}", shorten(&value));
    let mut document = document.clone();
    let (parent, key) = at.rsplit_once('/').unwrap_or(("", at));
    match document.pointer_mut(parent) {
        Some(Value::Object(object)) => {
            object.insert(key.to_owned(), value);
        }
        Some(Value::Array(items)) => {
            if let Some(item) = key
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get_mut(index))
            {
                *item = value;
            }
        }
        _ => {}
    }
    (change, document)
}

/// A value shortened for a message.
fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordinary::assembly;
    use llsd_adapter_sdk::documents::{AssemblyRequest, ExpansionRequest};

    #[test]
    fn every_value_of_a_document_is_replaced_in_turn() {
        let document = json!({ "a": { "b": [1, 2] }, "c": "x" });
        assert_eq!(pointers(&document, ""), ["/a/b/0", "/a/b", "/a", "/c"]);
        assert_eq!(wrong_types(&document).len(), 4 * wrong_values().len());
        assert_eq!(
            with(&document, "/a/b/0", json!(null)).1,
            json!({ "a": { "b": [null, 2] }, "c": "x" })
        );
        assert_eq!(
            with(&document, "/a/new", json!(1)).1,
            json!({ "a": { "b": [1, 2], "new": 1 }, "c": "x" })
        );
    }

    #[test]
    fn the_unchanged_requests_are_valid() {
        let document = expansion("s/1", "p", "vllm");
        let request: Result<ExpansionRequest, _> = serde_json::from_value(document);
        assert!(request.is_ok());
        let description = serde_json::from_value(json!({
            "name": "n", "version": "1", "vendor": "v", "shapes": [], "schemas": [], "apis": {}, "providers": {},
        }))
        .unwrap();
        let request: Result<AssemblyRequest, _> =
            serde_json::from_value(assembly(&description, "s/1"));
        assert!(request.is_ok(), "{request:?}");
    }
}
