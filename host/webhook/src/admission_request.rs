//! Admission requests, and the checks that need only the request.
//!
//! The types of `kube` need an object of a known type. Here the object stays JSON, so that an invalid
//! resource gets a useful message. Objects are measured before they are parsed: whatever a resource
//! contains, the response has the `uid` of the request. A response without it counts as a failure of the
//! webhook, and the API server would admit the resource.

use llsd_api::checked::{Checked, check_document};
use llsd_api::conversion::{Version, convert};
use llsd_api::limits::read_object;
use llsd_api::{API_VERSION_V1ALPHA1, Diagnostic, DistributionStatus, FieldPath};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::admission_decision::Decision;

/// An `AdmissionReview` from the API server.
#[derive(Debug, Deserialize)]
struct AdmissionReview<'a> {
    #[serde(borrow)]
    request: Option<AdmissionRequest<'a>>,
}

/// An operation on a resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdmissionRequest<'a> {
    uid: String,
    operation: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

/// The parts of an object that decide whether it is checked, parsed only as far as needed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline<'a> {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    metadata: OutlineMetadata,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineMetadata {
    #[serde(default)]
    deletion_timestamp: Option<String>,
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

/// Parses a review, without the objects in it.
pub(crate) fn parse(body: &[u8]) -> Result<AdmissionRequest<'_>, String> {
    let review: AdmissionReview =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    Ok(review.request.ok_or("the field request is missing")?)
}

/// Checks a request without plugins and cluster.
pub(crate) fn precheck(request: &AdmissionRequest<'_>) -> Precheck {
    if !request.is_write() {
        return Precheck::Decided(Decision::default());
    }
    let Some(object) = request.object else {
        return Precheck::Decided(Decision::from(Diagnostic::error(
            FieldPath::from("object"),
            "is missing",
            "send the resource to create or update",
        )));
    };
    // Changes of metadata and deletions must stay possible for a resource that violates a newer rule.
    let is_exempt = request.is_deleting() || request.has_same_spec();
    let new = match read_object(object.get()).and_then(|new| convert(new, Version::V1Alpha2)) {
        Ok(new) => new,
        Err(_) if is_exempt => return Precheck::Decided(Decision::default()),
        Err(error) => return Precheck::Decided(Decision::from(error)),
    };
    let old = request
        .old_object
        .and_then(|old| read_object(old.get()).ok());
    let old = old.and_then(|old| convert(old, Version::V1Alpha2).ok());
    let mut decision = Decision::default();
    decision.report_conflicts(&new, old.as_ref());
    if is_exempt || old.as_ref().is_some_and(|old| old["spec"] == new["spec"]) {
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
    let name = document
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("name"));
    let metadata = match name.map(Value::take) {
        // The API server generates a name from `generateName` after admission.
        None | Some(Value::Null) => json!({}),
        Some(name) => json!({ "name": name }),
    };
    json!({
        "apiVersion": document["apiVersion"].take(),
        "kind": document["kind"].take(),
        "metadata": metadata,
        "spec": document["spec"].take(),
    })
}

impl<'a> AdmissionRequest<'a> {
    /// The identifier to return in the response.
    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether the request is for v1alpha1.
    pub(crate) fn is_v1alpha1(&self) -> bool {
        let version = self.object.map(outline).and_then(|one| one.api_version);
        version.as_deref() == Some(API_VERSION_V1ALPHA1)
    }

    /// Whether the request creates or updates a resource.
    fn is_write(&self) -> bool {
        matches!(self.operation.as_str(), "CREATE" | "UPDATE")
    }

    fn is_deleting(&self) -> bool {
        let metadata = self.object.map(|object| outline(object).metadata);
        metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some())
    }

    /// Whether both specs are the same text. The API server writes both with sorted keys.
    fn has_same_spec(&self) -> bool {
        let spec = |object: Option<&'a RawValue>| Some(outline(object?).spec?.get());
        spec(self.object).is_some_and(|new| spec(self.old_object) == Some(new))
    }
}

