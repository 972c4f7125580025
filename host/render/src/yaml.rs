//! The server's YAML, read as the server reads it and written so that it reads the same.
//!
//! The server is Python and its reader is YAML 1.1: `yes` is a boolean, `017` is fifteen, `1e5` is a
//! text. A base configuration that was read by other rules would come out with another meaning, so
//! plain scalars are resolved here by the server's rules ([`scalar`]). Writing is serde-saphyr's,
//! which quotes everything that either version of YAML could mistake.

mod scalar;

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Deeper nesting than any configuration has; the sandboxed reader behind us recurses.
const MAX_DEPTH: usize = 64;

/// More nodes than any configuration has, aliases counted each time they are used.
const MAX_NODES: usize = 200_000;

/// Why a text is not a server configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not YAML at all.
    #[error("line {line}: {problem}")]
    Syntax {
        /// Line, from one.
        line: usize,
        /// What the parser says.
        problem: String,
    },
    /// YAML, but nothing that a server configuration can hold.
    #[error("line {line}: {what} cannot stand in a server configuration")]
    Unfit {
        /// Line, from one.
        line: usize,
        /// What stands there.
        what: String,
    },
    /// Nested too deeply, or grown too large through aliases.
    #[error("larger or more deeply nested than any server configuration")]
    TooLarge,
    /// No document, or more than one.
    #[error("holds {0} YAML documents instead of one")]
    Documents(usize),
}

/// Reads one document by the server's rules.
pub fn read(text: &str) -> Result<Value, Error> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Error::Syntax {
            line: error.marker().line(),
            problem: error.info().to_owned(),
        })?;
        reader.take(event, span.start.line())?;
    }
    match reader.documents.len() {
        1 => Ok(reader.documents.remove(0)),
        several => Err(Error::Documents(several)),
    }
}

/// Writes a value so that YAML 1.1 and 1.2 readers both read it back unchanged.
///
/// A JSON value always has a YAML text; the error type of the writer speaks of other inputs.
pub fn write(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string())
}

/// A key of a mapping whose value is still to come.
enum Key {
    /// A plain `<<`: the value is merged into the mapping.
    Merge,
    Text(String),
}

/// A collection that is being read.
enum Open {
    List {
        anchor: usize,
        items: Vec<Value>,
    },
    Map {
        anchor: usize,
        entries: Map<String, Value>,
        merges: Vec<Value>,
        key: Option<Key>,
    },
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    anchors: BTreeMap<usize, Value>,
    documents: Vec<Value>,
    nodes: usize,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Error> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let tag = tag.map(|tag| tag.to_string());
                let value = scalar::resolve(&text, plain, tag.as_deref())
                    .map_err(|what| Error::Unfit { line, what })?;
                if plain
                    && text == "<<"
                    && let Some(Open::Map {
                        key: key @ None, ..
                    }) = self.open.last_mut()
                {
                    *key = Some(Key::Merge);
                    return Ok(());
                }
                self.put(value, anchor, line)
            }
            Event::SequenceStart(_, anchor, _) => self.enter(Open::List {
                anchor,
                items: Vec::new(),
            }),
            Event::MappingStart(_, anchor, _) => self.enter(Open::Map {
                anchor,
                entries: Map::new(),
                merges: Vec::new(),
                key: None,
            }),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { anchor, items }) => self.put(Value::Array(items), anchor, line),
                Some(Open::Map {
                    anchor,
                    entries,
                    merges,
                    ..
                }) => self.put(Value::Object(merged(entries, merges)), anchor, line),
                None => Ok(()),
            },
            Event::Alias(id) => {
                let value = self.anchors.get(&id).cloned().ok_or_else(|| Error::Unfit {
                    line,
                    what: "an alias of something that contains it".to_owned(),
                })?;
                self.nodes += count(&value);
                self.put(value, 0, line)
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, collection: Open) -> Result<(), Error> {
        self.open.push(collection);
        if self.open.len() > MAX_DEPTH {
            Err(Error::TooLarge)
        } else {
            Ok(())
        }
    }

    fn put(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), Error> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Error::TooLarge);
        }
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.documents.push(value),
            Some(Open::List { items, .. }) => items.push(value),
            Some(Open::Map {
                entries,
                merges,
                key,
                ..
            }) => match key.take() {
                None => *key = Some(Key::Text(key_text(value, line)?)),
                Some(Key::Merge) => merges.push(value),
                Some(Key::Text(name)) => {
                    entries.insert(name, value);
                }
            },
        }
        Ok(())
    }
}

/// Keys that the server would read as numbers or booleans stay what they look like: no release has
/// a key that is not a text.
fn key_text(key: Value, line: usize) -> Result<String, Error> {
    match key {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(key.to_string()),
        Value::Array(_) | Value::Object(_) => Err(Error::Unfit {
            line,
            what: "a list or a mapping as a key".to_owned(),
        }),
    }
}

/// `<<: *defaults`: what the mapping says itself wins over what it merges.
fn merged(mut entries: Map<String, Value>, merges: Vec<Value>) -> Map<String, Value> {
    for merge in merges {
        let sources = match merge {
            Value::Array(sources) => sources,
            source => vec![source],
        };
        for source in sources {
            if let Value::Object(source) = source {
                for (key, value) in source {
                    entries.entry(key).or_insert(value);
                }
            }
        }
    }
    entries
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        read(text).unwrap()
    }

    #[test]
    fn plain_scalars_mean_what_the_server_takes_them_for() {
        // Each pair was checked against PyYAML's safe loader.
        for (text, expected) in [
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("y", json!("y")),
            ("n", json!("n")),
            ("017", json!(15)),
            ("0o17", json!("0o17")),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("1_000", json!(1000)),
            ("12:30", json!(750)),
            ("1e5", json!("1e5")),
            ("1.0e+5", json!(100000.0)),
            ("1.0e5", json!("1.0e5")),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("-7", json!(-7)),
            ("~", Value::Null),
            ("Null", Value::Null),
            ("'2'", json!("2")),
            ("!!str 12", json!("12")),
            ("${env.X:=d}", json!("${env.X:=d}")),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn a_written_text_reads_back_whatever_it_looks_like() {
        let texts = [
            "yes",
            "n",
            "on",
            "0x10",
            "1e5",
            "12:30",
            "1_000",
            "2024-01-01",
            "=",
            "<<",
            "a: b",
            "é",
            "",
            "~",
            "\u{1}",
            "- x",
        ];
        let original = json!(texts);
        assert_eq!(value(&write(&original)), original);
    }

    #[test]
    fn anchors_and_merge_keys_are_resolved() {
        assert_eq!(
            value("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}"),
            json!({"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}})
        );
    }

    #[test]
    fn what_cannot_be_a_configuration_is_refused_with_its_line() {
        assert_eq!(
            read("a: 1\nb: .nan").unwrap_err().to_string(),
            "line 2: the number .nan cannot stand in a server configuration"
        );
        assert_eq!(read("a: 1\n---\nb: 2").unwrap_err(), Error::Documents(2));
        assert_eq!(read("").unwrap_err(), Error::Documents(0));
        assert!(matches!(read("a: [1, 2\nb: }"), Err(Error::Syntax { .. })));
        assert_eq!(
            read(&format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap_err(),
            Error::TooLarge
        );
    }

    #[test]
    fn aliases_cannot_blow_the_document_up() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let below = format!("*a{}", level - 1);
            text += &format!(
                "a{level}: &a{level} [{}]\n",
                [below.as_str(); 10].join(", ")
            );
        }
        assert_eq!(read(&text).unwrap_err(), Error::TooLarge);
    }
}
