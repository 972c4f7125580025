//! Identities of signers, as certificates of keyless signatures name them.
//!
//! In: what a rule trusts. Out: whether a certified signer is one of them. A signer is recorded as
//! `subject (issuer)`, and an identity recognizes that form, so that a recorded signer can be compared with
//! the identities of today without the certificate.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Limit of a compiled regular expression. Those of real identities have a few kilobytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A trusted signer: the issuer that authenticated it, and its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    issuer: String,
    subject: Subject,
}

#[derive(Clone)]
enum Subject {
    Exact(String),
    /// Must match the whole subject.
    Pattern {
        /// As it was written.
        text: String,
        anchored: Regex,
    },
}

/// Why an identity is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The issuer is empty or has spaces.
    #[error(
        "{0:?} is not the URL of an issuer; use the issuer of the signer's token, such as https://token.actions.githubusercontent.com"
    )]
    Issuer(String),
    /// The subject is empty.
    #[error(
        "the subject is empty; use the e-mail address or the URL of the workflow that signs, which cosign verify prints"
    )]
    Subject,
    /// The regular expression is invalid, or too large when compiled.
    #[error("{pattern:?} is not a valid regular expression: {problem}")]
    Pattern {
        /// As it was written.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A signer that a verified certificate names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertifiedSigner {
    /// The issuer of the token with which the certificate was requested.
    pub(crate) issuer: String,
    /// The e-mail address or URL in the certificate.
    pub(crate) subject: String,
}

impl Identity {
    /// An identity with this subject.
    pub fn exact(issuer: &str, subject: &str) -> Result<Self, IdentityError> {
        if subject.is_empty() {
            return Err(IdentityError::Subject);
        }
        Ok(Self {
            issuer: checked_issuer(issuer)?,
            subject: Subject::Exact(subject.to_owned()),
        })
    }

    /// Identities whose whole subject matches a regular expression.
    pub fn matching(issuer: &str, pattern: &str) -> Result<Self, IdentityError> {
        if pattern.is_empty() {
            return Err(IdentityError::Subject);
        }
        let compile = |text: &str| {
            let compiled = RegexBuilder::new(text)
                .size_limit(MAX_PATTERN_BYTES)
                .build();
            compiled.map_err(|error| IdentityError::Pattern {
                pattern: pattern.to_owned(),
                problem: reason(&error),
            })
        };
        // Alone first: a pattern with unbalanced parentheses could otherwise escape the anchors.
        compile(pattern)?;
        Ok(Self {
            issuer: checked_issuer(issuer)?,
            subject: Subject::Pattern {
                text: pattern.to_owned(),
                anchored: compile(&format!(r"\A(?:{pattern})\z"))?,
            },
        })
    }

    /// Whether a signer, in the form in which it is recorded, has this identity.
    pub(crate) fn is_of(&self, recorded: &str) -> bool {
        let subject = recorded
            .strip_suffix(')')
            .and_then(|rest| rest.strip_suffix(&self.issuer))
            .and_then(|rest| rest.strip_suffix(" ("));
        subject.is_some_and(|subject| match &self.subject {
            Subject::Exact(expected) => expected == subject,
            Subject::Pattern { anchored, .. } => anchored.is_match(subject),
        })
    }
}

/// The last line of an error. The lines before it repeat the expression.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// An issuer cannot have spaces, so that a recorded signer has only one meaning.
fn checked_issuer(issuer: &str) -> Result<String, IdentityError> {
    match issuer.is_empty() || issuer.contains(char::is_whitespace) {
        true => Err(IdentityError::Issuer(issuer.to_owned())),
        false => Ok(issuer.to_owned()),
    }
}

impl fmt::Display for CertifiedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.subject, self.issuer)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:?} of {:?})", self.subject, self.issuer)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => write!(f, "{text:?}"),
            Self::Pattern { text, .. } => write!(f, "/{text}/"),
        }
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(other)) => one == other,
            (Self::Pattern { text: one, .. }, Self::Pattern { text: other, .. }) => one == other,
            _ => false,
        }
    }
}

impl Eq for Subject {}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://token.example.com";

    fn recorded(subject: &str) -> String {
        let (issuer, subject) = (ISSUER.to_owned(), subject.to_owned());
        CertifiedSigner { issuer, subject }.to_string()
    }

    #[test]
    fn a_subject_is_compared_as_a_whole() {
        let exact = Identity::exact(ISSUER, "ci@acme.example").unwrap();
        assert!(exact.is_of(&recorded("ci@acme.example")));
        assert!(!exact.is_of(&recorded("evil-ci@acme.example")));
        assert!(!exact.is_of("ci@acme.example (https://other.example.com)"));
        assert!(!exact.is_of("ci@acme.example"));

        let tags = Identity::matching(ISSUER, "https://git.example/acme/.*@refs/tags/v.+").unwrap();
        assert!(tags.is_of(&recorded("https://git.example/acme/ci@refs/tags/v1")));
        assert!(!tags.is_of(&recorded("https://git.example/acme/ci@refs/heads/main")));
        assert!(!tags.is_of(&recorded("x https://git.example/acme/ci@refs/tags/v1")));
        let either = Identity::matching(ISSUER, "a|b").unwrap();
        assert!(either.is_of(&recorded("b")) && !either.is_of(&recorded("ab")));
    }

    #[test]
    fn a_recorded_signer_has_one_meaning() {
        let outer = Identity::exact(ISSUER, "ci (https://other.example.com)").unwrap();
        let inner = Identity::exact("https://other.example.com", "ci").unwrap();
        let signer = recorded("ci (https://other.example.com)");
        assert!(outer.is_of(&signer) && !inner.is_of(&signer));
    }

    #[test]
    fn invalid_identities_are_refused() {
        assert!(matches!(
            Identity::exact("", "a"),
            Err(IdentityError::Issuer(_))
        ));
        assert!(matches!(
            Identity::exact("https://a b", "a"),
            Err(IdentityError::Issuer(_))
        ));
        assert_eq!(Identity::exact(ISSUER, ""), Err(IdentityError::Subject));
        for pattern in ["(", "x)|(?:y", "(?x)a#", r"(\w{100}){100}{100}"] {
            let error = Identity::matching(ISSUER, pattern).unwrap_err();
            assert!(matches!(error, IdentityError::Pattern { .. }), "{pattern}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }
}
