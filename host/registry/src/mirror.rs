//! Registry mirrors: prefix rewrites of references, for restricted networks.
//!
//! In: a reference from a resource. Out: the reference to request. There is no fallback to the original
//! registry: in a restricted network it would fail slowly, in an open one it would bypass the mirror.

use crate::reference::{ParseReferenceError, Reference};

/// A rewrite: references with the prefix `from` are read from `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// `registry` or `registry/path`; matches whole path components only.
    pub from: String,
    /// The replacement of `from`.
    pub to: String,
}

/// All rewrites. The longest matching prefix wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors(Vec<Mirror>);

impl Mirrors {
    /// Sorts the rewrites by prefix length. Slashes at either end are ignored.
    pub fn new(mirrors: impl IntoIterator<Item = Mirror>) -> Self {
        let trim = |text: &str| text.trim_matches('/').to_owned();
        let clean = |m: Mirror| Mirror {
            from: trim(&m.from),
            to: trim(&m.to),
        };
        let mut all: Vec<_> = mirrors.into_iter().map(clean).collect();
        all.sort_by_key(|mirror| std::cmp::Reverse(mirror.from.len()));
        Self(all)
    }

    /// These rewrites and one more.
    pub fn with(&self, mirror: Mirror) -> Self {
        Self::new(self.0.iter().cloned().chain([mirror]))
    }

    /// The reference to request.
    pub fn rewrite(&self, reference: &Reference) -> Result<Reference, ParseReferenceError> {
        let name = reference.name();
        for Mirror { from, to } in &self.0 {
            if let Some(rest) = strip_path_prefix(&name, from) {
                return reference.with_name(&format!("{to}{rest}"));
            }
        }
        Ok(reference.clone())
    }
}

/// The rest of `name` after `prefix`, if `prefix` ends at a path component.
pub(crate) fn strip_path_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrors(pairs: &[(&str, &str)]) -> Mirrors {
        let mirror = |(from, to): &(&str, &str)| Mirror {
            from: (*from).into(),
            to: (*to).into(),
        };
        Mirrors::new(pairs.iter().map(mirror))
    }

    fn rewritten(mirrors: &Mirrors, text: &str) -> String {
        mirrors.rewrite(&text.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn the_longest_prefix_wins_in_any_order() {
        let rules = mirrors(&[
            ("docker.io", "mirror.local:5000/hub"),
            ("docker.io/llamastack/", "mirror.local:5000/stack"),
        ]);
        assert_eq!(
            rewritten(&rules, "nginx:1"),
            "mirror.local:5000/hub/library/nginx:1"
        );
        assert_eq!(
            rewritten(&rules, "llamastack/starter:2"),
            "mirror.local:5000/stack/starter:2"
        );
        assert_eq!(rewritten(&rules, "ghcr.io/a/b:3"), "ghcr.io/a/b:3");
    }

    #[test]
    fn a_prefix_ends_at_a_slash() {
        let rules = mirrors(&[("ghcr.io/acme", "m.local/acme")]);
        assert_eq!(
            rewritten(&rules, "ghcr.io/acme-evil/x:1"),
            "ghcr.io/acme-evil/x:1"
        );
    }

    #[test]
    fn the_digest_survives_the_rewrite() {
        let rules = mirrors(&[("ghcr.io", "m.local")]);
        let digest = crate::Digest::of(b"x");
        let pinned = format!("ghcr.io/a@{digest}");
        assert_eq!(rewritten(&rules, &pinned), format!("m.local/a@{digest}"));
    }

    #[test]
    fn an_invalid_rewrite_is_an_error() {
        let rules = mirrors(&[("ghcr.io", "https://m.local")]);
        assert!(rules.rewrite(&"ghcr.io/a:1".parse().unwrap()).is_err());
    }
}
