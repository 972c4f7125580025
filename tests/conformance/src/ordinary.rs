//! Ordinary requests, as a host makes them, built from the plugin's description.

use llsd_adapter_sdk::documents::{Description, KnownProvider};
use llsd_plugin::{Plugin, RawResponse, Request};
use llsd_render::adapter::{Adapter as _, Fault};
use serde_json::{Value, json};

use crate::report::Check;

/// The number of providers tried per API. A catalogue lists dozens that behave alike.
const PER_API: usize = 8;

/// The percentage of a limit that an ordinary call may use. Real resources can be more than twice
/// as large as the requests made here.
const MAX_PERCENT: u64 = 50;

/// A request, with a name for messages.
#[derive(Debug, Clone)]
pub(crate) struct NamedRequest {
    pub(crate) name: String,
    pub(crate) request: Request,
}

/// A request and the result of calling the plugin with it.
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) request: Request,
    pub(crate) result: Result<RawResponse, Fault>,
}

/// The requests that a host would make to this plugin.
pub(crate) fn requests(plugin: &Plugin) -> Vec<NamedRequest> {
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

/// Calls the plugin with every request, each on a fresh instance and past the result cache.
pub(crate) fn call_all(plugin: &Plugin, requests: &[NamedRequest]) -> Vec<Call> {
    let call = |NamedRequest { name, request }: &NamedRequest| Call {
        name: name.clone(),
        request: request.clone(),
        result: plugin.call_uncached(request),
    };
    requests.iter().map(call).collect()
}

pub(crate) fn named(name: String, request: Request) -> NamedRequest {
    NamedRequest { name, request }
}

/// Two entries for a provider: one with no optional field, and one with all that it takes.
fn expansions(
    schema: &str,
    api: &str,
    number: usize,
    provider: &KnownProvider,
) -> [NamedRequest; 2] {
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
        named(format!("{name}, required fields only"), bare),
        named(format!("{name}, all fields"), full),
    ]
}

fn expansion(schema: &str, api: &str, number: usize, entry: &Value) -> Request {
    let path = format!("spec.providers.{api}[{number}]");
    let document =
        json!({ "schema": schema, "api": api, "path": path, "entry": entry, "capabilities": [] });
    request("expand", document)
}

/// A small base configuration that every release can read: its APIs, and no providers.
pub(crate) fn base(description: &Description, schema: &str) -> Value {
    let apis = description.apis.get(schema).cloned().unwrap_or_default();
    json!({ "version": 2, "image_name": "conformance", "apis": apis, "providers": {} })
}

/// An `assemble` request that uses every part of a resource, on a small base configuration.
pub(crate) fn assembly(description: &Description, schema: &str) -> Value {
    json!({
        "schema": schema,
        "base": base(description, schema),
        "providers": { "inference": [expanded_entry("inference", 0, "main")] },
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

/// One expanded provider entry, with its path in the resource.
pub(crate) fn expanded_entry(api: &str, number: usize, id: &str) -> Value {
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

/// A request from JSON that the suite wrote, which is always valid.
pub(crate) fn request(call: &str, argument: Value) -> Request {
    Request::from_json(call, &argument).unwrap_or(Request::Describe)
}

/// Every ordinary request returns a result or diagnostics.
pub(crate) fn all_return(calls: &[Call]) -> Check {
    let problems = calls
        .iter()
        .filter_map(|Call { name, result, .. }| {
            result
                .as_ref()
                .err()
                .map(|fault| format!("{name}: the call failed: {}", fault.kind))
        })
        .collect();
    Check::new(
        "ordinary-requests",
        "every ordinary request must return a result or diagnostics",
        "return a diagnostic instead of trapping, and stay within the limits",
        scope(calls),
        problems,
    )
}

/// No ordinary request uses more than half of a limit.
pub(crate) fn stay_below_half_of_every_limit(plugin: &Plugin, calls: &[Call]) -> Check {
    let limits = plugin.limits();
    let mut problems = Vec::new();
    let mut most = 0;
    for Call { name, result, .. } in calls {
        let Ok(called) = result else { continue };
        most = most.max(called.fuel);
        for (unit, used, limit) in [
            ("fuel", called.fuel, limits.fuel),
            (
                "bytes of memory",
                called.memory_bytes as u64,
                limits.memory_bytes as u64,
            ),
            (
                "bytes of output",
                called.output.to_json().len() as u64,
                limits.output_bytes as u64,
            ),
        ] {
            if u128::from(used) * 100 > u128::from(limit) * u128::from(MAX_PERCENT) {
                problems.push(format!("{name}: used {used} of {limit} {unit}"));
            }
        }
    }
    let scope = format!(
        "{}, at most {most} of {} fuel used",
        scope(calls),
        limits.fuel
    );
    Check::new(
        "limits-are-far",
        "an ordinary request must use no more than half of the fuel, memory and output limits",
        "do less work per call: avoid copies of the base configuration and tables built at run time",
        scope,
        problems,
    )
}

pub(crate) fn scope(calls: &[Call]) -> String {
    format!("{} requests", calls.len())
}
