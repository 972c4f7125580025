//! What a request for admission holds, and what can be decided by that alone.
//!
//! The types of `kube` hold an object of some kind; here it stays JSON, so that a resource of any
//! shape gets an answer that can be read.

use llsd_api::checked::{Checked, check_document};
use llsd_api::conversion::{Version, convert};
use llsd_api::{API_VERSION_V1ALPHA1, Diagnostic, FieldPath};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::decision::Decision;

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
    if !request.is_write() {
        return Ok(Decision::default());
    }
    let Some(new) = &request.object else {
        return Ok(Decision::from(Diagnostic::error(
            FieldPath::from("object"),
            "there is none to admit",
            "send the resource that is to be written",
        )));
    };
    let new = match convert(new.clone(), Version::V1Alpha2) {
        Ok(new) => new,
        Err(error) => return Ok(Decision::from(error)),
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
    let report = check_document(spec_of(new));
    for warning in report.warnings {
        decision.add(warning);
    }
    match report.result {
        Ok(checked) => Err(Box::new(Candidate {
            checked,
            namespace,
            decision,
        })),
        Err(errors) => {
            errors.into_iter().for_each(|one| decision.add(one));
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

impl Request {
    /// By which the API server knows the answer again.
    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether its author writes v1alpha1.
    pub(crate) fn speaks_v1alpha1(&self) -> bool {
        let object = self.object.as_ref();
        object.is_some_and(|object| object["apiVersion"] == API_VERSION_V1ALPHA1)
    }

    /// Whether there is anything to decide.
    fn is_write(&self) -> bool {
        matches!(self.operation.as_str(), "CREATE" | "UPDATE")
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::conversion::CONFLICTS;

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
            Ok(decision) => {
                let review = decision.into_review(&request.uid, request.speaks_v1alpha1());
                review["response"].clone()
            }
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
            message.starts_with("kind: \"Pod\" cannot be converted; "),
            "{message}"
        );
        let response = decided(&request("CREATE", json!("text"), Value::Null));
        assert_eq!(response["allowed"], false);
    }

    #[test]
    fn a_write_without_a_resource_is_refused_and_a_deletion_is_not() {
        let response = decided(&request("CREATE", Value::Null, Value::Null));
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("object: there is none"), "{message}");
        let good = resource(json!({"distribution": {"name": "starter"}}));
        let response = decided(&request("DELETE", Value::Null, good));
        assert_eq!(response["allowed"], true);
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
}
