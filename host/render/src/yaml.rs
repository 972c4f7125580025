//! Reads and writes YAML with the server's rules.
//!
//! The server is written in Python and reads YAML 1.1: `yes` is a boolean, `017` is fifteen, `1e5` is
//! a string. Reading a base configuration with other rules would change its meaning, so [`scalar`]
//! resolves plain scalars with the server's rules. serde-saphyr writes YAML; it quotes every string
//! that a YAML 1.1 or 1.2 reader could read as something else.

mod scalar;

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Maximum nesting: more than any configuration has. Plugins parse the result recursively.
const MAX_DEPTH: usize = 64;

/// Maximum number of nodes: more than any configuration has. Aliases count each time.
const MAX_NODES: usize = 200_000;

/// Why a file is not a valid server configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not valid YAML.
    #[error("line {line}: {problem}")]
    Syntax {
        /// Line number, starting at 1.
        line: usize,
        /// The parser's message.
        problem: String,
    },
    /// A YAML feature that a server configuration cannot contain.
    #[error("line {line}: a server configuration cannot contain {what}")]
    Unsupported {
        /// Line number, starting at 1.
        line: usize,
        /// The unsupported value.
        what: String,
    },
    /// The file has too many nodes, for example because of aliases, or is nested too deeply.
    #[error(
        "the file exceeds the limit of {MAX_NODES} nodes or {MAX_DEPTH} levels; make it smaller"
    )]
    TooLarge,
    /// The file does not contain exactly one document.
    #[error("the file must contain one YAML document, not {0}")]
    Documents(usize),
}

/// Reads one document with the server's rules.
pub fn read(text: &str) -> Result<Value, Error> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Error::Syntax {
            line: error.marker().line(),
            problem: error.info().to_owned(),
        })?;
        reader.read_event(event, span.start.line())?;
    }
    match reader.documents.len() {
        1 => Ok(reader.documents.remove(0)),
        several => Err(Error::Documents(several)),
    }
}

/// Writes a value so that both YAML 1.1 and 1.2 readers read the same value.
///
/// Writing a JSON value cannot fail; the writer's error is for other types.
pub fn write(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string())
}

/// A key of a mapping, before its value is read.
enum Key {
    /// A merge key, which is a plain `<<`.
    Merge,
    Name(String),
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
    fn read_event(&mut self, event: Event<'_>, line: usize) -> Result<(), Error> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let tag = tag.map(|tag| tag.to_string());
                let value = scalar::resolve(&text, plain, tag.as_deref())
                    .map_err(|what| Error::Unsupported { line, what })?;
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
                let value = self
                    .anchors
                    .get(&id)
                    .cloned()
                    .ok_or_else(|| Error::Unsupported {
                        line,
                        what: "an alias that refers to itself".to_owned(),
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
                None => *key = Some(Key::Name(key_name(value, line)?)),
                Some(Key::Merge) => merges.push(value),
                Some(Key::Name(name)) => {
                    entries.insert(name, value);
                }
            },
        }
        Ok(())
    }
}

/// Keys are always strings. The server's reader would read some as numbers or booleans, but no release
/// has such a key.
fn key_name(key: Value, line: usize) -> Result<String, Error> {
    match key {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(key.to_string()),
        Value::Array(_) | Value::Object(_) => Err(Error::Unsupported {
            line,
            what: "a list or a mapping as a key".to_owned(),
        }),
    }
}

/// Merges `<<: *defaults`. The mapping's own keys take precedence.
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
    fn plain_scalars_are_read_as_the_server_reads_them() {
        // Each pair was verified with the safe loader of PyYAML.
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
    fn every_written_string_reads_back_as_the_same_string() {
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
    fn an_unsupported_value_is_an_error_with_its_line() {
        assert_eq!(
            read("a: 1\nb: .nan").unwrap_err().to_string(),
            "line 2: a server configuration cannot contain the number .nan"
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
    fn nested_aliases_exceed_the_node_limit() {
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
