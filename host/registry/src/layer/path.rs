//! Paths inside a layer.

/// A normalized path inside a layer: relative, without `.`, `..` and empty components.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LayerPath(String);

impl LayerPath {
    /// Normalizes a path: `/etc/x`, `./etc/x` and `etc/x` are equal. `None` for a path with `..` or a
    /// NUL byte, and for the root.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        let is_valid = !parts.is_empty() && !parts.contains(&"..") && !text.contains('\0');
        is_valid.then(|| Self(parts.join("/")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}
