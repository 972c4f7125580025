//! The plugin policy: which plugins may be loaded. Default is deny; the rule with the longest prefix
//! applies.

use crate::mirror::strip_path_prefix;
use crate::reference::Reference;
use crate::signature::Verification;

/// 4 MiB: three times the size of the largest built-in adapter.
const DEFAULT_MAX_BYTES: u64 = 4 << 20;

/// The rule for plugins with one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `registry`, `registry/path` or `registry/path/repository`, compared by whole path components with
    /// the reference in the resource, before the mirror rewrite.
    pub prefix: String,
    /// Whether tags are refused.
    pub require_digest: bool,
    /// The size limit of a component.
    pub max_bytes: u64,
    /// The required signatures.
    pub verification: Verification,
}

impl Rule {
    /// A rule that allows tags, with the default size limit.
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

/// The rules of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The rules, in any order.
    pub rules: Vec<Rule>,
}

/// Why a plugin may not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No rule matches the reference.
    #[error(
        "no rule allows plugins from {name}; ask the cluster administrator to add a rule for a prefix of it"
    )]
    NoRule {
        /// Registry and repository.
        name: String,
    },
    /// The rule requires a digest.
    #[error("the rule for {prefix} requires a digest; write the reference as repository@sha256:…")]
    DigestRequired {
        /// The rule's prefix.
        prefix: String,
    },
    /// The component is larger than the rule allows.
    #[error(
        "the component has {size} bytes, and the rule for {prefix} allows {limit}; make it smaller, or raise \
         spec.limits.component of the SchemaPlugin (component in the file of --limits)"
    )]
    TooLarge {
        /// The rule's prefix.
        prefix: String,
        /// The size in the manifest.
        size: u64,
        /// The rule's limit.
        limit: u64,
    },
}

impl Policy {
    /// Finds the rule for a reference and checks its requirements.
    pub fn admit(&self, reference: &Reference) -> Result<&Rule, Denied> {
        let name = reference.name();
        let matching = self
            .rules
            .iter()
            .filter(|rule| strip_path_prefix(&name, rule.prefix.trim_end_matches('/')).is_some());
        let rule = matching.max_by_key(|rule| rule.prefix.trim_end_matches('/').len());
        let rule = rule.ok_or(Denied::NoRule { name })?;
        if rule.require_digest && reference.digest().is_none() {
            return Err(Denied::DigestRequired {
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
    fn nothing_is_allowed_by_default_and_the_longest_prefix_applies() {
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
    fn a_rule_may_require_digests() {
        let mut rule = Rule::new("ghcr.io", Verification::skip());
        rule.require_digest = true;
        let policy = Policy { rules: vec![rule] };
        let tagged: Reference = "ghcr.io/a:1".parse().unwrap();
        assert!(matches!(
            policy.admit(&tagged),
            Err(Denied::DigestRequired { .. })
        ));
        assert!(policy.admit(&tagged.at(&crate::Digest::of(b"x"))).is_ok());
    }
}
