//! Requests that a host really makes, built from what the plugin says it serves.

use llsd_adapter_sdk::documents::{Description, KnownProvider};
use llsd_plugin::{Plugin, RawCalled, Request};
use llsd_render::adapter::{Adapter as _, Fault};
use serde_json::{Value, json};

use crate::report::Check;

/// Providers of one API that are asked for; a catalogue holds dozens of the same kind.
const PER_API: usize = 8;

/// An ordinary call may use this part of a limit, in per cent. Resources differ in size by more than
/// a factor of two.
const NEAR: u64 = 50;

/// A request under a name that tells an author what was asked.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) request: Request,
}

/// A request and what became of it.
pub(crate) struct Answered {
    pub(crate) name: String,
    pub(crate) request: Request,
    pub(crate) result: Result<RawCalled, Fault>,
}

/// What a host would ask of this plugin.
pub(crate) fn requests(plugin: &Plugin) -> Vec<Named> {
    let description = plugin.description();
    let mut requests = Vec::new();
    for (schema, apis) in &description.providers {
        for (api, providers) in apis {
            let chosen = providers.iter().take(PER_API).enumerate();
            requests.extend(
                chosen.flat_map(|(number, provider)| expansions(schema, api, number, provider)),
            );
        }
    }
    if plugin.is_schema_adapter() {
        for schema in &description.schemas {
            let id = &schema.id;
            requests.push(named(
                format!("detect, {id}"),
                detect(&base(description, id)),
            ));
            requests.push(named(
                format!("assemble, {id}"),
                request("assemble", assembly(description, id)),
            ));
        }
    }
    requests
}

/// Asks, never from memory.
pub(crate) fn ask(plugin: &Plugin, requests: &[Named]) -> Vec<Answered> {
    let ask = |Named { name, request }: &Named| Answered {
        name: name.clone(),
        request: request.clone(),
        result: plugin.call_afresh(request),
    };
    requests.iter().map(ask).collect()
}

pub(crate) fn named(name: String, request: Request) -> Named {
    Named { name, request }
}

/// One entry with everything that its provider takes, and one bare.
fn expansions(schema: &str, api: &str, number: usize, provider: &KnownProvider) -> [Named; 2] {
    let name = format!("expand, {schema}, {api} {:?}", provider.name);
    let mut entry = json!({ "id": format!("p{number}"), "provider": provider.name, "settings": {}, "references": {} });
    let bare = expansion(schema, api, number, &entry);
    if provider.endpoint.is_some() {
        entry["endpoint"] = json!("http://backend.example:8000");
    }
    if provider.credential.is_some() {
        entry["references"] = json!({ "apiKey": format!("LLSD_P{number}_API_KEY") });
    }
    entry["settings"] = json!({ "surely_unknown": [1, true, null, "text"] });
    let full = expansion(schema, api, number, &entry);
    [
        named(format!("{name}, bare"), bare),
        named(format!("{name}, with everything"), full),
    ]
}

fn expansion(schema: &str, api: &str, number: usize, entry: &Value) -> Request {
    let path = format!("spec.providers.{api}[{number}]");
    let document =
        json!({ "schema": schema, "api": api, "path": path, "entry": entry, "capabilities": [] });
    request("expand", document)
}

/// A small file of the kind that every release can read: its APIs and no provider.
pub(crate) fn base(description: &Description, schema: &str) -> Value {
    let apis = description.apis.get(schema).cloned().unwrap_or_default();
    json!({ "version": 2, "image_name": "conformance", "apis": apis, "providers": {} })
}

/// Everything that a resource can ask for, on a small base.
pub(crate) fn assembly(description: &Description, schema: &str) -> Value {
    json!({
        "schema": schema,
        "base": base(description, schema),
        "providers": { "inference": [placed("inference", 0, "main")] },
        "resources": {
            "models": [{ "path": "spec.resources.models[0]", "name": "llama3.2-8b", "provider": "main", "metadata": {} }],
            "tools": [{ "path": "spec.resources.tools[0]", "name": "websearch" }],
            "shields": [{ "path": "spec.resources.shields[0]", "name": "guard" }],
        },
        "storage": { "kv": { "type": "sqlite" }, "sql": { "type": "sqlite" } },
        "disabled": [{ "path": "spec.disabled[0]", "name": "eval" }],
        "server": { "configFile": "/etc/llama-stack/config.yaml", "dataDir": "/data", "port": 8321 },
        "external": [],
        "capabilities": [],
    })
}

/// An expanded provider in its place.
pub(crate) fn placed(api: &str, number: usize, id: &str) -> Value {
    json!({
        "path": format!("spec.providers.{api}[{number}]"),
        "expansion": { "id": id, "type": "remote::vllm", "config": { "base_url": "http://backend.example/v1" }, "wants": [] },
    })
}

pub(crate) fn detect(base: &Value) -> Request {
    request(
        "detect",
        json!({ "base": base, "hints": { "labels": {}, "serverVersion": "1.0.0" } }),
    )
}

/// A request whose name and form are ours.
pub(crate) fn request(call: &str, argument: Value) -> Request {
    Request::from_json(call, &argument).unwrap_or(Request::Describe)
}

/// Every ordinary request is answered, if only by diagnostics.
pub(crate) fn all_answer(answered: &[Answered]) -> Check {
    let problems = answered
        .iter()
        .filter_map(|Answered { name, result, .. }| {
            result
                .as_ref()
                .err()
                .map(|fault| format!("{name}: {}", fault.kind))
        })
        .collect();
    Check::new(
        "ordinary-requests",
        "ordinary requests are answered",
        scope(answered),
        problems,
    )
}

/// No ordinary request comes near a limit.
pub(crate) fn limits_are_far(plugin: &Plugin, answered: &[Answered]) -> Check {
    let limits = plugin.limits();
    let mut problems = Vec::new();
    let mut most = 0;
    for Answered { name, result, .. } in answered {
        let Ok(called) = result else { continue };
        most = most.max(called.fuel);
        for (what, used, granted) in [
            ("fuel", called.fuel, limits.fuel),
            (
                "memory bytes",
                called.memory_bytes as u64,
                limits.memory_bytes as u64,
            ),
            (
                "output bytes",
                called.answer.to_json().len() as u64,
                limits.output_bytes as u64,
            ),
        ] {
            if u128::from(used) * 100 > u128::from(granted) * u128::from(NEAR) {
                problems.push(format!("{name}: used {used} of {granted} {what}"));
            }
        }
    }
    let scope = format!(
        "{}, at most {most} of {} fuel",
        scope(answered),
        limits.fuel
    );
    Check::new(
        "limits-are-far",
        "ordinary requests use less than half of every limit",
        scope,
        problems,
    )
}

pub(crate) fn scope(answered: &[Answered]) -> String {
    format!("{} requests", answered.len())
}
