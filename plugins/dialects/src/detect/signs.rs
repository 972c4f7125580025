//! What in a base tells the dialects apart.

use std::fmt;

use llsd_adapter_sdk::documents::Object;
use llsd_adapter_sdk::serde_json::Value;

use super::evidence::{self, Row};
use crate::env::{self, Id, Syntax};

/// Points for what a release drops silently.
pub(super) const DROPPED: u32 = 1;
/// Points for what keeps a server from starting, or loses a whole section.
pub(super) const REFUSED: u32 = 3;

/// Something in a base that some dialects read and others do not.
pub(super) struct Sign {
    /// Points against the dialects that do not read it.
    pub(super) points: u32,
    /// The dialects that read it, as hexadecimal digits; empty for a provider type.
    readers: &'static str,
    /// The dialects that have its row, a character each.
    known: &'static str,
    /// Row and key of the evidence; the key is empty for a provider type.
    section: &'static str,
    name: &'static str,
    key: &'static str,
}

impl Sign {
    /// Whether the dialect at a place in the list does not read it.
    pub(super) fn is_against(&self, place: usize) -> bool {
        let known = self.known.as_bytes().get(place);
        if self.readers.is_empty() {
            return known == Some(&b'0');
        }
        let digit = self.readers.as_bytes().get(place / 4).copied();
        let bits = char::from(digit.unwrap_or(b'f'))
            .to_digit(16)
            .unwrap_or(0xf);
        known == Some(&b'1') && bits & (8 >> (place % 4)) == 0
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.section, self.key) {
            (evidence::FILE, key) => {
                if self.name != evidence::TOP {
                    f.write_str(self.name)?;
                }
                f.write_str(key)
            }
            (_, "") => f.write_str(self.name),
            (_, key) => match key.strip_prefix(evidence::REQUIRED) {
                Some(key) => write!(f, "{} without {key}", self.name),
                None => write!(f, "{key} of {}", self.name),
            },
        }
    }
}

/// The signs of a base, each once however often it occurs.
pub(super) struct Signs {
    pub(super) list: Vec<Sign>,
    /// How many APIs have providers.
    pub(super) apis: usize,
    /// What occurs often is collected first and looked up once.
    has_plain: bool,
    has_colon: bool,
    has_block: bool,
    has_reference: bool,
}

impl Signs {
    /// Reads a base; nothing when it is not a configuration that a known release reads.
    pub(super) fn of(base: &Value) -> Option<Self> {
        let top = base.as_object()?;
        let has = |keys: &[&str]| keys.iter().any(|key| top.contains_key(*key));
        let is_legacy = has(&["routing_table", "api_providers", "apis_to_serve"]);
        if is_legacy || !has(&["providers", "apis", "image_name", "distro_name"]) {
            return None;
        }
        let mut signs = Self {
            list: Vec::new(),
            apis: 0,
            has_plain: false,
            has_colon: false,
            has_block: false,
            has_reference: false,
        };
        match top.get("version") {
            None => {}
            Some(Value::String(text)) if text == "2" => {}
            Some(Value::Number(number)) if number.as_u64() == Some(2) => {
                signs.add("version:", "integer", REFUSED);
            }
            Some(_) => return None,
        }
        signs.read_sections(top);
        signs.read_apis(top);
        signs.read_strings(base, 0);
        for (is_there, section, form) in [
            (signs.has_plain, "variables:", "${env.X:default}"),
            (signs.has_colon, "variables:", "${env.X:=default}"),
            (signs.has_block, "state:", "block"),
            (signs.has_reference, "state:", "reference"),
        ] {
            if is_there {
                signs.add(section, form, REFUSED);
            }
        }
        Some(signs)
    }

    fn read_sections(&mut self, top: &Object) {
        for (key, value) in top {
            if is_nothing(value) {
                continue;
            }
            let points = match key.as_str() {
                "storage" | "registered_resources" => REFUSED,
                // Releases without it require the other name.
                "distro_name" if !top.contains_key("image_name") => REFUSED,
                _ => DROPPED,
            };
            self.add(evidence::TOP, key, points);
        }
        for (section, name) in [
            ("registered_resources", "registered_resources."),
            ("server", "server."),
            ("vector_stores", "vector_stores."),
        ] {
            self.read_section(name, top.get(section), DROPPED);
        }
        let stores = top.get("storage").and_then(|storage| storage.get("stores"));
        // A store that is not read is a whole section that is lost.
        self.read_section("storage.stores.", stores, REFUSED);
        if let Some(Value::Object(stores)) = stores {
            for (name, store) in stores {
                if store.get("table_name").is_some() {
                    self.add("table_name:", name, REFUSED);
                }
            }
        }
    }

