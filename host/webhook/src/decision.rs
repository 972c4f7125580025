//! What is said to whoever sent a resource: refused or not, why, and what to look at.
//!
//! In: rejections, notices and what plugins found. Out: the response of an `AdmissionReview`.

use llsd_adapter_sdk::{Diagnostic, Severity};
use llsd_api::conversion::{CONFLICTS, v1alpha1_path};
use llsd_api::{Notice, Rejection};
use serde_json::{Value, json};

/// The API server shows at most 4 KiB of warnings; whoever has more should run `llsd check`.
const MOST_WARNINGS: usize = 16;

/// One thing to say to whoever sent the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remark {
    field: String,
    problem: String,
    fix: String,
}

/// What is decided so far.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    refusals: Vec<Remark>,
    warnings: Vec<Remark>,
}

impl Decision {
    /// Refuses a resource with one sentence of field, problem and fix.
    pub(crate) fn refused_whole(message: &str) -> Self {
        let (field, rest) = message.split_once(": ").unwrap_or(("", message));
        let (problem, fix) = rest.split_once("; ").unwrap_or((rest, ""));
        Self {
            refusals: vec![Remark {
                field: field.to_owned(),
                problem: problem.to_owned(),
                fix: fix.to_owned(),
            }],
            warnings: Vec::new(),
        }
    }

    /// Lets the resource pass, with a word.
    pub(crate) fn warn(&mut self, notice: Notice) {
        self.warnings.push(Remark {
            field: notice.field.to_string(),
            problem: notice.problem,
            fix: notice.fix,
        });
    }

    /// Refuses the resource.
    pub(crate) fn refuse(&mut self, rejection: Rejection) {
        self.refusals.push(Remark {
            field: rejection.field.to_string(),
            problem: rejection.problem,
            fix: rejection.fix,
        });
    }

    /// Takes over what a plugin said.
    pub(crate) fn heed(&mut self, diagnostic: Diagnostic) {
        let Diagnostic {
            field,
            severity,
            code: _,
            problem,
            fix,
        } = diagnostic;
        let list = match severity {
            Severity::Error => &mut self.refusals,
            Severity::Warning => &mut self.warnings,
        };
        list.push(Remark {
            field,
            problem,
            fix,
        });
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
            self.warnings.push(Remark {
                field: place.trim_start_matches('/').replace('/', "."),
                problem: format!(
                    "this edit through v1alpha1 replaced what v1alpha2 had said here: {}",
                    brief(&value)
                ),
                fix: format!(
                    "edit the resource as v1alpha2 to bring it back; it is kept in the annotation {CONFLICTS}"
                ),
            });
        }
    }

    /// The whole answer to the request with this `uid`, in the words of its author.
    pub(crate) fn into_review(mut self, uid: &str, speaks_v1alpha1: bool) -> Value {
        if speaks_v1alpha1 {
            let all = self.refusals.iter_mut().chain(&mut self.warnings);
            all.for_each(Remark::speak_v1alpha1);
        }
        let is_allowed = self.refusals.is_empty();
        let mut response = json!({ "uid": uid, "allowed": is_allowed });
        if !is_allowed {
            response["status"] = refusal(&self.refusals);
        }
        let left_out = self.warnings.len().saturating_sub(MOST_WARNINGS);
        let mut warnings: Vec<String> = self
            .warnings
            .iter()
            .take(MOST_WARNINGS)
            .map(Remark::line)
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

fn refusal(refusals: &[Remark]) -> Value {
    let lines: Vec<String> = refusals.iter().map(Remark::line).collect();
    let causes: Vec<Value> = refusals
        .iter()
        .map(|one| {
            json!({
                "reason": "FieldValueInvalid",
                "field": one.field,
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

impl Remark {
    fn line(&self) -> String {
        let Self {
            field,
            problem,
            fix,
        } = self;
        let place = match field.as_str() {
            "" => "base configuration",
            field => field,
        };
        format!("{place}: {problem}; {fix}")
    }

    /// Names the field as its author does.
    fn speak_v1alpha1(&mut self) {
        if let Some(path) = v1alpha1_path(&self.field) {
            self.field = path;
        }
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
            decision.heed(Diagnostic::warning(
                "c",
                format!("spec.a[{index}]"),
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
