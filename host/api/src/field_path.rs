//! Field paths: `spec.providers.inference[1].id`.
//!
//! A path is built from field names and list indexes and printed the way users write it. Paths sort
//! with `[2]` before `[10]`.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A field of a resource, for example `spec.providers.inference[1].endpoint`, or the base
/// configuration as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct FieldPath {
    path: String,
    #[serde(default)]
    document: Document,
}

/// The document that a path belongs to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
enum Document {
    #[default]
    Resource,
    BaseConfig,
}

impl FieldPath {
    /// The whole resource: an empty path, from which [`Self::field`] builds others.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path `spec`.
    pub fn spec() -> Self {
        Self::from("spec")
    }

    /// The base configuration as a whole. Its path is empty, too, but it is printed by its name.
    pub fn base_config() -> Self {
        Self {
            path: String::new(),
            document: Document::BaseConfig,
        }
    }

    /// The field `name` below this path. A name with characters other than letters, digits, `_` and
    /// `-` is quoted in brackets.
    pub fn field(&self, name: &str) -> Self {
        let plain = name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        if name.is_empty() || !plain {
            self.with(format!("{}[{name:?}]", self.path))
        } else if self.path.is_empty() {
            self.with(name.to_owned())
        } else {
            self.with(format!("{}.{name}", self.path))
        }
    }

    /// Several nested fields: `spec.at(&["storage", "kv"])`.
    pub fn at(&self, names: &[&str]) -> Self {
        names
            .iter()
            .fold(self.clone(), |path, name| path.field(name))
    }

    /// The list item `position` below this path.
    pub fn index(&self, position: usize) -> Self {
        self.with(format!("{}[{position}]", self.path))
    }

    /// The path as a string; empty for a whole document.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// Whether `other` is this field or below it.
    pub fn contains(&self, other: &Self) -> bool {
        self.document == other.document
            && match other.path.strip_prefix(&self.path) {
                Some(rest) => {
                    rest.is_empty() || self.path.is_empty() || rest.starts_with(['.', '['])
                }
                None => false,
            }
    }

    fn with(&self, path: String) -> Self {
        Self {
            path,
            document: self.document,
        }
    }
}

/// A path of the resource that is already written out. The syntax is not checked.
impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        Self::from(path.to_owned())
    }
}

impl From<String> for FieldPath {
    fn from(path: String) -> Self {
        Self {
            path,
            document: Document::Resource,
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.path.as_str(), self.document) {
            ("", Document::Resource) => "resource",
            ("", Document::BaseConfig) => "base configuration",
            (path, _) => path,
        })
    }
}

impl Ord for FieldPath {
    fn cmp(&self, other: &Self) -> Ordering {
        pieces(&self.path)
            .cmp(pieces(&other.path))
            .then_with(|| self.path.cmp(&other.path))
            .then_with(|| self.document.cmp(&other.document))
    }
}

impl PartialOrd for FieldPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> Self {
        path.path
    }
}

/// Runs of digits compare as numbers, everything else as strings.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece<'a> {
    Number(u128),
    Text(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let digits = first.is_ascii_digit();
        let end = rest
            .find(|c: char| c.is_ascii_digit() != digits)
            .unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        // A run of digits that overflows u128 compares as a string.
        Some(piece.parse().map_or(Piece::Text(piece), Piece::Number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_sort_as_numbers() {
        let list = FieldPath::spec().field("list");
        let mut paths = [
            list.index(10),
            list.index(2).field("b"),
            list.index(2),
            FieldPath::spec(),
        ];
        paths.sort();
        let texts: Vec<_> = paths.iter().map(FieldPath::as_str).collect();
        assert_eq!(
            texts,
            ["spec", "spec.list[2]", "spec.list[2].b", "spec.list[10]"]
        );
    }

    #[test]
    fn names_with_special_characters_are_quoted() {
        let path = FieldPath::spec().field("a.b").field("c").field("");
        assert_eq!(path.as_str(), r#"spec["a.b"].c[""]"#);
        assert_eq!(FieldPath::root().field("spec"), FieldPath::spec());
        assert_eq!(FieldPath::root().to_string(), "resource");
        assert_eq!(FieldPath::base_config().to_string(), "base configuration");
        assert_eq!(FieldPath::base_config().as_str(), "");
        assert_ne!(FieldPath::base_config(), FieldPath::root());
        assert_eq!(String::from(FieldPath::spec()), "spec");
    }

    #[test]
    fn a_path_contains_itself_and_fields_below_it_but_not_longer_names() {
        let kv = FieldPath::spec().at(&["storage", "kv"]);
        assert!(kv.contains(&kv));
        assert!(kv.contains(&kv.field("type")));
        assert!(kv.contains(&kv.index(0)));
        assert!(!kv.contains(&FieldPath::spec().at(&["storage", "kvx"])));
        assert!(!kv.contains(&FieldPath::spec()));
        assert!(FieldPath::root().contains(&kv));
        assert!(!FieldPath::base_config().contains(&kv));
    }
}