    fn read_section(&mut self, name: &str, section: Option<&Value>, points: u32) {
        if let Some(Value::Object(entries)) = section {
            for (key, value) in entries {
                if !is_nothing(value) {
                    self.add(name, key, points);
                }
            }
        }
    }

    fn read_apis(&mut self, top: &Object) {
        if let Some(Value::Array(listed)) = top.get("apis") {
            for api in listed {
                if let Value::String(api) = api {
                    self.add("apis.", api, REFUSED);
                }
            }
        }
        if let Some(Value::Object(providers)) = top.get("providers") {
            for (api, list) in providers {
                if let Value::Array(list) = list
                    && !list.is_empty()
                {
                    self.apis += 1;
                    self.add("apis.", api, DROPPED);
                    for entry in list {
                        self.read_provider(api, entry);
                    }
                }
            }
        }
    }

    fn read_provider(&mut self, api: &str, entry: &Value) {
        let config = match entry.get("config") {
            Some(Value::Object(config)) => config,
            _ => &Object::new(),
        };
        let kind = entry.get("provider_type").and_then(Value::as_str);
        if let Some(row) = kind.and_then(|kind| evidence::row(api, kind)) {
            // A server ignores the type of a provider that no variable switches on.
            let is_conditional = matches!(Id::of(entry.get("provider_id")), Id::When { .. });
            let points = if is_conditional { DROPPED } else { REFUSED };
            self.push(row, "", "", points);
            let is_set = |key: &str| config.get(key).is_some_and(|value| !is_nothing(value));
            for (word, key, readers) in row.required() {
                if !is_set(key) {
                    self.push(row, word, readers, points);
                }
            }
            for (key, value) in config {
                if let Some((key, readers)) = row.key(key)
                    && !is_nothing(value)
                {
                    self.push(row, key, readers, DROPPED);
                }
            }
        }
        for value in config.values() {
            self.read_stores(value, 0);
        }
    }

    /// How providers refer to their state.
    fn read_stores(&mut self, value: &Value, depth: usize) {
        let Some(entries) = value.as_object().filter(|_| depth < DEPTH) else {
            return;
        };
        let has = |key: &str| entries.contains_key(key);
        let kind = entries.get("type").and_then(Value::as_str);
        if has("backend") && (has("namespace") || has("table_name")) {
            self.has_reference = true;
        } else if matches!(kind, Some("sqlite" | "redis" | "postgres" | "mongodb")) {
            self.has_block = true;
        }
        entries
            .values()
            .for_each(|value| self.read_stores(value, depth + 1));
    }

    /// How variables are written, and below which home folder files lie.
    fn read_strings(&mut self, value: &Value, depth: usize) {
        match value {
            Value::String(text) => {
                if let Some((_, path)) = text.split_once('~')
                    && let Some(path) = path.strip_prefix('/')
                {
                    let folder = path.split(['/', '}']).next().unwrap_or_default();
                    self.add("~/", folder, DROPPED);
                }
                for expression in env::expressions(text) {
                    self.has_plain |= expression.syntax == Some(Syntax::Plain);
                    self.has_colon |= expression.syntax == Some(Syntax::Colon);
                }
            }
            Value::Array(items) if depth < DEPTH => items
                .iter()
                .for_each(|item| self.read_strings(item, depth + 1)),
            Value::Object(entries) if depth < DEPTH => entries
                .values()
                .for_each(|entry| self.read_strings(entry, depth + 1)),
            _ => {}
        }
    }

    /// Adds a key of a section, if not all dialects read it.
    fn add(&mut self, section: &str, key: &str, points: u32) {
        if let Some(row) = evidence::row(evidence::FILE, section)
            && let Some((key, readers)) = row.key(key)
        {
            self.push(row, key, readers, points);
        }
    }

    fn push(&mut self, row: Row, key: &'static str, readers: &'static str, points: u32) {
        // Each line of the evidence has its own address.
        let is_same = |sign: &&mut Sign| std::ptr::eq(sign.known, row.known) && sign.key == key;
        if let Some(sign) = self.list.iter_mut().find(is_same) {
            sign.points = sign.points.max(points);
        } else {
            self.list.push(Sign {
                points,
                readers,
                known: row.known,
                section: row.section,
                name: row.name,
                key,
            });
        }
    }
}

/// Deeper than any real file.
const DEPTH: usize = 32;

/// Whether dropping a value changes nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => {
            entries.is_empty() || entries.get("enabled") == Some(&Value::Bool(false))
        }
        _ => false,
    }
}
