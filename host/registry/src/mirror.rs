//! Prefix rewrites for closed networks.
//!
//! In: a reference as the user wrote it. Out: the reference that is really asked for. The rewrite is
//! final: there is no second try at the original address, which in a closed network would only be a
//! slow failure, and in an open one a way around the mirror.

use crate::reference::{ParseReferenceError, Reference};

/// One rewrite: references under `from` are read from `to` instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// `registry` or `registry/path`; matches whole path components only.
    pub from: String,
    /// What stands in its place.
    pub to: String,
}

/// All rewrites; the longest matching prefix wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors(Vec<Mirror>);

impl Mirrors {
    /// Takes the rewrites in any order. Slashes at the ends do not matter.
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

    /// The same rewrites and one more.
    pub fn with(&self, mirror: Mirror) -> Self {
        Self::new(self.0.iter().cloned().chain([mirror]))
    }

    /// Where the reference is read from.
    pub fn rewrite(&self, reference: &Reference) -> Result<Reference, ParseReferenceError> {
        let name = reference.name();
        for Mirror { from, to } in &self.0 {
            if let Some(rest) = under_prefix(&name, from) {
                return reference.moved_to(&format!("{to}{rest}"));
            }
        }
        Ok(reference.clone())
    }
}

/// What follows `prefix` in `name`, when `name` is the prefix or lies under it.
pub(crate) fn under_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
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
    fn the_longest_prefix_wins_whatever_the_order() {
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
    fn a_rewrite_to_nonsense_is_an_error_not_another_address() {
        let rules = mirrors(&[("ghcr.io", "https://m.local")]);
        assert!(rules.rewrite(&"ghcr.io/a:1".parse().unwrap()).is_err());
    }
}
