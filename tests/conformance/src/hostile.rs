//! Requests that no host should make, and a plugin must survive: with diagnostics, not with a trap.
//!
//! Names that are not UTF-8 cannot cross the boundary, which carries UTF-8 alone; their nearest
//! relatives here are lone surrogates in escapes, replacement characters and control characters.

use llsd_adapter_sdk::documents::{AssemblyRequest, Base, Document as _, ExpansionRequest, Hints};
use llsd_adapter_sdk::exchange::Text;
use llsd_plugin::{Plugin, RawAnswer, Request};
use llsd_render::adapter::Adapter as _;
use serde_json::{Value, json};

use crate::ordinary::{Named, assembly, named, placed};
use crate::report::Check;

/// Texts that stand where a document should.
const TEXTS: [&str; 14] = [
    "",
    " ",
    "null",
    "true",
    "0",
    "\"\"",
    "[]",
    "{}",
    "{",
    "]",
    "{\"a\":1,\"a\":2}",
    "\"\\ud800\"",
    "1e999",
    "\u{feff}{}",
];

/// Names that somebody will write.
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

/// Values of the wrong type for anything.
fn wrong() -> [Value; 7] {
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

/// A hostile document and what is hostile about it.
type Hostile = (String, Value);

/// Everything hostile that this plugin's world takes.
pub(crate) fn requests(plugin: &Plugin) -> Vec<Named> {
    let description = plugin.description();
    let Some(schema) = description.schemas.first().map(|schema| schema.id.as_str()) else {
        return Vec::new();
    };
    let mut requests = texts(expand, "expand");
    requests.extend(documents(expand, "expand", expansions(schema)));
    if plugin.is_schema_adapter() {
        requests.extend(texts(assemble, "assemble"));
        requests.extend(documents(
            assemble,
            "assemble",
            assemblies(&assembly(description, schema)),
        ));
        requests.extend(texts(|base| detect(base, "{}"), "detect, base"));
        requests.extend(documents(
            |base| detect(base, "{}"),
            "detect, base",
            bases(),
        ));
        requests.extend(texts(|hints| detect("{}", hints), "detect, hints"));
    }
    requests
}

fn texts(request: impl Fn(&str) -> Request, call: &str) -> Vec<Named> {
    let mut all: Vec<Named> = TEXTS
        .iter()
        .map(|text| named(format!("{call}: {text:?}"), request(text)))
        .collect();
    all.push(named(
        format!("{call}: 20,000 brackets deep"),
        request(&deep()),
    ));
    all
}

fn documents(request: impl Fn(&str) -> Request, call: &str, documents: Vec<Hostile>) -> Vec<Named> {
    let name = |(what, document): Hostile| {
        named(format!("{call}: {what}"), request(&document.to_string()))
    };
    documents.into_iter().map(name).collect()
}

/// No hostile request ends in a fault.
pub(crate) fn nothing_traps(plugin: &Plugin, requests: &[Named]) -> Check {
    let problems = requests
        .iter()
        .filter_map(|Named { name, request }| {
            plugin
                .call(request)
                .err()
                .map(|fault| format!("{name}: {}", fault.kind))
        })
        .collect();
    Check::new(
        "nothing-traps",
        "hostile requests are answered by diagnostics",
        format!("{} requests", requests.len()),
        problems,
    )
}

/// A shape from the future is refused by its own code.
pub(crate) fn unknown_shapes_are_refused(plugin: &Plugin) -> Check {
    let text = || Text {
        shape: "llamastack.io/adapter/from-the-future/v9".into(),
        json: "{}".into(),
    };
    let mut requests = vec![Request::Expand(text())];
    if plugin.is_schema_adapter() {
        requests.push(Request::Assemble(text()));
    }
    let is_refused = |request: &&Request| {
        plugin
            .call(request)
            .is_ok_and(|called| match &*called.answer {
                RawAnswer::Outcome(Err(problems)) => problems
                    .iter()
                    .any(|problem| problem.code == "unknown-shape"),
                _ => false,
            })
    };
    let problems = requests.iter().filter(|request| !is_refused(request));
    let problems = problems
        .map(|request| {
            format!(
                "{}: not refused with the code unknown-shape",
                request.call()
            )
        })
        .collect();
    Check::new(
        "unknown-shapes",
        "a document of unknown shape is refused as such",
        format!("{} requests", requests.len()),
        problems,
    )
}

fn expand(json: &str) -> Request {
    Request::Expand(Text {
        shape: ExpansionRequest::SHAPE.into(),
        json: json.into(),
    })
}

fn assemble(json: &str) -> Request {
    Request::Assemble(Text {
        shape: AssemblyRequest::SHAPE.into(),
        json: json.into(),
    })
}

fn detect(base: &str, hints: &str) -> Request {
    let text = |shape: &str, json: &str| Text {
        shape: shape.into(),
        json: json.into(),
    };
    Request::Detect {
        base: text(Base::SHAPE, base),
        hints: text(Hints::SHAPE, hints),
    }
}

/// Deeper than any reader should go.
fn deep() -> String {
    format!(
        "{{\"schema\":{}{}}}",
        "[".repeat(20_000),
        "]".repeat(20_000)
    )
}

/// As deep as a reader of JSON goes.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({ "a": [inner] }))
}

