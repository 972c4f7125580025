//! Where the fields of a YAML file are, so that a problem can be shown at its field.
//!
//! In: the text of a file. Out: for each field path the range of characters to mark. Nothing is
//! resolved: a value behind an alias or a merge key has no position of its own, and neither has a field
//! that is missing. Both are marked at the nearest field above them.
//!
//! The memory is proportional to the text: positions are a tree, not a list of paths.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, Span};

/// A range of a text. Lines and columns start at 1; columns and offsets count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRange {
    /// Line of the first character.
    pub line: usize,
    /// Column of the first character.
    pub column: usize,
    /// Offset of the first character.
    pub start: usize,
    /// Offset after the last character.
    pub end: usize,
}

/// The positions of all fields of a file.
#[derive(Debug, Default)]
pub struct Positions {
    nodes: Vec<Node>,
    documents: Vec<Document>,
}

/// One step of a field path.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

#[derive(Debug, Default)]
struct Node {
    range: Option<TextRange>,
    entries: BTreeMap<String, usize>,
    items: Vec<usize>,
}

#[derive(Debug)]
struct Document {
    root: usize,
    kind: Option<String>,
}

/// A collection that is being read.
struct Open {
    node: usize,
    /// The key of a mapping, before its value is read; `None` in a list, or before a key.
    key: Option<(String, Span)>,
    is_mapping: bool,
    /// Collections inside a key, which have no path.
    is_ignored: bool,
}

impl Positions {
    /// Finds the fields of every document. The rest of a file that is not valid YAML has no positions.
    pub fn of(text: &str) -> Self {
        let mut reader = Reader {
            positions: Self::default(),
            open: Vec::new(),
        };
        for event in Parser::new_from_str(text) {
            let Ok((event, span)) = event else { break };
            reader.read_event(event, span);
        }
        reader.positions
    }

    /// The range of a field in the first document of a kind, or in the first document. A field that has
    /// no position is marked at the nearest field above it; `None` if there is none.
    pub fn find(&self, kind: &str, path: &str) -> Option<TextRange> {
        let of_kind = |document: &&Document| document.kind.as_deref() == Some(kind);
        let mut documents = self.documents.iter();
        let document = documents.find(of_kind).or(self.documents.first())?;
        let mut node = self.nodes.get(document.root)?;
        let mut range = None;
        for step in steps(path) {
            let below = match &step {
                Step::Field(name) => node.entries.get(name),
                Step::Item(index) => node.items.get(*index),
            };
            let Some(found) = below.and_then(|below| self.nodes.get(*below)) else {
                break;
            };
            node = found;
            range = node.range.or(range);
        }
        range
    }
}

struct Reader {
    positions: Positions,
    open: Vec<Open>,
}

