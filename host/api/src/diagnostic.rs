//! Diagnostics: the errors and warnings that the checks report to the author of a resource.
//!
//! A diagnostic names the field, the problem and the fix. An error rejects the resource, a warning
//! does not. Checks continue after a problem, so that all diagnostics are reported at once, sorted by
//! field.

use serde::{Deserialize, Serialize};

use crate::field_path::FieldPath;
use crate::limits::MESSAGE_BYTES;
use crate::rules::Rule;

/// One error or warning. Printed as `field: problem; fix`.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error, Serialize, Deserialize,
)]
#[error("{field}: {problem}; {fix}")]
pub struct Diagnostic {
    /// The field that the diagnostic is about.
    pub field: FieldPath,
    /// Whether it rejects the resource.
    pub severity: Severity,
    /// A stable identifier for programs, for example `invalid`.
    pub code: String,
    /// What is wrong, in lower case, without a full stop.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// Whether a diagnostic rejects the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// The resource is rejected.
    Error,
    /// The resource is accepted, but part of it may not do what its author expects.
    Warning,
}

impl Diagnostic {
    /// An error with the code `invalid`. A long string, for example because it quotes a long value, is
    /// shortened in its middle.
    pub fn error(field: FieldPath, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        let field = match field.as_str().len() {
            0..=MESSAGE_BYTES => field,
            _ => FieldPath::from(shortened(field.as_str().to_owned())),
        };
        Self {
            field,
            severity: Severity::Error,
            code: "invalid".to_owned(),
            problem: shortened(problem.into()),
            fix: shortened(fix.into()),
        }
    }

    /// A warning with the code `notice`.
    pub fn warning(field: FieldPath, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(field, problem, fix).with_code("notice")
        }
    }

    /// The same diagnostic with another code.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            ..self
        }
    }

    /// Whether this rejects the resource.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The start and the end of a string that is too long for a message.
fn shortened(text: String) -> String {
    if text.len() <= MESSAGE_BYTES {
        return text;
    }
    let half = MESSAGE_BYTES / 2;
    let start = &text[..text.floor_char_boundary(half)];
    let end = &text[text.ceil_char_boundary(text.len() - half)..];
    format!("{start} … {end}")
}

/// The error type of a check: one or more diagnostics, sorted by field. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Sorts the diagnostics and removes duplicates. `None` if there are none.
    pub fn new(mut diagnostics: Vec<Diagnostic>) -> Option<Self> {
        diagnostics.sort();
        diagnostics.dedup();
        (!diagnostics.is_empty()).then_some(Self(diagnostics))
    }

    /// The diagnostics in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// The number of diagnostics; at least one.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds more diagnostics, sorts them and removes duplicates.
    #[must_use]
    pub fn and(mut self, more: impl IntoIterator<Item = Diagnostic>) -> Self {
        self.0.extend(more);
        self.0.sort();
        self.0.dedup();
        self
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Collects diagnostics, so that a check can continue after a problem.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Collector {
    pub(crate) fn error(
        &mut self,
        field: &FieldPath,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.errors
            .push(Diagnostic::error(field.clone(), problem, fix));
    }

    /// Adds the error of a violated rule.
    pub(crate) fn violation(&mut self, rule: &Rule, field: &FieldPath) {
        self.error(field, rule.problem, rule.fix);
    }

    pub(crate) fn warning(
        &mut self,
        field: &FieldPath,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.warnings
            .push(Diagnostic::warning(field.clone(), problem, fix));
    }
}

/// The fix for an unknown name: the nearest known name if one is near, otherwise all known names.
pub fn choices<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    if let Some(near) = nearest(wrong, known.iter().copied()) {
        return format!("did you mean {near:?}?");
    }
    match known.as_slice() {
        [] => "remove it".to_owned(),
        [one] => format!("use {one}"),
        many => format!("use one of: {}", many.join(", ")),
    }
}

/// The known name that is nearest to `wrong`, if one is near enough to be a typing error.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(wrong);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &fold(name)), name))
        // At most a third of the characters may differ.
        .filter(|(distance, name)| {
            *distance <= name.chars().count().max(folded.chars().count()) / 3
        })
        .min()
        .map(|(_, name)| name)
}

/// Removes case and punctuation, so that `api_key`, `apikey` and `apiKey` are equal.
fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(field: &str) -> Diagnostic {
        Diagnostic::error(FieldPath::root().field(field), "is wrong", "correct it")
    }

    #[test]
    fn diagnostics_are_sorted_and_without_duplicates() {
        let all = Diagnostics::new(vec![error("b"), error("a"), error("b")]).unwrap();
        assert_eq!(
            all.to_string(),
            "a: is wrong; correct it\nb: is wrong; correct it"
        );
        assert_eq!(all.len(), 2);
        assert_eq!(all.clone().and([error("a"), error("c")]).len(), 3);
        assert_eq!((&all).into_iter().count(), 2);
        assert_eq!(all.into_iter().next(), Some(error("a")));
        assert_eq!(Diagnostics::new(Vec::new()), None);
        assert_eq!(Diagnostics::from(error("a")).len(), 1);
    }

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_gets_the_list() {
        let known = ["apiKey", "endpoint", "id"];
        assert_eq!(choices("api_key", known), r#"did you mean "apiKey"?"#);
        assert_eq!(choices("endpiont", known), r#"did you mean "endpoint"?"#);
        assert_eq!(
            choices("temperature", known),
            "use one of: apiKey, endpoint, id"
        );
        assert_eq!(choices("temperature", ["id"]), "use id");
        assert_eq!(choices("temperature", []), "remove it");
    }

    #[test]
    fn a_warning_is_printed_like_an_error() {
        let warning = Diagnostic::warning(FieldPath::spec(), "has no effect", "remove it");
        assert_eq!(warning.to_string(), "spec: has no effect; remove it");
        assert_eq!(
            (warning.is_error(), warning.code.as_str()),
            (false, "notice")
        );
        let coded = error("a").with_code("no-base");
        assert_eq!((coded.is_error(), coded.code.as_str()), (true, "no-base"));
    }

    #[test]
    fn a_message_about_a_long_value_is_short_and_keeps_its_reason() {
        let long = "é".repeat(1 << 20);
        let field = FieldPath::spec().field(&long);
        let error = Diagnostic::error(field, format!("{long:?} is not valid"), "use another");
        let text = error.to_string();
        assert!(text.len() < 3 * MESSAGE_BYTES, "{}", text.len());
        assert!(text.ends_with("is not valid; use another"));
    }
}
