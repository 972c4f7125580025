//! Where something stands in a resource, the way users write it: `spec.providers.inference[1].id`.
//!
//! In: field names and list positions. Out: one text that a user can find in the file, with an
//! order in which `[2]` comes before `[10]`.

use std::cmp::Ordering;
use std::fmt;

/// A place in a resource, for example `spec.providers.inference[1].endpoint`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FieldPath(String);

impl FieldPath {
    /// The whole resource. Its text is empty; `field` starts a path from it.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path `spec`.
    pub fn spec() -> Self {
        Self("spec".to_owned())
    }

    /// The field `name` of what stands here. A name that would be misread is quoted.
    pub fn field(&self, name: &str) -> Self {
        let plain = name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        if name.is_empty() || !plain {
            Self(format!("{}[{name:?}]", self.0))
        } else if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// Several fields in a row: `spec.at(&["storage", "kv"])`.
    pub fn at(&self, names: &[&str]) -> Self {
        names
            .iter()
            .fold(self.clone(), |path, name| path.field(name))
    }

    /// The entry `position` of the list that stands here.
    pub fn index(&self, position: usize) -> Self {
        Self(format!("{}[{position}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this place or stands somewhere below it.
    pub fn holds(&self, other: &Self) -> bool {
        match other.0.strip_prefix(&self.0) {
            Some(rest) => rest.is_empty() || self.0.is_empty() || rest.starts_with(['.', '[']),
            None => false,
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "resource"
        } else {
            &self.0
        })
    }
}

impl Ord for FieldPath {
    fn cmp(&self, other: &Self) -> Ordering {
        pieces(&self.0)
            .cmp(pieces(&other.0))
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for FieldPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> Self {
        path.0
    }
}

/// Runs of digits compare as numbers, everything else as text.
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
        // A run too long for a number is text; the final comparison of the whole path decides.
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
    fn names_that_would_be_misread_are_quoted() {
        let path = FieldPath::spec().field("a.b").field("c").field("");
        assert_eq!(path.as_str(), r#"spec["a.b"].c[""]"#);
        assert_eq!(FieldPath::root().field("spec"), FieldPath::spec());
        assert_eq!(FieldPath::root().to_string(), "resource");
        assert_eq!(String::from(FieldPath::spec()), "spec");
    }

    #[test]
    fn a_place_holds_itself_and_what_is_below_but_not_its_namesakes() {
        let kv = FieldPath::spec().at(&["storage", "kv"]);
        assert!(kv.holds(&kv));
        assert!(kv.holds(&kv.field("type")));
        assert!(kv.holds(&kv.index(0)));
        assert!(!kv.holds(&FieldPath::spec().at(&["storage", "kvx"])));
        assert!(!kv.holds(&FieldPath::spec()));
        assert!(FieldPath::root().holds(&kv));
    }
}
