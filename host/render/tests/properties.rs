//! Properties of any value: written YAML reads back unchanged, and ordering keys changes no value.

use llsd_render::limits::{YAML_DEPTH, YAML_HELD_BYTES, YAML_NODES};
use llsd_render::{key_order, merge_patch, yaml};
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

/// Text in which anchors, aliases, merges and collections are frequent, valid or not.
fn yaml_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-e]: ",
        "&[a-e] ",
        "\\*[a-e]",
        "<<: \\*[a-e]",
        "[\\[\\]{},]{1,3}",
        "[ ]{0,4}- ",
        "\n[ ]{0,6}",
        "\\|[-+]?\n",
        "'[^']{0,20}'",
        "[0-9_:.xe+-]{1,12}",
        "![a-z!]{0,5} ",
        Just("---\n".to_owned()),
        Just("x".repeat(5_000)),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..200).prop_map(|parts| parts.concat())
}

/// An object with few keys, so that a patch and a configuration share some of them.
fn configuration() -> impl Strategy<Value = Map<String, Value>> {
    let keys = || prop_oneof!["[abc]", Just("provider_id".to_owned())];
    let scalar = prop_oneof![
        Just(Value::Null),
        Just(Value::from(1)),
        "[ab]".prop_map(Value::from),
        Just(Value::from("${env.X:+a}")),
    ];
    let any = scalar.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys(), inner, 0..4)
                .prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    });
    let apis = prop::collection::btree_map("(inference|eval)", any.clone(), 0..3)
        .prop_map(|entries| Value::Object(Map::from_iter(entries)));
    let top = prop::collection::btree_map("[abc]", any, 0..4);
    (top, prop::option::of(apis)).prop_map(|(top, apis)| {
        let apis = apis.map(|apis| ("providers".to_owned(), apis));
        top.into_iter().chain(apis).collect()
    })
}

/// The levels, values and string bytes of a value.
fn measure(value: &Value) -> (usize, usize, usize) {
    let around = |values: Vec<(usize, usize, usize)>| {
        values.into_iter().fold((1, 1, 0), |all, one| {
            (all.0.max(one.0 + 1), all.1 + one.1, all.2 + one.2)
        })
    };
    match value {
        Value::Array(items) => around(items.iter().map(measure).collect()),
        Value::Object(entries) => {
            let keys: usize = entries.keys().map(String::len).sum();
            let (depth, values, bytes) = around(entries.values().map(measure).collect());
            (depth, values, bytes + keys)
        }
        Value::String(text) => (0, 1, text.len()),
        _ => (0, 1, 0),
    }
}

proptest! {
    /// A target of `cargo xtask fuzz`.
    #[test]
    fn any_yaml_is_read_within_the_budget_or_rejected(text in yaml_text()) {
        match yaml::read(&text) {
            Ok(value) => {
                let (depth, values, bytes) = measure(&value);
                prop_assert!(depth <= YAML_DEPTH && values <= YAML_NODES && bytes <= YAML_HELD_BYTES);
            }
            Err(error) => prop_assert!(error.to_string().len() < 1_000, "{}", error),
        }
    }
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
    fn merging_a_patch_twice_is_merging_it_once(config in configuration(), patch in configuration()) {
        let mut once = config.clone();
        merge_patch(&mut once, &patch);
        let mut twice = once.clone();
        merge_patch(&mut twice, &patch);
        prop_assert_eq!(&twice, &once);
        // The empty patch changes nothing.
        merge_patch(&mut twice, &Map::new());
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn ordering_keys_changes_no_value(base in values(), value in values()) {
        prop_assert_eq!(key_order::like_base(&base, value.clone()), value);
    }
}
