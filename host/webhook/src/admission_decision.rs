//! What is said to whoever sent a resource: refused or not, why, and what to look at.
//!
//! In: rejections, notices and what plugins found. Out: the response of an `AdmissionReview`.

use llsd_api::conversion::{CONFLICTS, v1alpha1_path};
use llsd_api::{Diagnostic, FieldPath, Severity};
use serde_json::{Value, json};

/// The API server shows at most 4 KiB of warnings; whoever has more should run `llsd check`.
const MOST_WARNINGS: usize = 16;

/// What is decided so far: errors refuse the resource.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl From<Diagnostic> for Decision {
    fn from(diagnostic: Diagnostic) -> Self {
        let mut decision = Self::default();
        decision.add(diagnostic);
        decision
    }
}

impl Decision {
    /// Adds an error or a warning.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        match diagnostic.severity {
            Severity::Error => self.errors.push(diagnostic),
            Severity::Warning => self.warnings.push(diagnostic),
        }
    }

    /// What gave way to this edit through v1alpha1, and did not before.
    pub(crate) fn report_conflicts(&mut self, new: &Value, old: Option<&Value>) {
        let conflicts = |document: &Value| -> serde_json::Map<String, Value> {
            let text = document["metadata"]["annotations"][CONFLICTS].as_str();
            text.and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default()
        };
        let known = old.map(conflicts).unwrap_or_default();
        for (place, value) in conflicts(new) {
            if known.get(&place) == Some(&value) {
                continue;
            }
            self.add(Diagnostic::warning(
                FieldPath::from(place.trim_start_matches('/').replace('/', ".")),
                format!(
                    "this edit through v1alpha1 replaced what v1alpha2 had said here: {}",
                    brief(&value)
                ),
                format!(
                    "edit the resource as v1alpha2 to bring it back; it is kept in the annotation {CONFLICTS}"
                ),
            ));
        }
    }

    /// The whole answer to the request with this `uid`, in the words of its author.
    pub(crate) fn into_review(mut self, uid: &str, speaks_v1alpha1: bool) -> Value {
        if speaks_v1alpha1 {
            let all = self.errors.iter_mut().chain(&mut self.warnings);
            all.for_each(name_v1alpha1_field);
        }
        let is_allowed = self.errors.is_empty();
        let mut response = json!({ "uid": uid, "allowed": is_allowed });
        if !is_allowed {
            response["status"] = refusal(&self.errors);
        }
        let left_out = self.warnings.len().saturating_sub(MOST_WARNINGS);
        let mut warnings: Vec<String> = self
            .warnings
            .iter()
            .take(MOST_WARNINGS)
            .map(ToString::to_string)
            .collect();
        if left_out > 0 {
            warnings.push(format!("and {left_out} more; llsd check shows them all"));
        }
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        as_review(response)
    }
}

/// The answer to a review that could not be read.
pub(crate) fn unreadable(reason: &str) -> Value {
    let message =
        format!("the review cannot be read: {reason}; send admission.k8s.io/v1 AdmissionReview");
    as_review(json!({
        "uid": "",
        "allowed": false,
        "status": { "code": 400, "reason": "BadRequest", "message": message },
    }))
}

fn as_review(response: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    })
}

fn refusal(errors: &[Diagnostic]) -> Value {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let causes: Vec<Value> = errors
        .iter()
        .map(|one| {
            json!({
                "reason": "FieldValueInvalid",
                "field": one.field.as_str(),
                "message": format!("{}; {}", one.problem, one.fix),
            })
        })
        .collect();
    json!({
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": lines.join("\n"),
        "details": { "causes": causes },
    })
}

/// Names the field as v1alpha1 does, where v1alpha1 has it.
fn name_v1alpha1_field(diagnostic: &mut Diagnostic) {
    if let Some(path) = v1alpha1_path(diagnostic.field.as_str()) {
        diagnostic.field = FieldPath::from(path);
    }
}

/// A value that fits into a warning.
fn brief(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_warnings_are_cut_and_long_values_too() {
        let mut decision = Decision::default();
        for index in 0..MOST_WARNINGS + 3 {
            decision.add(Diagnostic::warning(
                FieldPath::spec().field("a").index(index),
                "p",
                "f",
            ));
        }
        let review = decision.into_review("u", false);
        let warnings = review["response"]["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), MOST_WARNINGS + 1);
        assert_eq!(
            warnings[MOST_WARNINGS],
            "and 3 more; llsd check shows them all"
        );
        assert_eq!(brief(&json!("é".repeat(200))).chars().count(), 81);
    }

    #[test]
    fn an_unreadable_review_is_denied() {
        assert_eq!(unreadable("it is empty")["response"]["allowed"], false);
    }
}
