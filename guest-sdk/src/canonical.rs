//! Canonical JSON: keys sorted, no insignificant space.
//!
//! Documents cross the boundary as such text, so that equal documents have equal bytes. The feature
//! `low-fuel` replaces serde_json's own writer by one that needs no copy of the document.

#[cfg(any(feature = "low-fuel", test))]
mod one_pass;

use serde::Serialize;

/// Canonical JSON of anything that serializes.
///
/// Documents hold string keys and finite numbers only, so serialization cannot fail. If it did, the
/// text would be `null`.
pub fn canonical(value: &impl Serialize) -> String {
    #[cfg(feature = "low-fuel")]
    return one_pass::canonical(value);
    #[cfg(not(feature = "low-fuel"))]
    return plain(value);
}

/// Sorts a copy of the document, and writes that.
#[cfg(any(not(feature = "low-fuel"), test))]
fn plain(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(mut value) => {
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::{one_pass, plain};

    /// The text, which both writers agree on.
    fn canonical(value: &impl Serialize) -> String {
        let text = plain(value);
        assert_eq!(one_pass::canonical(value), text);
        text
    }

    /// The expected text, made from a sorted copy.
    fn sorted(value: &Value) -> String {
        let mut value = value.clone();
        value.sort_all_objects();
        value.to_string()
    }

    #[test]
    fn keys_are_sorted_at_every_depth() {
        for value in [
            json!({}),
            json!([]),
            json!({"b": 1, "a": {"z": [{"y": null, "x": true}, {}], "c": "d"}, "ab": -1.5}),
            json!({"b": {"d": {}, "c": []}, "a": [[], [{"b": 1, "a": 2}]]}),
            json!([{"b": 1, "a": 2}, {"a": 1, "b": 2}]),
            json!("text"),
            json!(null),
        ] {
            assert_eq!(canonical(&value), sorted(&value));
        }
    }

    #[test]
    fn keys_are_sorted_by_their_characters_and_not_by_their_escapes() {
        let value =
            json!({"A": 1, "\"": 2, "\\": 3, "\u{1}": 4, "é": 5, "\n": 6, "": 7, "a\tb": 8});
        assert_eq!(canonical(&value), sorted(&value));
    }

    #[test]
    fn fields_are_sorted_like_keys() {
        #[derive(Serialize)]
        struct Record {
            second: u8,
            first: Option<&'static str>,
        }
        let record = Record {
            second: 2,
            first: Some("a \"b\"\n"),
        };
        assert_eq!(canonical(&record), r#"{"first":"a \"b\"\n","second":2}"#);
    }

    #[test]
    fn numbers_as_keys_are_strings() {
        let map = std::collections::BTreeMap::from([(2, "b"), (10, "a")]);
        assert_eq!(canonical(&map), r#"{"10":"a","2":"b"}"#);
    }

    #[test]
    fn a_value_that_cannot_be_written_is_null() {
        let map = std::collections::BTreeMap::from([(vec![1], 1)]);
        assert_eq!(canonical(&map), "null");
    }
}