impl Reader {
    fn read_event(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::Scalar(text, ..) => self.read_scalar(&text, span),
            // Nothing below an alias has a position.
            Event::Alias(_) => self.read_scalar("", span),
            Event::MappingStart(..) => self.enter(span, true),
            Event::SequenceStart(..) => self.enter(span, false),
            Event::MappingEnd | Event::SequenceEnd => self.leave(span),
            _ => {}
        }
    }

    fn read_scalar(&mut self, text: &str, span: Span) {
        let is_top_level = self.open.len() == 1;
        match self.open.last_mut() {
            Some(open) if open.is_mapping && open.key.is_none() => {
                open.key = Some((text.to_owned(), span));
            }
            open => {
                let is_kind = is_top_level
                    && open.is_some_and(|open| {
                        open.key.as_ref().is_some_and(|(key, _)| key == "kind")
                    });
                if is_kind && let Some(document) = self.positions.documents.last_mut() {
                    document.kind = Some(text.to_owned());
                }
                self.add(span, !text.is_empty());
                self.end_value();
            }
        }
    }

    /// Adds a collection. One inside a key is skipped, with everything below it.
    fn enter(&mut self, span: Span, is_mapping: bool) {
        let is_ignored = self
            .open
            .last()
            .is_some_and(|open| open.is_ignored || (open.is_mapping && open.key.is_none()));
        let node = if is_ignored { 0 } else { self.add(span, false) };
        self.open.push(Open {
            node,
            key: None,
            is_mapping,
            is_ignored,
        });
    }

    /// Ends a collection. One inside a key is the key of the next value, which no path names.
    fn leave(&mut self, span: Span) {
        let is_key = self.open.pop().is_some_and(|ended| ended.is_ignored);
        match self.open.last_mut() {
            Some(open) if is_key && !open.is_ignored => open.key = Some((String::new(), span)),
            _ => self.end_value(),
        }
    }

    /// Adds a value below the innermost collection.
    fn add(&mut self, span: Span, is_scalar: bool) -> usize {
        let new = self.positions.nodes.len();
        let range = match self.open.last() {
            Some(open) if open.is_ignored => return 0,
            Some(Open {
                key: Some((_, key)),
                ..
            }) => entry_range(*key, span, is_scalar),
            _ => range(span.start, if is_scalar { span.end } else { span.start }),
        };
        self.positions.nodes.push(Node {
            range: Some(range),
            ..Node::default()
        });
        let Some(open) = self.open.last() else {
            // The whole document. A problem of all of it is marked at its first field.
            self.positions.documents.push(Document {
                root: new,
                kind: None,
            });
            return new;
        };
        let (parent, key) = (open.node, open.key.as_ref().map(|(key, _)| key.clone()));
        if let Some(parent) = self.positions.nodes.get_mut(parent) {
            match key {
                Some(key) => {
                    parent.entries.insert(key, new);
                }
                None if !open.is_mapping => parent.items.push(new),
                None => {}
            }
        }
        new
    }

    /// The next scalar of the innermost mapping is a key again.
    fn end_value(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.key = None;
        }
    }
}

/// What to mark for an entry of a mapping: the key, and the value if it is a scalar of the same line.
fn entry_range(key: Span, value: Span, is_scalar: bool) -> TextRange {
    let is_same_line = value.start.line() == key.start.line() && value.end.line() == key.end.line();
    match is_scalar && is_same_line && value.end.index() > key.end.index() {
        true => range(key.start, value.end),
        false => range(key.start, key.end),
    }
}

fn range(start: Marker, end: Marker) -> TextRange {
    TextRange {
        line: start.line(),
        column: start.col() + 1,
        start: start.index(),
        // An empty range could not be seen.
        end: end.index().max(start.index() + 1),
    }
}

/// The steps of a path, as [`FieldPath`](llsd_api::FieldPath) prints them. A path of a plugin may be
/// anything: what cannot be read ends it.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let step = if let Some(quoted) = rest.strip_prefix("[\"") {
            unquoted(quoted).map(|(name, after)| (Step::Field(name), after))
        } else if let Some(index) = rest.strip_prefix('[') {
            index
                .split_once(']')
                .and_then(|(index, after)| Some((Step::Item(index.parse().ok()?), after)))
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, after) = name.split_at(end);
            (!name.is_empty()).then(|| (Step::Field(name.to_owned()), after))
        };
        let Some((step, after)) = step else { break };
        steps.push(step);
        rest = after;
    }
    steps
}

