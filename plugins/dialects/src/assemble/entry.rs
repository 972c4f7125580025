//! One provider of the file.

use llsd_adapter_sdk::documents::Object;
use llsd_adapter_sdk::serde_json::{Value, json};

use crate::env::Id;

/// One provider of the file, and where it comes from.
pub(super) struct Entry {
    /// The value in the file.
    pub(super) value: Value,
    /// Where it comes from.
    pub(super) origin: Origin,
}

/// Where a provider comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The base.
    Base,
    /// `spec.providers`, at this path.
    User(String),
    /// `spec.externalProviders`, at this path.
    External(String),
    /// A tool or a shield that needs it, at this path.
    Brought(String),
}

impl Origin {
    /// The path for diagnostics; `None` for the base.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Self::Base => None,
            Self::User(path) | Self::External(path) | Self::Brought(path) => Some(path),
        }
    }
}

impl Entry {
    pub(super) fn id(&self) -> Id<'_> {
        Id::of(self.value.get("provider_id"))
    }

    /// Whether it has this id, conditional or not. Called often, so the common case, a plain id, comes first.
    pub(super) fn is(&self, id: &str) -> bool {
        match self.value.get("provider_id").and_then(Value::as_str) {
            Some(text) if text.starts_with("${env.") => self.id().name() == Some(id),
            Some(text) => text == id && self.id().name().is_some(),
            None => false,
        }
    }

    pub(super) fn provider_type(&self) -> &str {
        self.value
            .get("provider_type")
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    /// The type without `remote::` or `inline::`.
    pub(super) fn short_type(&self) -> &str {
        let full = self.provider_type();
        full.split_once("::").map_or(full, |(_, name)| name)
    }

    pub(super) fn config(&self) -> Option<&Object> {
        self.value.get("config").and_then(Value::as_object)
    }

    /// Its configuration, created if it has none; `None` if it is not an object.
    pub(super) fn config_mut(&mut self) -> Option<&mut Object> {
        super::base::object_mut(self.value.as_object_mut()?, "config")
    }

    /// Replaces the provider, and returns what was replaced.
    ///
    /// If the type is the same, keys that the new provider does not set are kept: they are the
    /// distribution's defaults. An external provider replaces everything.
    pub(super) fn replace(&mut self, mut value: Object, origin: Origin) -> Replaced {
        let old = std::mem::take(&mut self.value);
        let same_type = old.get("provider_type") == value.get("provider_type");
        let replaced = Replaced {
            provider_type: old
                .get("provider_type")
                .and_then(Value::as_str)
                .filter(|_| !same_type)
                .map(str::to_owned),
            origin: std::mem::replace(&mut self.origin, origin),
        };
        if same_type
            && !matches!(self.origin, Origin::External(_))
            && let Value::Object(old) = old
        {
            keep_defaults(old, &mut value);
        }
        self.value = Value::Object(value);
        replaced
    }
}

/// A provider that was replaced.
pub(super) struct Replaced {
    /// Where it came from.
    pub(super) origin: Origin,
    /// Its type, if the new provider has another one.
    pub(super) provider_type: Option<String>,
}

/// Copies the keys that the old entry sets and the new one does not.
fn keep_defaults(old: Object, new: &mut Object) {
    for (key, value) in old {
        match (key.as_str(), value) {
            ("config", Value::Object(old)) => {
                if let Some(config) = new
                    .entry("config")
                    .or_insert_with(|| json!({}))
                    .as_object_mut()
                {
                    for (key, value) in old {
                        config.entry(key).or_insert(value);
                    }
                }
            }
            (_, value) => {
                new.entry(key).or_insert(value);
            }
        }
    }
}
