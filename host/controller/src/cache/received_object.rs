//! An object of any kind, as the API server sends it.
//!
//! kube's `DynamicObject` has flattened fields, so serde first collects the whole object and then parses it a
//! second time. Half of an object are its managed fields, which are read only if another operator wrote
//! them. This type is parsed in one pass, without managed fields that nobody reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference, Time};
use kube::Resource;
use kube::api::{DynamicObject, ObjectMeta, TypeMeta};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::upstream::may_be_of_upstream;

/// An object as the API server sends it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedObject(pub(crate) DynamicObject);

/// The metadata that an object can have, without what only the API server uses.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    managed_fields: Option<Box<RawValue>>,
}

/// The part of an entry of the managed fields that says whose it is.
#[derive(Deserialize)]
struct Manager<'a> {
    #[serde(borrow, default)]
    manager: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    operation: Option<Cow<'a, str>>,
}

impl<'de> Deserialize<'de> for ReceivedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor).map(Self)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = DynamicObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<DynamicObject, A::Error> {
        let (mut types, mut metadata) = (TypeMeta::default(), Metadata::default());
        let mut data = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => types.api_version = fields.next_value()?,
                "kind" => types.kind = fields.next_value()?,
                "metadata" => metadata = fields.next_value()?,
                _ => {
                    data.insert(key, fields.next_value()?);
                }
            }
        }
        Ok(DynamicObject {
            // The items of a list have none.
            types: (!types.kind.is_empty()).then_some(types),
            metadata: metadata.into(),
            data: Value::Object(data),
        })
    }
}

impl From<Metadata> for ObjectMeta {
    fn from(received: Metadata) -> Self {
        let Metadata {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            labels,
            annotations,
            owner_references,
            finalizers,
            managed_fields,
        } = received;
        Self {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            labels,
            annotations,
            owner_references,
            finalizers,
            managed_fields: managed_fields.and_then(|fields| read_by_adoption(&fields)),
            ..Self::default()
        }
    }
}

/// The managed fields, if llama-stack-k8s-operator may have written some of them.
fn read_by_adoption(fields: &RawValue) -> Option<Vec<ManagedFieldsEntry>> {
    // What cannot be parsed is not of that operator.
    let managers: Vec<Manager> = serde_json::from_str(fields.get()).ok()?;
    let mut managers = managers.iter();
    let is_read =
        managers.any(|one| may_be_of_upstream(one.manager.as_deref(), one.operation.as_deref()));
    is_read
        .then(|| serde_json::from_str(fields.get()).ok())
        .flatten()
}

impl Resource for ReceivedObject {
    type DynamicType = <DynamicObject as Resource>::DynamicType;
    type Scope = <DynamicObject as Resource>::Scope;

    fn kind(resource: &Self::DynamicType) -> Cow<'_, str> {
        DynamicObject::kind(resource)
    }

    fn group(resource: &Self::DynamicType) -> Cow<'_, str> {
        DynamicObject::group(resource)
    }

    fn version(resource: &Self::DynamicType) -> Cow<'_, str> {
        DynamicObject::version(resource)
    }

    fn plural(resource: &Self::DynamicType) -> Cow<'_, str> {
        DynamicObject::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{ObjectList, WatchEvent};
    use llsd_api::labels::FIELD_MANAGER;
    use serde_json::json;

    use super::*;

    fn object(manager: &str, operation: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "demo", "namespace": "team", "uid": "1", "resourceVersion": "7", "generation": 2,
                "creationTimestamp": "2026-11-19T08:00:00Z", "deletionTimestamp": "2026-11-19T09:00:00Z",
                "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/wait"],
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": "2", "controller": true,
                }],
                "managedFields": [{
                    "manager": manager, "operation": operation, "apiVersion": "apps/v1",
                    "time": "2026-11-19T08:00:00Z", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}},
                }],
            },
            "spec": {"replicas": 1}, "status": {},
        })
    }

    #[test]
    fn an_object_is_the_same_as_that_of_kube_except_for_managed_fields() {
        let text = object(FIELD_MANAGER, "Apply").to_string();
        let ReceivedObject(received) = serde_json::from_str(&text).unwrap();
        let mut expected: DynamicObject = serde_json::from_str(&text).unwrap();
        expected.metadata.managed_fields = None;
        assert_eq!(received, expected);
    }

    #[test]
    fn managed_fields_of_upstream_are_kept() {
        for (manager, operation) in [("manager", "Update"), ("demo", "Apply")] {
            let text = object(manager, operation).to_string();
            let ReceivedObject(received) = serde_json::from_str(&text).unwrap();
            let expected: DynamicObject = serde_json::from_str(&text).unwrap();
            assert!(received.metadata.managed_fields.is_some());
            assert_eq!(received, expected);
        }
    }

    #[test]
    fn lists_and_watches_deliver_objects() {
        let object = object("kubectl", "Update");
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [object]});
        let list: ObjectList<ReceivedObject> = serde_json::from_str(&list.to_string()).unwrap();
        assert_eq!(list.items[0].0.data["spec"]["replicas"], 1);
        let event = format!(r#"{{"type": "ADDED", "object": {object}}}"#);
        let event: WatchEvent<ReceivedObject> = serde_json::from_str(&event).unwrap();
        assert!(
            matches!(event, WatchEvent::Added(ReceivedObject(one)) if one.data["spec"]["replicas"] == 1)
        );
    }
}
