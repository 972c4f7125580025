//! `/validate`: an `AdmissionReview` in, a decision out.
//!
//! Asks what the layers before it cannot: what spans the whole resource, what the plugins say about
//! it, and whether the Secrets and ConfigMaps that it names are there. The last never refuse: in what
//! order a set of files is applied must not matter.
//!
//! The types of `kube` hold an object of some kind; here it stays JSON, so that a resource of any
//! shape gets an answer that can be read.

use llsd_adapter_sdk::{Diagnostic, Severity};
use llsd_api::checked::{Checked, review};
use llsd_api::conversion::{CONFLICTS, Version, convert, v1alpha1_path};
use llsd_api::{API_VERSION_V1ALPHA1, Notice, Rejection};
use serde::Deserialize;
use serde_json::{Value, json};

/// The API server shows at most 4 KiB of warnings; whoever has more should run `llsd check`.
const MOST_WARNINGS: usize = 16;

/// An `AdmissionReview` as the API server sends it.
#[derive(Debug, Deserialize)]
pub(crate) struct Review {
    pub(crate) request: Option<Request>,
}

/// What is about to happen to a resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    uid: String,
    operation: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
}

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

/// A decision that still needs the plugins and the cluster.
pub(crate) struct Candidate {
    /// The resource, good by itself.
    pub(crate) checked: Checked,
    /// Its namespace.
    pub(crate) namespace: String,
    /// What is decided so far.
    pub(crate) decision: Decision,
}

/// Judges a request by what it holds: decided, or a candidate for more questions.
pub(crate) fn examine(request: &Request) -> Result<Decision, Box<Candidate>> {
    let Some(new) = &request.object else {
        return Ok(Decision::default());
    };
    let new = match convert(new.clone(), Version::V1Alpha2) {
        Ok(new) => new,
        Err(error) => return Ok(Decision::refused_whole(&error.to_string())),
    };
    let old = request.old_object.as_ref();
    let old = old.and_then(|old| convert(old.clone(), Version::V1Alpha2).ok());
    let mut decision = Decision::default();
    decision.report_conflicts(&new, old.as_ref());
    // A resource that is older than a rule, or on its way out, must not be held by its spec.
    let is_leaving = new["metadata"].get("deletionTimestamp").is_some();
    if is_leaving || old.is_some_and(|old| old["spec"] == new["spec"]) {
        return Ok(decision);
    }
    let namespace = request.namespace.clone().unwrap_or_default();
    let verdict = review(spec_of(new));
    for notice in verdict.notices {
        decision.warn(notice);
    }
    match verdict.result {
        Ok(checked) => Err(Box::new(Candidate {
            checked,
            namespace,
            decision,
        })),
        Err(rejections) => {
            rejections.into_iter().for_each(|one| decision.refuse(one));
            Ok(decision)
        }
    }
}

/// The resource without what the API server and others keep on it, which is not its author's.
fn spec_of(mut document: Value) -> Value {
    let name = document["metadata"]["name"].take();
    let metadata = match name {
        // The API server makes a name of `generateName` later.
        Value::Null => json!({}),
        name => json!({ "name": name }),
    };
    json!({
        "apiVersion": document["apiVersion"].take(),
        "kind": document["kind"].take(),
        "metadata": metadata,
        "spec": document["spec"].take(),
    })
}

