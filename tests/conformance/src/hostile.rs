//! Hostile requests: invalid JSON, wrong types and extreme sizes. A plugin must return diagnostics
//! and never trap.
//!
//! Strings cross the sandbox boundary as UTF-8, so invalid UTF-8 cannot be sent. Escaped lone
//! surrogates, replacement characters and control characters come closest.

mod documents;

use llsd_adapter_sdk::documents::{AssemblyRequest, Base, Document as _, ExpansionRequest, Hints};
use llsd_adapter_sdk::exchange::Text;
use llsd_plugin::{Plugin, RawOutput, Request};
use llsd_render::adapter::Adapter as _;

use crate::ordinary::{NamedRequest, assembly, named};
use crate::report::Check;

use documents::{Hostile, assemblies, bases, deeply_nested_json, expansions};

/// Strings that are sent in place of a JSON document.
const JSON_STRINGS: [&str; 14] = [
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

/// The hostile requests for the world of this plugin.
pub(crate) fn requests(plugin: &Plugin) -> Vec<NamedRequest> {
    let description = plugin.description();
    let Some(schema) = description.schemas.first().map(|schema| schema.id.as_str()) else {
        return Vec::new();
    };
    let mut requests = json_strings(expand, "expand");
    requests.extend(documents(expand, "expand", expansions(schema)));
    if plugin.is_schema_adapter() {
        requests.extend(json_strings(assemble, "assemble"));
        requests.extend(documents(
            assemble,
            "assemble",
            assemblies(&assembly(description, schema)),
        ));
        requests.extend(json_strings(|base| detect(base, "{}"), "detect, base"));
        requests.extend(documents(
            |base| detect(base, "{}"),
            "detect, base",
            bases(),
        ));
        requests.extend(json_strings(|hints| detect("{}", hints), "detect, hints"));
    }
    requests
}

/// One request per string that is not the expected document.
fn json_strings(request: impl Fn(&str) -> Request, call: &str) -> Vec<NamedRequest> {
    let mut all: Vec<NamedRequest> = JSON_STRINGS
        .iter()
        .map(|json| named(format!("{call}, JSON {json:?}"), request(json)))
        .collect();
    all.push(named(
        format!("{call}, JSON nested 20,000 levels deep"),
        request(&deeply_nested_json()),
    ));
    all
}

/// One request per hostile document.
fn documents(
    request: impl Fn(&str) -> Request,
    call: &str,
    documents: Vec<Hostile>,
) -> Vec<NamedRequest> {
    let name = |(change, document): Hostile| {
        named(format!("{call}, {change}"), request(&document.to_string()))
    };
    documents.into_iter().map(name).collect()
}

/// No hostile request makes the call fail.
pub(crate) fn nothing_traps(plugin: &Plugin, requests: &[NamedRequest]) -> Check {
    let problems = requests
        .iter()
        .filter_map(|NamedRequest { name, request }| {
            plugin
                .call(request)
                .err()
                .map(|fault| format!("{name}: the call failed: {}", fault.kind))
        })
        .collect();
    Check::new(
        "nothing-traps",
        "a hostile request must return diagnostics, never trap or exceed a limit",
        "validate the request before you use it: no unwrap, no indexing, no unbounded recursion",
        format!("{} requests", requests.len()),
        problems,
    )
}

/// A document of an unknown shape is rejected with the code `unknown-shape`.
pub(crate) fn unknown_shapes_are_rejected(plugin: &Plugin) -> Check {
    let text = || Text {
        shape: "llamastack.io/adapter/from-the-future/v9".into(),
        json: "{}".into(),
    };
    let mut requests = vec![Request::Expand(text())];
    if plugin.is_schema_adapter() {
        requests.push(Request::Assemble(text()));
    }
    let is_rejected = |request: &&Request| {
        plugin
            .call(request)
            .is_ok_and(|called| match &*called.output {
                RawOutput::Outcome(Err(problems)) => problems
                    .iter()
                    .any(|problem| problem.code == "unknown-shape"),
                _ => false,
            })
    };
    let problems = requests.iter().filter(|request| !is_rejected(request));
    let problems = problems
        .map(|request| {
            format!(
                "{}: did not return a diagnostic with the code `unknown-shape`",
                request.call()
            )
        })
        .collect();
    Check::new(
        "unknown-shapes",
        "a document of an unknown shape must be rejected with the code `unknown-shape`",
        "compare `shape` with the shapes that the description lists before you parse the document",
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
