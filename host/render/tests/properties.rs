//! Properties of any value: written YAML reads back unchanged, and ordering keys changes no value.

use llsd_render::{key_order, yaml};
use proptest::prelude::*;
use serde_json::{Map, Value};

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Value::from),
        strings().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(strings(), inner, 0..6)
                .prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    })
}

/// Any string, and often one that a YAML reader could read as another type.
fn strings() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+]?[0-9_:.xobe]{1,12}",
        "(?i)(yes|no|y|n|on|off|true|false|null|~|<<|=|\\.inf|\\.nan)",
        "\\$\\{env\\.[A-Z_]{1,8}(:[=+][a-z]{0,4})?\\}",
        "[ \\t\\n#:\\-?&*!|>'\"%@`{}\\[\\],a]{1,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn written_yaml_reads_back_unchanged(value in values()) {
        // Every configuration is a mapping.
        let document = serde_json::json!({ "key": value });
        let text = yaml::write(&document);
        prop_assert_eq!(yaml::read(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?, document);
    }

    #[test]
    fn ordering_keys_changes_no_value(base in values(), value in values()) {
        prop_assert_eq!(key_order::like_base(&base, value.clone()), value);
    }
}
