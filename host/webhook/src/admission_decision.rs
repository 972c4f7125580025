//! The decision about an admission request.
//!
//! In: the diagnostics of all checks. Out: the response of an `AdmissionReview`.

use llsd_api::conversion::{CONFLICTS, v1alpha1_path};
use llsd_api::{Diagnostic, FieldPath, Severity};
use serde_json::{Value, json};

/// The API server returns at most 4 KiB of warnings. `llsd check` prints all of them.
const MAX_WARNINGS: usize = 16;

/// Errors in a response. Fixing these usually fixes many of the others.
const MAX_ERRORS: usize = 100;

/// The diagnostics so far. Any error refuses the resource.
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

    /// Warns about v1alpha2 values that this edit through v1alpha1 replaced, and that were not reported
    /// before.
    pub(crate) fn report_conflicts(&mut self, new: &Value, old: Option<&Value>) {
        let conflicts = |document: &Value| -> serde_json::Map<String, Value> {
            let annotation = document["metadata"]["annotations"][CONFLICTS].as_str();
            annotation
                .and_then(|json| serde_json::from_str(json).ok())
                .unwrap_or_default()
        };
        let known = old.map(conflicts).unwrap_or_default();
        for (pointer, value) in conflicts(new) {
            if known.get(&pointer) == Some(&value) {
                continue;
            }
            self.add(Diagnostic::warning(
                FieldPath::from(pointer.trim_start_matches('/').replace('/', ".")),
                format!(
                    "this edit through v1alpha1 replaced the v1alpha2 value {}",
                    abbreviate(&value)
                ),
                format!(
                    "edit the resource as v1alpha2 to restore the value; it is stored in the annotation {CONFLICTS}"
                ),
            ));
        }
    }

    /// The response to the request with this `uid`. Names fields as v1alpha1 does if `is_v1alpha1`.
    pub(crate) fn into_review(mut self, uid: &str, is_v1alpha1: bool) -> Value {
        if is_v1alpha1 {
            let all = self.errors.iter_mut().chain(&mut self.warnings);
            all.for_each(name_v1alpha1_field);
        }
        let is_allowed = self.errors.is_empty();
        let mut response = json!({ "uid": uid, "allowed": is_allowed });
        if !is_allowed {
            response["status"] = refusal(&self.errors);
        }
        let omitted = self.warnings.len().saturating_sub(MAX_WARNINGS);
        let mut warnings: Vec<String> = self
            .warnings
            .iter()
            .take(MAX_WARNINGS)
            .map(ToString::to_string)
            .collect();
        if omitted > 0 {
            warnings.push(format!(
                "{omitted} more warnings; run llsd check to see all of them"
            ));
        }
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        as_review(response)
    }
}

/// The response to a body that is not a valid `AdmissionReview`.
pub(crate) fn invalid_review(reason: &str) -> Value {
    let message =
        format!("invalid AdmissionReview: {reason}; send an admission.k8s.io/v1 AdmissionReview");
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

/// The `Status` of a refused request.
fn refusal(all: &[Diagnostic]) -> Value {
    let errors = &all[..all.len().min(MAX_ERRORS)];
    let mut lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if all.len() > MAX_ERRORS {
        let omitted = all.len() - MAX_ERRORS;
        lines.push(format!(
            "{omitted} more errors; run llsd check to see all of them"
        ));
    }
    let causes: Vec<Value> = errors
        .iter()
        .map(|error| {
            json!({
                "reason": "FieldValueInvalid",
                "field": error.field.as_str(),
                "message": format!("{}; {}", error.problem, error.fix),
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

/// Replaces the field with its v1alpha1 path, if v1alpha1 has it.
fn name_v1alpha1_field(diagnostic: &mut Diagnostic) {
    if let Some(path) = v1alpha1_path(diagnostic.field.as_str()) {
        diagnostic.field = FieldPath::from(path);
    }
}

/// Abbreviates a value for a warning.
fn abbreviate(value: &Value) -> String {
    const MAX_CHARS: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_warnings_and_long_values_are_abbreviated() {
        let mut decision = Decision::default();
        for index in 0..MAX_WARNINGS + 3 {
            decision.add(Diagnostic::warning(
                FieldPath::spec().field("a").index(index),
                "p",
                "f",
            ));
        }
        let review = decision.into_review("u", false);
        let warnings = review["response"]["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), MAX_WARNINGS + 1);
        assert_eq!(
            warnings[MAX_WARNINGS],
            "3 more warnings; run llsd check to see all of them"
        );
        assert_eq!(abbreviate(&json!("é".repeat(200))).chars().count(), 81);
    }

    #[test]
    fn many_errors_are_abbreviated() {
        let mut decision = Decision::default();
        for index in 0..MAX_ERRORS + 3 {
            let field = FieldPath::spec().field("a").index(index);
            decision.add(Diagnostic::error(field, "p", "f"));
        }
        let review = decision.into_review("u", false);
        let status = &review["response"]["status"];
        assert_eq!(
            status["details"]["causes"].as_array().unwrap().len(),
            MAX_ERRORS
        );
        let message = status["message"].as_str().unwrap();
        assert!(
            message.ends_with("3 more errors; run llsd check to see all of them"),
            "{message}"
        );
    }

    #[test]
    fn an_invalid_review_is_denied() {
        assert_eq!(invalid_review("it is empty")["response"]["allowed"], false);
    }
}
