//! Changes single values in a YAML file and leaves everything else, comments included, as it is.
//!
//! In: the text of a file, the place of a document in it, and the edits. Out: the text with the edits.
//! The result is read again and compared with the edited value, so that a form of YAML that this module
//! does not understand is an error and never a damaged file.

use std::ops::Range;

use granit_parser::{Event, Parser};
use serde_json::Value;

/// A change of one string in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Keys, and places in lists, from the root of the document.
    path: Vec<String>,
    /// The new name of the last key, if it changes.
    key: Option<String>,
    /// The new value.
    value: String,
}

/// Why a file cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// The file is not valid YAML.
    #[error("line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    /// The file has no such document, or the document has no such field.
    #[error("{0}: not found in the file; edit it by hand")]
    NotFound(String),
    /// The file is written in a form that cannot be edited safely.
    #[error("the file uses a form of YAML that cannot be edited automatically; edit it by hand")]
    Unsupported,
}

impl Edit {
    /// Sets a value. A key that does not exist is added to its mapping.
    pub(crate) fn set(path: Vec<String>, value: &str) -> Self {
        Self {
            path,
            key: None,
            value: value.to_owned(),
        }
    }

    /// Replaces a key and its value.
    pub(crate) fn replace(path: Vec<String>, key: &str, value: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..Self::set(path, value)
        }
    }

    /// The field after the edit: `spec.distribution.image`.
    pub(crate) fn field(&self) -> String {
        let mut path = self.path.clone();
        if let (Some(key), Some(last)) = (&self.key, path.last_mut()) {
            last.clone_from(key);
        }
        let mut field = String::new();
        for step in path {
            if step.bytes().all(|byte| byte.is_ascii_digit()) {
                field += &format!("[{step}]");
            } else if field.is_empty() {
                field = step;
            } else {
                field += &format!(".{step}");
            }
        }
        field
    }

    /// The same change at the path that `translate` returns for its field.
    pub(crate) fn at_path(&self, translate: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let unchanged = Self {
            key: None,
            ..self.clone()
        };
        let path = translate(&unchanged.field())?;
        let steps = path
            .split(['.', '['])
            .map(|step| step.trim_end_matches(']').to_owned());
        Some(Self {
            path: steps.collect(),
            ..self.clone()
        })
    }

    /// The new value.
    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// Makes the change in a document.
    pub(crate) fn apply(&self, document: &mut Value) {
        let Some((last, parents)) = self.path.split_last() else {
            return;
        };
        let parent = parents
            .iter()
            .try_fold(document, |value, step| match value {
                Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?),
                Value::Object(map) => map.get_mut(step),
                _ => None,
            });
        let Some(Value::Object(parent)) = parent else {
            return;
        };
        let value = Value::String(self.value.clone());
        match &self.key {
            Some(key) => {
                parent.shift_remove(last);
                parent.insert(key.clone(), value);
            }
            None => {
                parent.insert(last.clone(), value);
            }
        }
    }
}

/// Makes the edits in one document of a file. `document` counts the documents that are not empty.
pub(crate) fn apply(text: &str, document: usize, edits: &[Edit]) -> Result<String, EditError> {
    let mut result = text.to_owned();
    for edit in edits {
        // Each edit moves what follows it, so the text is parsed again.
        result = apply_one(&result, document, edit)?;
    }
    let read = |text: &str| -> Result<Vec<Value>, EditError> {
        let all: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|_| EditError::Unsupported)?;
        Ok(all.into_iter().filter(|one| !one.is_null()).collect())
    };
    let mut expected = read(text)?;
    let edited = expected.get_mut(document).ok_or(EditError::Unsupported)?;
    edits.iter().for_each(|edit| edit.apply(edited));
    if read(&result)? == expected {
        Ok(result)
    } else {
        Err(EditError::Unsupported)
    }
}

