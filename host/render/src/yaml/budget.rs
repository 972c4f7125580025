//! What one YAML file may expand to.
//!
//! The sizes are estimates of the memory that [`serde_json::Value`] needs. They are charged before the
//! value is created, so a file that exceeds the budget never holds more than it.

use std::fmt;

use serde_json::Value;

use crate::limits::{YAML_DEPTH, YAML_HELD_BYTES, YAML_NODES};

/// The limit that a file exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Levels of nesting.
    Depth,
    /// Number of values.
    Nodes,
    /// Memory of all values.
    HeldBytes,
}

impl Limit {
    /// What the author of the file can do.
    pub(super) fn fix(self) -> &'static str {
        match self {
            Self::Depth => "nest its values less deeply",
            Self::Nodes => "use fewer values, or fewer aliases",
            Self::HeldBytes => "use fewer aliases, or shorter strings in what they repeat",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depth => write!(f, "{YAML_DEPTH} levels of nesting"),
            Self::Nodes => write!(f, "{YAML_NODES} values"),
            Self::HeldBytes => write!(f, "{YAML_HELD_BYTES} bytes in memory"),
        }
    }
}

/// The size of one value with everything in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    depth: usize,
    nodes: usize,
    bytes: usize,
}

/// Bytes of a value besides its string, with its place in a collection that has spare capacity.
const NODE_BYTES: usize = 2 * size_of::<Value>();

/// Bytes of a key besides its string: the string's own place, its hash and its place in the index.
const KEY_BYTES: usize = NODE_BYTES;

impl Size {
    /// A list or mapping without its content, which is charged value by value.
    pub(super) const COLLECTION: Self = Self {
        depth: 1,
        nodes: 1,
        bytes: NODE_BYTES,
    };

    /// A scalar or a key.
    pub(super) fn scalar(text: &str) -> Self {
        Self {
            depth: 0,
            nodes: 1,
            bytes: NODE_BYTES + text.len(),
        }
    }

    /// A complete value, whose depth is limited already.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::scalar(""),
            Value::String(text) => Self::scalar(text),
            Value::Array(items) => Self::COLLECTION.around(items.iter().map(Self::of)),
            Value::Object(entries) => {
                Self::COLLECTION.around(entries.iter().map(|(key, value)| {
                    let Self {
                        depth,
                        nodes,
                        bytes,
                    } = Self::of(value);
                    Self {
                        depth,
                        nodes: nodes + 1,
                        bytes: bytes + KEY_BYTES + key.len(),
                    }
                }))
            }
        }
    }

    /// The size of a collection with these values in it.
    fn around(self, values: impl Iterator<Item = Self>) -> Self {
        values.fold(self, |all, one| Self {
            depth: all.depth.max(one.depth + 1),
            nodes: all.nodes + one.nodes,
            bytes: all.bytes + one.bytes,
        })
    }
}

/// What is left for one file.
pub(super) struct Budget {
    nodes: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            nodes: YAML_NODES,
            bytes: YAML_HELD_BYTES,
        }
    }
}

impl Budget {
    /// Charges a value at this depth, before it is created.
    pub(super) fn charge(&mut self, size: Size, depth: usize) -> Result<(), Limit> {
        if depth + size.depth > YAML_DEPTH {
            return Err(Limit::Depth);
        }
        self.nodes = self.nodes.checked_sub(size.nodes).ok_or(Limit::Nodes)?;
        self.bytes = self.bytes.checked_sub(size.bytes).ok_or(Limit::HeldBytes)?;
        Ok(())
    }
}