impl Decision {
    fn refused_whole(message: &str) -> Self {
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

    /// Whether the resource is refused already.
    pub(crate) fn is_refused(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// What gave way to this edit through v1alpha1, and did not before.
    fn report_conflicts(&mut self, new: &Value, old: Option<&Value>) {
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

    /// The whole answer to a request.
    pub(crate) fn into_review(mut self, request: &Request) -> Value {
        if request.speaks_v1alpha1() {
            let all = self.refusals.iter_mut().chain(&mut self.warnings);
            all.for_each(Remark::speak_v1alpha1);
        }
        let mut response = json!({ "uid": request.uid, "allowed": self.refusals.is_empty() });
        if self.is_refused() {
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

impl Request {
    fn speaks_v1alpha1(&self) -> bool {
        let object = self.object.as_ref();
        object.is_some_and(|object| object["apiVersion"] == API_VERSION_V1ALPHA1)
    }

    /// Whether there is anything to decide.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.operation.as_str(), "CREATE" | "UPDATE")
    }
}

impl Remark {
    fn line(&self) -> String {
        let Self {
            field,
            problem,
            fix,
        } = self;
        format!("{field}: {problem}; {fix}")
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

    fn resource(spec: Value) -> Value {
        json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": {"name": "a", "namespace": "n", "managedFields": [{"manager": "m"}]},
            "spec": spec,
        })
    }

    fn request(operation: &str, object: Value, old_object: Value) -> Request {
        serde_json::from_value(json!({
            "uid": "u", "operation": operation, "namespace": "n",
            "object": object, "oldObject": old_object,
        }))
        .unwrap()
    }

    /// The response, for a request that needs no plugin.
    fn decided(request: &Request) -> Value {
        match examine(request) {
            Ok(decision) => decision.into_review(request)["response"].take(),
            Err(candidate) => panic!("{:?}", candidate.checked),
        }
    }

    #[test]
    fn a_bad_resource_is_refused_with_field_problem_and_fix() {
        let bad = resource(json!({"distribution": {"name": "starter", "schema": "0.7"}}));
        let response = decided(&request("CREATE", bad, Value::Null));
        assert_eq!(response["allowed"], false);
        assert_eq!(response["uid"], "u");
        let status = &response["status"];
        assert_eq!(status["code"], 422);
        let message = status["message"].as_str().unwrap();
        assert!(
            message.starts_with("spec.distribution.schema: "),
            "{message}"
        );
        assert!(message.contains("; "), "{message}");
        assert_eq!(
            status["details"]["causes"][0]["field"],
            "spec.distribution.schema"
        );
    }

    #[test]
    fn a_resource_that_was_already_bad_can_be_labelled_and_can_leave() {
        let bad = resource(json!({"distribution": {"name": "starter", "schema": "0.7"}}));
        let mut labelled = bad.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        let response = decided(&request("UPDATE", labelled, bad.clone()));
        assert_eq!(response["allowed"], true);

        let mut leaving = resource(json!({"distribution": {"schema": "0.6"}}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let response = decided(&request("UPDATE", leaving, bad.clone()));
        assert_eq!(response["allowed"], true);

        let worse = resource(json!({"distribution": {"name": "starter", "schema": "0.6"}}));
        assert_eq!(decided(&request("UPDATE", worse, bad))["allowed"], false);
    }

    #[test]
    fn a_good_resource_goes_on_to_the_plugins() {
        let good = resource(json!({"distribution": {"name": "starter"}}));
        let candidate = examine(&request("CREATE", good, Value::Null)).unwrap_err();
        assert_eq!(
            (
                candidate.checked.name.as_str(),
                candidate.namespace.as_str()
            ),
            ("a", "n")
        );
    }

    #[test]
    fn another_kind_gets_an_answer_that_can_be_read() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        let response = decided(&request("CREATE", pod, Value::Null));
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("kind: \"Pod\" is not converted here; "),
            "{message}"
        );
        let response = decided(&request("CREATE", json!("text"), Value::Null));
        assert_eq!(response["allowed"], false);
    }

    #[test]
    fn the_author_of_a_v1alpha1_resource_reads_v1alpha1_fields() {
        let old = json!({
            "apiVersion": "llamastack.io/v1alpha1", "kind": "LlamaStackDistribution", "metadata": {"name": "a"},
            "spec": {"server": {"distribution": {"name": "starter"}, "containerSpec": {"env": [{"name": "A=B"}]}}},
        });
        let response = decided(&request("CREATE", old, Value::Null));
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("spec.server.containerSpec.env[0].name: "),
            "{message}"
        );
    }

    #[test]
    fn what_gave_way_to_an_edit_is_reported_once() {
        let mut conflict = resource(json!({"distribution": {"name": "starter"}}));
        let before = conflict.clone();
        conflict["metadata"]["annotations"] =
            json!({CONFLICTS: r#"{"/spec/networking/expose":{"hostname":"a.example.com"}}"#});
        let response = decided(&request("UPDATE", conflict.clone(), before));
        let warning = response["warnings"][0].as_str().unwrap();
        assert!(warning.starts_with("spec.networking.expose: "), "{warning}");
        assert!(warning.contains("a.example.com"), "{warning}");
        let response = decided(&request("UPDATE", conflict.clone(), conflict));
        assert_eq!(response.get("warnings"), None);
    }

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
        let request = request("CREATE", Value::Null, Value::Null);
        let review = decision.into_review(&request);
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