/// The outline of an object; empty if it is not an object. Parsing it does not recurse into the spec.
fn outline(object: &RawValue) -> Outline<'_> {
    serde_json::from_str(object.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use llsd_api::conversion::CONFLICTS;
    use proptest::prelude::*;

    use super::*;

    fn resource(spec: Value) -> Value {
        json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": {"name": "a", "namespace": "n", "managedFields": [{"manager": "m"}]},
            "spec": spec,
        })
    }

    /// A review as the API server sends it.
    fn request(operation: &str, object: Value, old_object: Value) -> String {
        let request = json!({
            "uid": "u", "operation": operation, "namespace": "n",
            "object": object, "oldObject": old_object,
        });
        json!({ "request": request }).to_string()
    }

    /// The response to a request that the precheck decides.
    fn decided(review: &str) -> Value {
        let request = parse(review.as_bytes()).unwrap();
        match precheck(&request) {
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

    /// Found by `cargo xtask fuzz`: indexing the number panicked.
    #[test]
    fn metadata_of_another_type_is_no_reason_to_panic() {
        let mut odd = resource(json!({"distribution": {"schema": 7}}));
        for metadata in [json!(1), json!("text"), json!([])] {
            odd["metadata"] = metadata;
            let response = decided(&request("CREATE", odd.clone(), Value::Null));
            assert_eq!(response["allowed"], false);
        }
    }

    #[test]
    fn a_valid_resource_is_passed_on_for_further_checks() {
        let good = resource(json!({"distribution": {"name": "starter"}}));
        let review = request("CREATE", good, Value::Null);
        let Precheck::Valid(valid) = precheck(&parse(review.as_bytes()).unwrap()) else {
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
        let release = |operation: &str, old: Value| {
            let review = request(operation, changed.clone(), old);
            match precheck(&parse(review.as_bytes()).unwrap()) {
                Precheck::Valid(valid) => valid.status.version?.llama_stack_server_version,
                Precheck::Decided(_) => panic!("the resource is valid"),
            }
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

    /// A resource whose settings are nested this deeply, as text: it is too deep to be a value.
    fn nested(levels: usize, metadata: &str) -> String {
        let good = resource(json!({"distribution": {"name": "starter"}, "providers":
            {"inference": {"provider": "vllm", "settings": "SETTINGS"}}}));
        let settings = format!(r#"{}1{}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let text = good.to_string().replace("\"SETTINGS\"", &settings);
        text.replacen(r#""name":"a""#, &format!(r#""name":"a"{metadata}"#), 1)
    }

    fn deep_request(operation: &str, object: &str, old_object: &str) -> String {
        format!(
            r#"{{"request": {{"uid": "u", "operation": "{operation}", "namespace": "n", "object": {object}, "oldObject": {old_object}}}}}"#
        )
    }

    /// Issue I, row 2: 130 levels were answered without a uid, and admitted.
    #[test]
    fn a_resource_of_any_depth_is_refused_with_the_uid_of_the_request() {
        for levels in [40, 90, 130, 5_000] {
            let deep = nested(levels, "");
            let response = decided(&deep_request("CREATE", &deep, "null"));
            assert_eq!(response["uid"], "u", "{levels}");
            assert_eq!(response["allowed"], false, "{levels}");
            let message = response["status"]["message"].as_str().unwrap();
            assert!(message.starts_with("spec"), "{message}");
            assert!(message.contains("deeper than 32 levels; "), "{message}");
        }
    }

    #[test]
    fn a_stored_resource_that_is_too_deep_can_be_labelled_deleted_and_repaired() {
        let deep = nested(130, "");
        let labelled = nested(130, r#","labels":{"a":"b"}"#);
        let deleting = nested(90, r#","deletionTimestamp":"2026-01-01T00:00:00Z""#);
        for (operation, object) in [
            ("UPDATE", labelled.as_str()),
            ("UPDATE", deleting.as_str()),
            ("DELETE", "null"),
        ] {
            let response = decided(&deep_request(operation, object, &deep));
            assert_eq!(response["allowed"], true, "{operation} {object}");
        }
        let repaired = deep_request("UPDATE", &nested(3, ""), &deep);
        let request = parse(repaired.as_bytes()).unwrap();
        assert!(matches!(precheck(&request), Precheck::Valid(_)));
    }

    #[test]
    fn an_object_with_too_many_values_is_refused_before_it_is_parsed() {
        let values = vec!["0"; 200_000].join(",");
        let object = nested(1, "").replace("{\"a\":1}", &format!("[{values}]"));
        let response = decided(&deep_request("CREATE", &object, "null"));
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("spec: has more than 20000 values; "),
            "{message}"
        );
    }

    /// JSON that is often an object of the right kind, with any depth.
    fn json_text() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("1e999".to_owned()),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<String>().prop_map(|text| Value::from(text).to_string()),
            (1_usize..300).prop_map(|levels| format!(
                "{}{}",
                "[".repeat(levels),
                "]".repeat(levels)
            )),
            (1_usize..300).prop_map(|levels| format!(
                "{}1{}",
                r#"{"a":"#.repeat(levels),
                "}".repeat(levels)
            )),
        ];
        let key = prop_oneof![
            "[a-z]{1,4}",
            Just("spec".to_owned()),
            Just("metadata".to_owned()),
            Just("providers".to_owned()),
            Just("inference".to_owned()),
            Just("settings".to_owned()),
            Just("annotations".to_owned()),
            Just("distribution".to_owned()),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            let object = prop::collection::vec((key.clone(), inner.clone()), 0..5);
            let kind = any::<bool>();
            prop_oneof![
                prop::collection::vec(inner, 0..4)
                    .prop_map(|items| format!("[{}]", items.join(","))),
                (object, kind).prop_map(|(entries, is_resource)| {
                    let mut fields: Vec<String> = entries
                        .into_iter()
                        .map(|(key, value)| format!("{key:?}:{value}"))
                        .collect();
                    if is_resource {
                        fields.push(r#""kind":"LlamaStackDistribution""#.to_owned());
                        fields.push(r#""apiVersion":"llamastack.io/v1alpha1""#.to_owned());
                    }
                    format!("{{{}}}", fields.join(","))
                }),
            ]
        })
    }

    proptest! {
        /// A target of `cargo xtask fuzz`.
        #[test]
        fn any_object_is_answered_with_the_uid_of_the_request(
            operation in prop_oneof![Just("CREATE"), Just("UPDATE"), Just("DELETE")],
            object in json_text(),
            old_object in json_text(),
        ) {
            let review = deep_request(operation, &object, &old_object);
            let request = parse(review.as_bytes()).map_err(TestCaseError::fail)?;
            let decision = match precheck(&request) {
                Precheck::Decided(decision) => decision,
                Precheck::Valid(resource) => resource.decision,
            };
            let answer = decision.into_review(request.uid(), request.is_v1alpha1());
            prop_assert_eq!(&answer["response"]["uid"], "u");
            prop_assert!(answer.to_string().len() < 100_000);
        }

        /// A target of `cargo xtask fuzz`.
        #[test]
        fn any_bytes_are_an_admission_review_or_rejected(bytes in any::<Vec<u8>>(), text in json_text()) {
            for body in [bytes.as_slice(), text.as_bytes()] {
                if let Ok(request) = parse(body) {
                    precheck(&request);
                }
            }
        }
    }
}
