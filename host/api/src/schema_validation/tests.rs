use serde_json::json;

use super::*;

/// The errors about a value, and the repaired value.
fn validated(schema: Value, mut value: Value) -> (Vec<String>, Value) {
    let mut diagnostics = Collector::default();
    validate(
        &mut value,
        &schema,
        &FieldPath::root().field("x"),
        &mut diagnostics,
    );
    (
        diagnostics.errors.iter().map(ToString::to_string).collect(),
        value,
    )
}

#[test]
fn an_error_names_the_bounds_of_the_schema() {
    let errors = |schema: Value, value: Value| validated(schema, value).0.join("\n");
    assert_eq!(
        errors(json!({ "type": "integer", "minimum": 1 }), json!(0)),
        "x: 0 is out of range; use 1 or more"
    );
    assert_eq!(
        errors(json!({ "type": "number", "maximum": 1 }), json!(1.5)),
        "x: 1.5 is out of range; use 1 or less"
    );
    assert_eq!(
        errors(json!({ "type": "string", "minLength": 2 }), json!("a")),
        "x: has 1 character; use at least 2 characters"
    );
    assert_eq!(
        errors(json!({ "type": "string", "maxLength": 2 }), json!("äöü")),
        "x: has 3 characters; use at most 2 characters"
    );
    let list = json!({ "type": "array", "maxItems": 1, "items": { "type": "boolean" } });
    assert_eq!(
        errors(list, json!([true, false])),
        "x: has 2 items; use at most 1 item"
    );
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    assert_eq!(errors(free, json!({ "a": null })), "");
}

#[test]
fn a_value_of_the_wrong_type_is_replaced_by_a_default() {
    let schema = json!({
        "type": "object",
        "required": ["list", "number", "flag", "amount", "any", "inner"],
        "properties": {
            "list": { "type": "array", "items": { "type": "string" } },
            "number": { "type": "number" },
            "flag": { "type": "boolean" },
            "amount": { "x-kubernetes-int-or-string": true },
            "any": { "x-kubernetes-preserve-unknown-fields": true },
            "inner": { "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } },
        },
    });
    let (errors, repaired) = validated(
        schema.clone(),
        json!({ "list": [1], "number": {}, "flag": [], "amount": true, "any": 1 }),
    );
    assert_eq!(
        errors,
        [
            "x.list[0]: must be a string, not a number; put it in quotes: \"1\"",
            "x.number: must be a number, not an object; write a number",
            "x.flag: must be a boolean, not a list; write a boolean",
            "x.amount: must be a number or a string, not a boolean; write a number or a string",
            "x.inner: is missing; add it: an object",
        ]
    );
    let expected = json!({ "list": [], "number": 0, "flag": false, "amount": "", "any": 1, "inner": { "text": "" } });
    assert_eq!(repaired, expected);
    assert_eq!(validated(schema, json!(null)).1["any"], json!(null));
}

#[test]
fn a_missing_untyped_value_is_reported() {
    let (errors, _) = validated(
        json!({ "type": "object", "required": ["a"], "properties": { "a": { "x-kubernetes-preserve-unknown-fields": true } } }),
        json!({}),
    );
    assert_eq!(errors, ["x.a: is missing; add it: a value"]);
    assert_eq!(crate::json_type::type_name(&Value::Null), "null");
}