fn expansion(schema: &str, id: &str, provider: &str) -> Value {
    json!({
        "schema": schema, "api": "inference", "path": "spec.providers.inference[0]", "capabilities": [],
        "entry": { "id": id, "provider": provider, "endpoint": "http://a", "settings": { "k": 1 }, "references": { "apiKey": "LLSD_P_API_KEY" } },
    })
}

fn expansions(schema: &str) -> Vec<Hostile> {
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

fn assemblies(ordinary: &Value) -> Vec<Hostile> {
    let mut all: Vec<Hostile> = Vec::new();
    for (what, base) in bases() {
        let (_, document) = with(ordinary, "/base", base);
        all.push((format!("base {what}"), document));
    }
    let crowd: Vec<Value> = (0..1_000)
        .map(|number| placed("inference", number, &format!("p{number}")))
        .collect();
    all.push(with(ordinary, "/providers", json!({ "inference": crowd })));
    let twins = json!([placed("inference", 0, "a"), placed("inference", 1, "a")]);
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
            json!({ name: [placed("inference", 0, name)] }),
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

/// Bases that are nothing like a server's file.
fn bases() -> Vec<Hostile> {
    let mut all = vec![
        json!({ "apis": "x".repeat(200_000) }),
        json!({ "version": 2, "apis": ["inference"], "providers": many(5_000) }),
        many(5_000),
        nested(50),
    ];
    all.extend(wrong());
    for value in wrong() {
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
    all.into_iter().map(|base| (short(&base), base)).collect()
}

/// An object with many keys.
fn many(count: usize) -> Value {
    let members = (0..count).map(|number| (format!("k{number}"), json!({ "v": number })));
    Value::Object(members.collect())
}

/// The document with each of its values in turn replaced by ones of the wrong type.
fn wrong_types(document: &Value) -> Vec<Hostile> {
    pointers(document, "")
        .iter()
        .flat_map(|at| wrong().map(|value| with(document, at, value)))
        .collect()
}

/// The paths of all values, some levels deep.
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
        // The base has hostile forms of its own.
        if child != "/base" {
            all.extend(pointers(value, &child));
        }
        all.push(child);
    }
    all
}

/// The document with one value replaced or added.
fn with(document: &Value, at: &str, value: Value) -> Hostile {
    let what = format!("{at} = {}", short(&value));
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
    (what, document)
}

/// A value for a message.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_replaced_in_turn() {
        let document = json!({ "a": { "b": [1, 2] }, "c": "x" });
        assert_eq!(pointers(&document, ""), ["/a/b/0", "/a/b", "/a", "/c"]);
        assert_eq!(wrong_types(&document).len(), 4 * wrong().len());
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
    fn the_names_of_the_fields_that_are_replaced_exist() {
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