fn apply_one(text: &str, document: usize, edit: &Edit) -> Result<String, EditError> {
    let missing = || EditError::NotFound(edit.field());
    let documents = parse(text)?;
    let root = documents.get(document).ok_or_else(missing)?;
    let (last, parents) = edit.path.split_last().ok_or_else(missing)?;
    let parent = parents
        .iter()
        .try_fold(root, |node, step| node.child(step))
        .ok_or_else(missing)?;
    let Content::Map { entries, is_flow } = &parent.content else {
        return Err(missing());
    };
    let found = entries.iter().find(|(key, _)| key.is_scalar(last));
    let mut result = text.to_owned();
    match found {
        Some((key, value)) => {
            if !matches!(value.content, Content::Scalar(_)) {
                return Err(EditError::Unsupported);
            }
            result.replace_range(value.range.clone(), &scalar(&edit.value));
            if let Some(new) = &edit.key {
                result.replace_range(key.range.clone(), &scalar(new));
            }
        }
        None => {
            let (first, _) = entries.first().ok_or(EditError::Unsupported)?;
            let entry = format!("{}: {}", scalar(last), scalar(&edit.value));
            let separator = if *is_flow {
                ", ".to_owned()
            } else {
                format!("\n{}", " ".repeat(column(text, first.range.start)))
            };
            result.insert_str(first.range.start, &(entry + &separator));
        }
    }
    Ok(result)
}

/// Characters between the start of the line and a place.
fn column(text: &str, place: usize) -> usize {
    let line = text[..place].rfind('\n').map_or(0, |end| end + 1);
    text[line..place].chars().count()
}

/// A string as YAML: plain where every reader takes it for a string, quoted otherwise.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/@:-".contains(c);
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_plain)
        && !text.ends_with(':')
        && text.contains(['/', '-', ':', '_'])
        || ["name", "image", "schema", "starter"].contains(&text);
    if is_name {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

struct Node {
    content: Content,
    range: Range<usize>,
}

enum Content {
    Scalar(String),
    List(Vec<Node>),
    Map {
        entries: Vec<(Node, Node)>,
        is_flow: bool,
    },
    /// An alias, which stands for a value elsewhere.
    Alias,
}

impl Node {
    fn is_scalar(&self, text: &str) -> bool {
        matches!(&self.content, Content::Scalar(value) if value == text)
    }

    fn child(&self, step: &str) -> Option<&Self> {
        match &self.content {
            Content::List(items) => items.get(step.parse::<usize>().ok()?),
            Content::Map { entries, .. } => entries
                .iter()
                .find(|(key, _)| key.is_scalar(step))
                .map(|(_, value)| value),
            Content::Scalar(_) | Content::Alias => None,
        }
    }
}

/// A collection whose end was not met yet.
struct Open {
    children: Vec<Node>,
    is_map: bool,
    start: usize,
}

/// The documents that are not empty.
fn parse(text: &str) -> Result<Vec<Node>, EditError> {
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| EditError::Syntax {
            line: error.marker().line(),
            problem: error.info().to_owned(),
        })?;
        let range = span.byte_range().unwrap_or_default();
        let node = match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                open.push(Open {
                    children: Vec::new(),
                    is_map: matches!(event, Event::MappingStart(..)),
                    start: range.start,
                });
                continue;
            }
            Event::Scalar(value, ..) => Node {
                content: Content::Scalar(value.into_owned()),
                range,
            },
            Event::Alias(_) => Node {
                content: Content::Alias,
                range,
            },
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = open.pop() else { continue };
                close(done, range.end, text)
            }
            _ => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.children.push(node),
            // An empty document is a null without text.
            None if node.range.is_empty() => {}
            None => documents.push(node),
        }
    }
    Ok(documents)
}

