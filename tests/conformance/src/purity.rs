//! A plugin is a pure function of what its documents mean.

use llsd_adapter_sdk::exchange::{Text, canonical};
use llsd_adapter_sdk::{Answer, Outcome};
use llsd_plugin::{Plugin, RawAnswer, Request};
use llsd_render::adapter::Adapter as _;
use serde_json::{Map, Value, json};

use crate::ordinary::{self, Answered, scope};
use crate::report::Check;

/// A second fresh run gives the same bytes and burns the same fuel.
pub(crate) fn same_input_same_answer(plugin: &Plugin, answered: &[Answered]) -> Check {
    let mut problems = Vec::new();
    for Answered {
        name,
        request,
        result,
    } in answered
    {
        let Ok(first) = result else { continue };
        match plugin.call_afresh(request) {
            Ok(again) if again.answer != first.answer => {
                problems.push(format!("{name}: two answers to one request"));
            }
            Ok(again) if again.fuel != first.fuel => {
                problems.push(format!(
                    "{name}: burned {} fuel, then {}",
                    first.fuel, again.fuel
                ));
            }
            Ok(_) => {}
            Err(fault) => problems.push(format!("{name}: answered, then {}", fault.kind)),
        }
    }
    Check::new(
        "same-input-same-answer",
        "the same input gives the same bytes and burns the same fuel",
        scope(answered),
        problems,
    )
}

/// Documents whose keys stand in another order mean the same.
pub(crate) fn key_order_does_not_matter(plugin: &Plugin, answered: &[Answered]) -> Check {
    let mut problems = Vec::new();
    for Answered {
        name,
        request,
        result,
    } in answered
    {
        let Ok(first) = result else { continue };
        match plugin.call_afresh(&reversed(request)) {
            Ok(other) if other.answer == first.answer => {}
            Ok(_) => problems.push(format!(
                "{name}: another answer when the keys are in another order"
            )),
            Err(fault) => problems.push(format!("{name}: keys in another order: {}", fault.kind)),
        }
    }
    Check::new(
        "key-order",
        "the order of keys in a request does not matter",
        scope(answered),
        problems,
    )
}

/// The request with the keys of every object in reverse order.
fn reversed(request: &Request) -> Request {
    fn turn(value: Value) -> Value {
        match value {
            Value::Object(object) => Value::Object(
                object
                    .into_iter()
                    .rev()
                    .map(|(key, value)| (key, turn(value)))
                    .collect(),
            ),
            Value::Array(items) => items.into_iter().map(turn).collect(),
            scalar => scalar,
        }
    }
    let text = |Text { shape, json }: &Text| {
        // What cannot be read stays as it is.
        let json = serde_json::from_str(json)
            .map_or_else(|_| json.clone(), |value| turn(value).to_string());
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

/// Answers are canonical JSON, so that equal answers have equal digests.
pub(crate) fn answers_are_canonical(answered: &[Answered]) -> Check {
    let mut problems = Vec::new();
    for Answered { name, result, .. } in answered {
        let Ok(called) = result else { continue };
        if let RawAnswer::Outcome(Ok(Outcome { output, .. })) = &*called.answer {
            let value: Value = serde_json::from_str(&output.json).unwrap_or_default();
            if canonical(&value) != output.json {
                problems.push(format!(
                    "{name}: the answer has unsorted keys or needless space"
                ));
            }
        }
    }
    Check::new(
        "canonical-answers",
        "answers are canonical JSON",
        scope(answered),
        problems,
    )
}

/// What a plugin does not understand in a base is still there afterwards.
pub(crate) fn unknown_keys_survive(plugin: &Plugin) -> Check {
    let mut problems = Vec::new();
    let mut looked_at = 0;
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
            if let RawAnswer::Outcome(answer) = &*called.answer {
                let Some(config) = config(answer) else {
                    continue;
                };
                looked_at += 1;
                if config.get("x_conformance") != Some(&unknown) {
                    problems.push(format!(
                        "{}: a key that no release knows did not survive `assemble`",
                        schema.id
                    ));
                }
            }
        }
    }
    let scope = format!("{looked_at} schemas");
    Check::new(
        "unknown-keys-survive",
        "what a plugin does not understand in a base survives",
        scope,
        problems,
    )
}

fn config(answer: &Answer<Text>) -> Option<Map<String, Value>> {
    let assembly: Value = serde_json::from_str(&answer.as_ref().ok()?.output.json).ok()?;
    assembly.get("config")?.as_object().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_keys_round_keeps_the_meaning_and_changes_the_text() {
        let request = Request::from_json(
            "expand",
            &json!({ "a": 1, "b": { "c": [{ "d": 1, "e": 2 }], "f": 3 } }),
        )
        .unwrap();
        let Request::Expand(turned) = reversed(&request) else {
            panic!()
        };
        assert_eq!(turned.json, r#"{"b":{"f":3,"c":[{"e":2,"d":1}]},"a":1}"#);
    }
}
