//! Nothing that a request or a base can hold makes an adapter panic.

use super::*;
use llsd_adapter_sdk::documents::Hints;

/// Every place of a value, as pointers.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, item)| places(item, format!("{at}/{i}"), out)),
        Value::Object(entries) => entries.iter().for_each(|(key, item)| {
            places(
                item,
                format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                out,
            );
        }),
        _ => {}
    }
    out.push(at);
}

fn deep() -> Value {
    (0..100).fold(json!("x"), |inner, _| json!({"a": [inner]}))
}

#[test]
fn any_part_of_a_request_may_be_anything() {
    let odd = [
        json!(null),
        json!(7),
        json!(""),
        json!("${env.X:+"),
        json!([]),
        json!({}),
        json!([null, 1, "x", {}]),
        deep(),
    ];
    for (turn, schema) in SCHEMAS.into_iter().enumerate() {
        let whole = golden(schema, "full");
        let mut all = Vec::new();
        places(&whole, String::new(), &mut all);
        for (number, place) in all.iter().enumerate() {
            for (kind, value) in odd.iter().enumerate() {
                // An eighth of all pairs in each dialect, another one in each.
                if (number + kind + turn) % 8 != 0 {
                    continue;
                }
                let mut request = whole.clone();
                *request.pointer_mut(place).unwrap() = value.clone();
                ALL.detect(&request["base"], &Hints::default());
                if let Ok(request) = serde_json::from_value::<AssemblyRequest>(request) {
                    let _ = ALL.assemble(request);
                }
            }
        }
    }
}

#[test]
fn any_part_of_an_entry_may_be_anything() {
    let odd = [
        "",
        "::",
        "remote::",
        "\u{0}",
        "é",
        "http://[",
        "http://a:b@c",
        "${env.",
        "a\nb",
        "http://ä.example/ü?x#y",
    ];
    for schema in SCHEMAS {
        for text in odd {
            for api in ["inference", "vector_io", text] {
                let references =
                    json!({"apiKey": text, text: "X", "secretRefs.": "Y", "host": text});
                let entry = json!({"provider": text, "endpoint": text, "host": text, "settings": {text: text}, "references": references});
                expand(schema, api, entry);
                for provider in ["vllm", "pgvector", "milvus"] {
                    expand(
                        schema,
                        api,
                        json!({"provider": provider, "endpoint": text, "settings": {text: deep()}}),
                    );
                }
            }
        }
    }
}

#[test]
fn a_base_that_is_no_mapping_is_refused() {
    for base in [json!(null), json!([]), json!("x"), json!(1)] {
        let mut request = golden(V0_7, "minimal");
        request["base"] = base;
        assert_eq!(assemble(request).errors(), ["malformed-base "]);
    }
}

#[test]
fn an_empty_base_still_takes_a_provider() {
    for schema in SCHEMAS {
        let report = assemble(request(
            schema,
            json!({"base": {}, "providers": {"inference": [vllm(schema)]}}),
        ));
        assert_eq!(report.ids("inference"), ["vllm"], "{schema}");
    }
}

#[test]
fn a_thousand_providers_are_placed() {
    let many: Vec<Value> = (0..1000)
        .map(|n| {
            placed(
                &format!("p{n}"),
                "remote::vllm",
                json!({"base_url": "http://v/v1"}),
            )
        })
        .collect();
    let report = assemble(request(V0_7, json!({"providers": {"inference": many}})));
    assert_eq!(report.ids("inference").len(), 1003);
}

#[test]
fn the_order_of_keys_changes_nothing() {
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(reversed).collect(),
            Value::Object(entries) => Value::Object(
                entries
                    .iter()
                    .rev()
                    .map(|(key, item)| (key.clone(), reversed(item)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
    for schema in SCHEMAS {
        for case in ["minimal", "full", "refused"] {
            let request = golden(schema, case);
            let (one, other) = (assemble(reversed(&request)), assemble(request));
            assert_eq!(one.output, other.output);
            assert_eq!(one.diagnostics, other.diagnostics);
        }
    }
}
