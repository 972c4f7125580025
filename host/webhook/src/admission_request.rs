//! Admission requests, and the checks that need only the request.
//!
//! The types of `kube` need an object of a known type. Here the object stays JSON, so that an invalid
//! resource gets a useful message.

use llsd_api::checked::{Checked, check_document};
use llsd_api::conversion::{Version, convert};
use llsd_api::{API_VERSION_V1ALPHA1, Diagnostic, DistributionStatus, FieldPath};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission_decision::Decision;

/// An `AdmissionReview` from the API server.
#[derive(Debug, Deserialize)]
pub(crate) struct AdmissionReview {
    pub(crate) request: Option<AdmissionRequest>,
}

/// An operation on a resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdmissionRequest {
    uid: String,
    operation: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
}

/// The result of [`precheck`].
pub(crate) enum Precheck {
    /// The request is decided: nothing to check, or the resource is invalid.
    Decided(Decision),
    /// The resource is valid by itself. Checks with the plugins and the cluster follow.
    Valid(Box<ValidResource>),
}

/// A resource that is valid by itself.
pub(crate) struct ValidResource {
    /// The resource.
    pub(crate) checked: Checked,
    /// Its namespace.
    pub(crate) namespace: String,
    /// The status of the stored resource; empty for a new one.
    pub(crate) status: DistributionStatus,
    /// The warnings so far.
    pub(crate) decision: Decision,
}

/// Checks a request without plugins and cluster.
pub(crate) fn precheck(request: &AdmissionRequest) -> Precheck {
    if !request.is_write() {
        return Precheck::Decided(Decision::default());
    }
    let Some(new) = &request.object else {
        return Precheck::Decided(Decision::from(Diagnostic::error(
            FieldPath::from("object"),
            "is missing",
            "send the resource to create or update",
        )));
    };
    let new = match convert(new.clone(), Version::V1Alpha2) {
        Ok(new) => new,
        Err(error) => return Precheck::Decided(Decision::from(error)),
    };
    let old = request.old_object.as_ref();
    let old = old.and_then(|old| convert(old.clone(), Version::V1Alpha2).ok());
    let mut decision = Decision::default();
    decision.report_conflicts(&new, old.as_ref());
    // Changes of metadata and deletions must stay possible for a resource that violates a newer rule.
    let is_deleting = new["metadata"].get("deletionTimestamp").is_some();
    if is_deleting || old.as_ref().is_some_and(|old| old["spec"] == new["spec"]) {
        return Precheck::Decided(decision);
    }
    // The operator writes the status. One that it does not understand is only a missing hint.
    let status = old.and_then(|mut old| serde_json::from_value(old["status"].take()).ok());
    let namespace = request.namespace.clone().unwrap_or_default();
    let report = check_document(without_server_fields(new));
    for warning in report.warnings {
        decision.add(warning);
    }
    match report.result {
        Ok(checked) => Precheck::Valid(Box::new(ValidResource {
            checked,
            namespace,
            status: status.unwrap_or_default(),
            decision,
        })),
        Err(errors) => {
            errors.into_iter().for_each(|error| decision.add(error));
            Precheck::Decided(decision)
        }
    }
}

/// The fields of a resource that its author writes. Other metadata and the status are not checked.
fn without_server_fields(mut document: Value) -> Value {
    let name = document["metadata"]["name"].take();
    let metadata = match name {
        // The API server generates a name from `generateName` after admission.
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

impl AdmissionRequest {
    /// The identifier to return in the response.
    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether the request is for v1alpha1.
    pub(crate) fn is_v1alpha1(&self) -> bool {
        let object = self.object.as_ref();
        object.is_some_and(|object| object["apiVersion"] == API_VERSION_V1ALPHA1)
    }

    /// Whether the request creates or updates a resource.
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

    fn request(operation: &str, object: Value, old_object: Value) -> AdmissionRequest {
        serde_json::from_value(json!({
            "uid": "u", "operation": operation, "namespace": "n",
            "object": object, "oldObject": old_object,
        }))
        .unwrap()
    }

    /// The response to a request that the precheck decides.
    fn decided(request: &AdmissionRequest) -> Value {
        match precheck(request) {
            Precheck::Decided(decision) => {
                let review = decision.into_review(&request.uid, request.is_v1alpha1());
                review["response"].clone()
            }
            Precheck::Valid(resource) => panic!("{:?}", resource.checked),
        }
    }

    #[test]
    fn an_invalid_resource_is_refused_with_field_problem_and_fix() {
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
    fn a_resource_that_was_already_invalid_can_be_labelled_and_deleted() {
        let bad = resource(json!({"distribution": {"name": "starter", "schema": "0.7"}}));
        let mut labelled = bad.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        let response = decided(&request("UPDATE", labelled, bad.clone()));
        assert_eq!(response["allowed"], true);

        let mut deleting = resource(json!({"distribution": {"schema": "0.6"}}));
        deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let response = decided(&request("UPDATE", deleting, bad.clone()));
        assert_eq!(response["allowed"], true);

        let worse = resource(json!({"distribution": {"name": "starter", "schema": "0.6"}}));
        assert_eq!(decided(&request("UPDATE", worse, bad))["allowed"], false);
    }

    #[test]
    fn a_valid_resource_is_passed_on_for_further_checks() {
        let good = resource(json!({"distribution": {"name": "starter"}}));
        let Precheck::Valid(valid) = precheck(&request("CREATE", good, Value::Null)) else {
            panic!("the resource is valid");
        };
        assert_eq!(
            (valid.checked.name.as_str(), valid.namespace.as_str()),
            ("a", "n")
        );
    }

    /// Issue H, wanted 2.
    #[test]
    fn the_status_of_the_stored_resource_is_passed_on_and_not_that_of_the_request() {
        let mut stored = resource(json!({"distribution": {"name": "starter"}}));
        let version = |release: &str| json!({"version": {"llamaStackServerVersion": release}});
        stored["status"] = version("0.7.1");
        let mut changed = resource(json!({"distribution": {"name": "postgres-demo"}}));
        changed["status"] = version("0.3.5");
        let release =
            |operation: &str, old: Value| match precheck(&request(operation, changed.clone(), old))
            {
                Precheck::Valid(valid) => valid.status.version?.llama_stack_server_version,
                Precheck::Decided(_) => panic!("the resource is valid"),
            };
        assert_eq!(release("UPDATE", stored).as_deref(), Some("0.7.1"));
        assert_eq!(release("CREATE", Value::Null), None);
        let odd = json!({"spec": {}, "status": "odd"});
        assert_eq!(release("UPDATE", odd), None);
    }

    #[test]
    fn another_kind_is_refused_with_a_useful_message() {
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
        assert!(message.starts_with("object: is missing; "), "{message}");
        let good = resource(json!({"distribution": {"name": "starter"}}));
        let response = decided(&request("DELETE", Value::Null, good));
        assert_eq!(response["allowed"], true);
    }

    #[test]
    fn messages_for_a_v1alpha1_resource_name_v1alpha1_fields() {
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
    fn a_conflict_of_an_edit_is_reported_once() {
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