fn close(done: Open, end: usize, text: &str) -> Node {
    let Open {
        children,
        is_map,
        start,
    } = done;
    let content = if is_map {
        let mut entries = Vec::new();
        let mut children = children.into_iter();
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            entries.push((key, value));
        }
        Content::Map {
            entries,
            is_flow: text[start..].starts_with('{'),
        }
    } else {
        Content::List(children)
    };
    Node {
        content,
        range: start..end.max(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# first
apiVersion: v1   # kept
kind: ConfigMap
---
# second, with 'quotes' and ünïcode
spec:
  distribution:
    name: starter   # the name
  providers:
    agents:
    - id: a
      provider: inline::meta-reference
---
spec: {distribution: {name: \"starter\"}, disabled: [eval]}
";

    fn at(path: &[&str]) -> Vec<String> {
        path.iter().map(|step| (*step).to_owned()).collect()
    }

    #[test]
    fn values_and_keys_change_and_comments_stay() {
        let edits = [
            Edit::replace(
                at(&["spec", "distribution", "name"]),
                "image",
                "quay.io/a/b:1.0",
            ),
            Edit::set(at(&["spec", "distribution", "schema"]), "ogx/1.0"),
            Edit::set(
                at(&["spec", "providers", "agents", "0", "provider"]),
                "inline::builtin",
            ),
        ];
        let expected = FILE
            .replace(
                "    name: starter   # the name",
                "    schema: ogx/1.0\n    image: quay.io/a/b:1.0   # the name",
            )
            .replace("inline::meta-reference", "inline::builtin");
        assert_eq!(apply(FILE, 1, &edits).unwrap(), expected);
    }

    #[test]
    fn flow_mappings_are_edited_in_place() {
        let edits = [
            Edit::set(at(&["spec", "distribution", "name"]), "ogx-starter"),
            Edit::set(at(&["spec", "distribution", "schema"]), "ogx/1.0"),
        ];
        let edited = apply(FILE, 2, &edits).unwrap();
        assert!(
            edited.ends_with(
                "spec: {distribution: {schema: ogx/1.0, name: ogx-starter}, disabled: [eval]}\n"
            ),
            "{edited}"
        );
    }

    #[test]
    fn a_value_that_reads_as_something_else_is_quoted() {
        for (value, written) in [
            ("yes", "\"yes\""),
            ("1.0", "\"1.0\""),
            ("a: b", "\"a: b\""),
            ("ogx/1.0", "ogx/1.0"),
        ] {
            let edit = [Edit::set(at(&["a"]), value)];
            assert_eq!(
                apply("a: x # c\n", 0, &edit).unwrap(),
                format!("a: {written} # c\n")
            );
        }
    }

    #[test]
    fn what_cannot_be_edited_safely_is_an_error() {
        let edit = [Edit::set(at(&["spec", "a"]), "x")];
        // The alias would be changed in both places.
        for text in [
            "b: &x {a: 1}\nspec: *x\n",
            "spec: []\n",
            "spec: {}\n",
            "other: 1\n",
            "spec:\n  a: {b: 1}\n",
        ] {
            assert!(apply(text, 0, &edit).is_err(), "{text}");
        }
        assert!(apply(FILE, 9, &edit).is_err());
    }

    #[test]
    fn an_edit_moves_to_the_path_of_another_version() {
        let edit = Edit::replace(at(&["spec", "distribution", "name"]), "image", "x");
        let moved = edit.at_path(&|field| {
            field
                .strip_prefix("spec.")
                .map(|rest| format!("spec.server.{rest}"))
        });
        assert_eq!(moved.unwrap().field(), "spec.server.distribution.image");
        assert!(edit.at_path(&|_| None).is_none());
    }

    #[test]
    fn a_field_is_printed_as_users_write_it() {
        let edit = Edit::set(at(&["spec", "providers", "agents", "0", "provider"]), "x");
        assert_eq!(edit.field(), "spec.providers.agents[0].provider");
        let edit = Edit::replace(at(&["spec", "distribution", "name"]), "image", "x");
        assert_eq!(edit.field(), "spec.distribution.image");
    }
}
