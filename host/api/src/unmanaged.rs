//! An object without its managed fields.
//!
//! They are half of most objects. The API server takes them from the object that it sent to a webhook, so
//! neither a conversion nor a review needs them.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The fields of an object.
pub(crate) struct Unmanaged(pub(crate) Map<String, Value>);

/// Reads an object or its metadata.
#[derive(Clone, Copy)]
enum Part {
    Object,
    Metadata,
}

impl<'de> Deserialize<'de> for Unmanaged {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Part::Object.deserialize(deserializer).map(Self)
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = match (self, key.as_str()) {
                (Self::Object, "metadata") => Value::Object(map.next_value_seed(Self::Metadata)?),
                (Self::Metadata, "managedFields") => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => map.next_value()?,
            };
            fields.insert(key, value);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_managed_fields_are_left_out() {
        let object = |metadata: Value| json!({"kind": "A", "metadata": metadata, "spec": {"metadata": {"managedFields": [1]}}});
        let managed = object(json!({"name": "a", "managedFields": [{"fieldsV1": {"f:spec": {}}}]}));
        let Unmanaged(read) = serde_json::from_str(&managed.to_string()).unwrap();
        assert_eq!(Value::Object(read), object(json!({"name": "a"})));
    }
}