/// The string that ends with `"]`, and what follows it. Escapes are those of Rust's `Debug`.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, text[at + 1..].strip_prefix(']')?)),
            '\\' => match chars.next()?.1 {
                'n' => name.push('\n'),
                't' => name.push('\t'),
                'r' => name.push('\r'),
                '0' => name.push('\0'),
                'u' => {
                    let digits: String = chars
                        .by_ref()
                        .map(|(_, c)| c)
                        .skip(1)
                        .take_while(|c| *c != '}')
                        .collect();
                    name.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => name.push(other),
            },
            other => name.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use llsd_api::FieldPath;

    const FILE: &str = "\
# A comment
kind: ConfigMap
---
kind: Resource
metadata: {name: a, labels: {\"x.y/z\": é, w: 1}}
spec:
  list:
  - name: one
    deep:
      key: 5
  - two
  - [three, {four: 4}]
  empty:
";

    /// The marked text, and its line and column.
    fn marked(path: &str) -> Option<(String, usize, usize)> {
        let range = Positions::of(FILE).find("Resource", path)?;
        let text = FILE.chars().skip(range.start).take(range.end - range.start);
        Some((text.collect(), range.line, range.column))
    }

    #[test]
    fn every_field_is_found_in_the_document_of_its_kind() {
        for (path, text, line, column) in [
            ("kind", "kind: Resource", 4, 1),
            ("metadata.name", "name: a", 5, 12),
            ("metadata.labels", "labels", 5, 21),
            ("spec", "spec", 6, 1),
            ("spec.list[0]", "n", 8, 5),
            ("spec.list[0].name", "name: one", 8, 5),
            ("spec.list[0].deep.key", "key: 5", 10, 7),
            ("spec.list[1]", "two", 11, 5),
            ("spec.list[2][0]", "three", 12, 6),
            ("spec.list[2][1].four", "four: 4", 12, 14),
            ("spec.empty", "empty", 13, 3),
        ] {
            assert_eq!(
                marked(path),
                Some((text.to_owned(), line, column)),
                "{path}"
            );
        }
        let quoted = FieldPath::from("metadata.labels").field("x.y/z");
        assert_eq!(
            marked(quoted.as_str()),
            Some(("\"x.y/z\": é".to_owned(), 5, 30))
        );
        // After a character of two bytes.
        assert_eq!(
            marked("metadata.labels.w"),
            Some(("w: 1".to_owned(), 5, 42))
        );
    }

    #[test]
    fn a_missing_field_is_marked_at_the_nearest_field_above_it() {
        for (path, text) in [
            ("spec.providers.inference[3].id", "spec"),
            ("spec.list[0].deep.other", "deep"),
            ("spec.list[9]", "list"),
            ("spec.list[1].name", "two"),
            ("spec.list[x].name", "list"),
        ] {
            assert_eq!(
                marked(path).map(|one| one.0).as_deref(),
                Some(text),
                "{path}"
            );
        }
        assert_eq!(marked("status"), None);
        assert_eq!(marked(""), None);
    }

    #[test]
    fn every_name_that_a_path_quotes_is_read_back() {
        for name in [
            "a.b",
            "",
            "a\"]b",
            "x\\y",
            "tab\there",
            "line\nbreak",
            "é.\u{7f}",
            "[0]",
        ] {
            let path = FieldPath::spec().field(name).field("next");
            let expected = [
                Step::Field("spec".to_owned()),
                Step::Field(name.to_owned()),
                Step::Field("next".to_owned()),
            ];
            assert_eq!(steps(path.as_str()), expected, "{name:?}");
        }
    }

    #[test]
    fn unusual_files_have_positions_as_far_as_they_are_valid() {
        let at = |text: &str, path: &str| Positions::of(text).find("any", path).map(|r| r.line);
        assert_eq!(at("", "spec"), None);
        assert_eq!(at("- 1", "spec"), None);
        assert_eq!(at("a: 1\nb: [1\nc: }", "a"), Some(1));
        assert_eq!(at("? [x, {y: z}]\n: 1\nafter: 2", "after"), Some(3));
        assert_eq!(at("a: &x {k: 1}\nb: *x\nc: 1", "b.k"), Some(2));
        assert_eq!(at("a: &x {k: 1}\nb: *x\nc: 1", "c"), Some(3));
        let nested = "[".repeat(1_000_000);
        assert_eq!(at(&nested, "a"), None);
    }
}
