//! Reads and writes YAML with the server's rules.
//!
//! The server is written in Python and reads YAML 1.1: `yes` is a boolean, `017` is fifteen, `1e5` is
//! a string. Reading a base configuration with other rules would change its meaning, so [`scalar`]
//! resolves plain scalars with the server's rules. serde-saphyr writes YAML; it quotes every string
//! that a YAML 1.1 or 1.2 reader could read as something else.
//!
//! An alias repeats a value, so a small file can expand to gigabytes. Every value is charged to a
//! [`Budget`] before it is created, and a file that exceeds it is rejected at that line.

mod budget;
mod positions;
mod scalar;

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use crate::limits::{QUOTED_CHARS, YAML_BYTES};
pub use budget::Limit;
use budget::{Budget, Size};
pub use positions::{Positions, TextRange};

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
    /// The text is too long to be parsed.
    #[error(
        "the file has {0} bytes, which is more than the limit of {YAML_BYTES}; make it smaller"
    )]
    TooLong(usize),
    /// The values of the file exceed a limit.
    #[error("line {line}: the file exceeds the limit of {limit}; {}", .limit.fix())]
    TooLarge {
        /// Line number, starting at 1.
        line: usize,
        /// The limit.
        limit: Limit,
    },
    /// The file does not contain exactly one document.
    #[error("the file must contain one YAML document, not {0}")]
    Documents(usize),
}

/// Reads one document with the server's rules.
pub fn read(text: &str) -> Result<Value, Error> {
    if text.len() > YAML_BYTES {
        return Err(Error::TooLong(text.len()));
    }
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Error::Syntax {
            line: error.marker().line(),
            problem: abbreviated(&error.info()),
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
    anchors: BTreeMap<usize, (Value, Size)>,
    documents: Vec<Value>,
    budget: Budget,
}

impl Reader {
    fn read_event(&mut self, event: Event<'_>, line: usize) -> Result<(), Error> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let tag = tag.map(|tag| tag.to_string());
                self.charge(Size::scalar(&text), line)?;
                let value = scalar::resolve(&text, plain, tag.as_deref()).map_err(|what| {
                    let what = abbreviated(&what);
                    Error::Unsupported { line, what }
                })?;
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
            Event::SequenceStart(_, anchor, _) => {
                let items = Vec::new();
                self.enter(Open::List { anchor, items }, line)
            }
            Event::MappingStart(_, anchor, _) => {
                let map = Open::Map {
                    anchor,
                    entries: Map::new(),
                    merges: Vec::new(),
                    key: None,
                };
                self.enter(map, line)
            }
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
                let unsupported = || Error::Unsupported {
                    line,
                    what: "an alias that refers to itself".to_owned(),
                };
                let (_, size) = self.anchors.get(&id).ok_or_else(unsupported)?;
                self.charge(*size, line)?;
                let value = self.anchors.get(&id).map(|(value, _)| value.clone());
                self.put(value.unwrap_or_default(), 0, line)
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, collection: Open, line: usize) -> Result<(), Error> {
        self.charge(Size::COLLECTION, line)?;
        self.open.push(collection);
        Ok(())
    }

    /// Charges a value that is about to be created inside the open collections.
    fn charge(&mut self, size: Size, line: usize) -> Result<(), Error> {
        self.budget
            .charge(size, self.open.len())
            .map_err(|limit| Error::TooLarge { line, limit })
    }

    /// Adds a value, which is charged already, to the innermost collection.
    fn put(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), Error> {
        if anchor != 0 {
            let size = Size::of(&value);
            self.charge(size, line)?;
            self.anchors.insert(anchor, (value.clone(), size));
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

/// A part of the file in a message.
fn abbreviated(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::YAML_DEPTH;
    use serde_json::json;

    fn value(text: &str) -> Value {
        read(text).unwrap()
    }

    /// The limit that the text exceeds.
    fn limit(text: &str) -> Option<Limit> {
        match read(text) {
            Err(Error::TooLarge { limit, .. }) => Some(limit),
            result => {
                assert!(result.is_ok(), "{result:?}");
                None
            }
        }
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
    }

    #[test]
    fn a_message_quotes_only_the_start_of_a_long_value() {
        let error = read(&format!("a: {}", "9".repeat(100_000))).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
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
        assert_eq!(limit(&text), Some(Limit::Nodes));
    }

    /// Issue I, row 1: 212 KB that expanded to 800 MB.
    #[test]
    fn aliases_of_a_long_string_exceed_the_memory_limit_before_they_are_expanded() {
        let long = "x".repeat(200_000);
        let aliases = ["*a"; 4_000].join(", ");
        for text in [
            format!("a: &a {long}\nb: [{aliases}]"),
            format!("a: &a {{? {long} : 1}}\nb: [{aliases}]"),
            format!("a: &a [{long}]\nb: [{aliases}]"),
            format!("a: &a {{k: {long}}}\nb: {{<<: [{aliases}]}}"),
        ] {
            assert_eq!(limit(&text), Some(Limit::HeldBytes), "{:.20}", text);
        }
        let error = read(&format!("a: &a {long}\nb: [{aliases}]")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2: the file exceeds the limit of 16777216 bytes in memory; use fewer aliases, or shorter strings in what they repeat"
        );
    }

    #[test]
    fn anchors_inside_anchors_are_charged_for_every_copy() {
        let (open, close) = (0..60).fold((String::new(), String::new()), |(open, close), index| {
            (format!("{open}&a{index} ["), format!("{close}]"))
        });
        let text = format!("{open}{}{close}", "x".repeat(400_000));
        assert_eq!(limit(&text), Some(Limit::HeldBytes));
    }

    #[test]
    fn nesting_is_limited_with_and_without_aliases() {
        let nested = |levels: usize, inner: &str| {
            format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels))
        };
        assert_eq!(limit(&nested(YAML_DEPTH, "1")), None);
        assert_eq!(limit(&nested(YAML_DEPTH + 1, "1")), Some(Limit::Depth));
        let mut text = format!("a0: &a0 {}\n", nested(20, "1"));
        for level in 1..5 {
            let below = nested(20, &format!("*a{}", level - 1));
            text += &format!("a{level}: &a{level} {below}\n");
        }
        assert_eq!(limit(&text), Some(Limit::Depth));
    }

    #[test]
    fn a_file_that_is_too_long_is_not_parsed() {
        let text = "a".repeat(YAML_BYTES + 1);
        assert_eq!(read(&text).unwrap_err(), Error::TooLong(YAML_BYTES + 1));
    }
}
