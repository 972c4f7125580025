//! Which plugins may be loaded, and on what terms. Default is deny; the longest prefix decides.

use crate::mirror::under_prefix;
use crate::reference::Reference;
use crate::signature::Verification;

/// 4 MiB: three times the largest adapter we ship.
const DEFAULT_MAX_BYTES: u64 = 4 << 20;

/// The terms for everything under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `registry`, `registry/path` or `registry/path/repository`, compared by whole path components with
    /// the reference as it was written, before any mirror.
    pub prefix: String,
    /// Whether tags are refused.
    pub require_digest: bool,
    /// The largest component.
    pub max_bytes: u64,
    /// Whose signatures are wanted.
    pub verification: Verification,
}

impl Rule {
    /// Tags allowed, default size.
    pub fn new(prefix: impl Into<String>, verification: Verification) -> Self {
        let max_bytes = DEFAULT_MAX_BYTES;
        Self {
            prefix: prefix.into(),
            require_digest: false,
            max_bytes,
            verification,
        }
    }
}

/// All rules of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// In any order.
    pub rules: Vec<Rule>,
}

/// Why a reference may not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No rule allows it.
    #[error(
        "no rule allows plugins from {name}; ask the cluster's administrator to add a rule for a prefix of it"
    )]
    NoRule {
        /// Registry and repository.
        name: String,
    },
    /// The rule wants a digest.
    #[error(
        "the rule for {prefix} accepts digests only; write the reference as repository@sha256:…"
    )]
    DigestWanted {
        /// The rule's prefix.
        prefix: String,
    },
    /// It is larger than the rule allows.
    #[error("the component has {size} bytes and the rule for {prefix} allows {limit}")]
    TooLarge {
        /// The rule's prefix.
        prefix: String,
        /// From the manifest.
        size: u64,
        /// The rule's limit.
        limit: u64,
    },
}

impl Policy {
    /// The rule for a reference.
    pub fn admit(&self, reference: &Reference) -> Result<&Rule, Denied> {
        let name = reference.name();
        let matching = self
            .rules
            .iter()
            .filter(|rule| under_prefix(&name, rule.prefix.trim_end_matches('/')).is_some());
        let rule = matching.max_by_key(|rule| rule.prefix.trim_end_matches('/').len());
        let rule = rule.ok_or(Denied::NoRule { name })?;
        if rule.require_digest && reference.digest().is_none() {
            return Err(Denied::DigestWanted {
                prefix: rule.prefix.clone(),
            });
        }
        Ok(rule)
    }
}

impl Rule {
    pub(crate) fn admit_size(&self, size: u64) -> Result<(), Denied> {
        match size > self.max_bytes {
            true => {
                let Self {
                    prefix, max_bytes, ..
                } = self;
                Err(Denied::TooLarge {
                    prefix: prefix.clone(),
                    size,
                    limit: *max_bytes,
                })
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_by_default_and_the_longest_prefix_decides() {
        let reference: Reference = "ghcr.io/acme/adapters/x:1".parse().unwrap();
        assert!(matches!(
            Policy::default().admit(&reference),
            Err(Denied::NoRule { .. })
        ));
        let rule = |prefix: &str, max_bytes| Rule {
            max_bytes,
            ..Rule::new(prefix, Verification::skip())
        };
        let policy = Policy {
            rules: vec![
                rule("ghcr.io/acme/", 1),
                rule("ghcr.io/acme/adapters", 2),
                rule("ghcr.io/ac", 3),
            ],
        };
        assert_eq!(policy.admit(&reference).unwrap().max_bytes, 2);
        assert_eq!(
            policy
                .admit(&"ghcr.io/acme/y:1".parse().unwrap())
                .unwrap()
                .max_bytes,
            1
        );
        assert!(
            policy
                .admit(&"ghcr.io/acme-evil/y:1".parse().unwrap())
                .is_err()
        );
    }

    #[test]
    fn a_rule_may_insist_on_digests() {
        let mut rule = Rule::new("ghcr.io", Verification::skip());
        rule.require_digest = true;
        let policy = Policy { rules: vec![rule] };
        let tagged: Reference = "ghcr.io/a:1".parse().unwrap();
        assert!(matches!(
            policy.admit(&tagged),
            Err(Denied::DigestWanted { .. })
        ));
        assert!(policy.admit(&tagged.at(&crate::Digest::of(b"x"))).is_ok());
    }
}
