//! Checks that a plugin is a pure function of its input.

use llsd_adapter_sdk::exchange::{Text, canonical};
use llsd_adapter_sdk::{Answer, Outcome};
use llsd_plugin::{Plugin, RawOutput, Request};
use llsd_render::adapter::Adapter as _;
use serde_json::{Map, Value, json};

use crate::ordinary::{self, Call, scope};
use crate::report::Check;

/// A second fresh instance returns the same bytes and uses the same fuel.
pub(crate) fn same_input_gives_same_output(plugin: &Plugin, calls: &[Call]) -> Check {
    let mut problems = Vec::new();
    for Call {
        name,
        request,
        result,
    } in calls
    {
        let Ok(first) = result else { continue };
        match plugin.call_uncached(request) {
            Ok(again) if again.output != first.output => {
                problems.push(format!(
                    "{name}: the second call returned other bytes than the first"
                ));
            }
            Ok(again) if again.fuel != first.fuel => {
                problems.push(format!(
                    "{name}: the first call used {} fuel, the second {}",
                    first.fuel, again.fuel
                ));
            }
            Ok(_) => {}
            Err(fault) => problems.push(format!(
                "{name}: the first call returned, the second failed: {}",
                fault.kind
            )),
        }
    }
    Check::new(
        "same-input-same-answer",
        "the same input must give the same bytes and use the same fuel",
        "keep no state between calls, and iterate over ordered maps instead of hash maps",
        scope(calls),
        problems,
    )
}

/// A request whose keys are in another order gives the same output.
pub(crate) fn key_order_does_not_matter(plugin: &Plugin, calls: &[Call]) -> Check {
    let mut problems = Vec::new();
    for Call {
        name,
        request,
        result,
    } in calls
    {
        let Ok(first) = result else { continue };
        match plugin.call_uncached(&reversed(request)) {
            Ok(other) if other.output == first.output => {}
            Ok(_) => problems.push(format!(
                "{name}: the output changed when the keys of the request were reversed"
            )),
            Err(fault) => problems.push(format!(
                "{name}: the call failed when the keys of the request were reversed: {}",
                fault.kind
            )),
        }
    }
    Check::new(
        "key-order",
        "the output must not depend on the order of keys in the request",
        "parse the request into a map or struct, and look keys up by name",
        scope(calls),
        problems,
    )
}

/// The request with the keys of every object in reverse order.
fn reversed(request: &Request) -> Request {
    fn reverse(value: Value) -> Value {
        match value {
            Value::Object(object) => Value::Object(
                object
                    .into_iter()
                    .rev()
                    .map(|(key, value)| (key, reverse(value)))
                    .collect(),
            ),
            Value::Array(items) => items.into_iter().map(reverse).collect(),
            scalar => scalar,
        }
    }
    let text = |Text { shape, json }: &Text| {
        // Invalid JSON stays as it is.
        let json = serde_json::from_str(json)
            .map_or_else(|_| json.clone(), |value| reverse(value).to_string());
        Text {
            shape: shape.clone(),
            json,
        }
    };
    match request {
        Request::Describe => Request::Describe,
        Request::Detect { base, hints } => Request::Detect {
            base: text(base),
            hints: text(hints),
        },
        Request::Expand(request) => Request::Expand(text(request)),
        Request::Assemble(request) => Request::Assemble(text(request)),
    }
}

/// The output is canonical JSON, so that equal outputs have equal digests.
pub(crate) fn output_is_canonical(calls: &[Call]) -> Check {
    let mut problems = Vec::new();
    for Call { name, result, .. } in calls {
        let Ok(called) = result else { continue };
        if let RawOutput::Outcome(Ok(Outcome { output, .. })) = &*called.output {
            let value: Value = serde_json::from_str(&output.json).unwrap_or_default();
            if canonical(&value) != output.json {
                problems.push(format!(
                    "{name}: the output has unsorted keys or extra white space"
                ));
            }
        }
    }
    Check::new(
        "canonical-answers",
        "the output must be canonical JSON: sorted keys and no extra white space",
        "write the output with the canonical serializer of the SDK, or with sorted maps",
        scope(calls),
        problems,
    )
}

/// `assemble` keeps the keys of the base configuration that the plugin does not know.
pub(crate) fn unknown_keys_survive(plugin: &Plugin) -> Check {
    let mut problems = Vec::new();
    let mut checked = 0;
    if plugin.is_schema_adapter() {
        for schema in &plugin.description().schemas {
            let mut base = ordinary::base(plugin.description(), &schema.id);
            let unknown = json!({ "a": [1, { "b": null }], "text": "ünï: yes" });
            base["x_conformance"] = unknown.clone();
            let request = ordinary::request(
                "assemble",
                json!({ "schema": schema.id, "base": base, "server": { "configFile": "/c", "dataDir": "/d" } }),
            );
            let Ok(called) = plugin.call(&request) else {
                continue;
            };
            if let RawOutput::Outcome(result) = &*called.output {
                let Some(config) = config(result) else {
                    continue;
                };
                checked += 1;
                if config.get("x_conformance") != Some(&unknown) {
                    problems.push(format!(
                        "schema {:?}: `assemble` dropped the unknown key `x_conformance` of the base configuration",
                        schema.id
                    ));
                }
            }
        }
    }
    let scope = format!("{checked} schemas");
    Check::new(
        "unknown-keys-survive",
        "assemble must keep the keys of the base configuration that the plugin does not know",
        "change the base configuration in place instead of building a new document from known keys",
        scope,
        problems,
    )
}

fn config(result: &Answer<Text>) -> Option<Map<String, Value>> {
    let assembly: Value = serde_json::from_str(&result.as_ref().ok()?.output.json).ok()?;
    assembly.get("config")?.as_object().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reversing_a_request_reverses_the_keys_of_every_object() {
        let request = Request::from_json(
            "expand",
            &json!({ "a": 1, "b": { "c": [{ "d": 1, "e": 2 }], "f": 3 } }),
        )
        .unwrap();
        let Request::Expand(reversed) = reversed(&request) else {
            panic!()
        };
        assert_eq!(reversed.json, r#"{"b":{"f":3,"c":[{"e":2,"d":1}]},"a":1}"#);
    }
}
