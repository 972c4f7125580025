//! A resource as lists and watches deliver it, readable or not.
//!
//! The API server stores what the schema allows, and the schema does not limit what is inside untyped
//! fields. If one resource failed to deserialize, the whole list that contains it would fail, and nobody's
//! resources would be reconciled. So each resource is deserialized by itself, after it was measured; of one
//! that cannot be read, only the name is kept. One that can be read is kept compressed.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use llsd_api::Distribution;
use llsd_api::limits::JsonSize;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::packed::{Packed, Packer};

/// Length of the problem in logs: enough for the field and its value.
const MAX_PROBLEM_CHARS: usize = 300;

/// Deserialization has no other context.
static PACKER: Packer<Distribution> = Packer::new();

/// A resource, or why it cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct WatchedResource {
    /// What identifies the resource, and nothing else.
    metadata: ObjectMeta,
    /// Whether the status is about the current spec.
    is_reported: bool,
    /// The resource, or what is wrong and what its author can do about it.
    content: Result<Packed, String>,
}

impl WatchedResource {
    /// The resource, or why it cannot be read.
    pub(crate) fn read(&self) -> Result<Distribution, String> {
        let content = self.content.as_ref().map_err(String::clone)?;
        let read = PACKER.unpack(content);
        read.ok_or_else(|| "failed to read the stored copy of the resource".to_owned())
    }

    /// The bytes of the resource.
    pub(super) fn bytes(&self) -> usize {
        self.content.as_ref().map_or_else(String::len, Packed::len)
    }

    /// Whether the status is about the current spec. A resource that cannot be read counts as reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.is_reported
    }
}

/// The identity of an object. Parsing it skips everything else without recursion.
#[derive(Deserialize)]
struct Identified {
    metadata: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
}

impl<'de> Deserialize<'de> for WatchedResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let json = raw.get();
        let content = read(json).map_err(abbreviated);
        let metadata = match &content {
            Ok(resource) => identity(&resource.metadata),
            Err(_) => {
                let identified = serde_json::from_str(json).map_err(D::Error::custom);
                let Identified { metadata } = identified?;
                metadata.into()
            }
        };
        Ok(Self {
            metadata,
            is_reported: content.as_ref().map_or(true, is_reported),
            content: content.map(|resource| PACKER.pack(&resource)),
        })
    }
}

fn read(json: &str) -> Result<Distribution, String> {
    if let Some(error) = JsonSize::measure(json).exceeded_by_object() {
        return Err(error.to_string());
    }
    let read = serde_json::from_str(json).map_err(|error| error.to_string());
    read.map(|mut resource: Distribution| {
        // They are half of a resource, and nothing reads them.
        resource.metadata.managed_fields = None;
        resource
    })
}

fn is_reported(resource: &Distribution) -> bool {
    let status = resource.status.as_ref();
    status.is_some_and(|status| status.observed_generation == resource.metadata.generation)
}

fn identity(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
        ..ObjectMeta::default()
    }
}

fn abbreviated(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_PROBLEM_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        let Identity {
            name,
            namespace,
            uid,
            resource_version,
            generation,
        } = identity;
        Self {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            ..Self::default()
        }
    }
}

impl Resource for WatchedResource {
    type DynamicType = <Distribution as Resource>::DynamicType;
    type Scope = <Distribution as Resource>::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        Distribution::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        Distribution::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        Distribution::version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        Distribution::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use kube::api::{ObjectList, WatchEvent};

    use super::*;

    fn resource(name: &str, settings: &str) -> String {
        format!(
            r#"{{"apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
                "metadata": {{"name": "{name}", "namespace": "n", "resourceVersion": "7",
                    "managedFields": [{{"fieldsV1": {settings}}}]}},
                "spec": {{"distribution": {{"name": "starter"}},
                    "providers": {{"inference": {{"provider": "vllm", "settings": {settings}}}}}}}}}"#
        )
    }

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    /// Issue I, row 2.
    #[test]
    fn one_unreadable_resource_does_not_hide_the_others_of_a_list() {
        let many_values = format!("[{}]", vec!["0"; 200_000].join(","));
        for bad in [nested(135), nested(5_000), many_values, "7".to_owned()] {
            let list = format!(
                r#"{{"apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistributionList",
                    "metadata": {{"resourceVersion": "9"}}, "items": [{}, {}, {}]}}"#,
                resource("first", "{}"),
                resource("bad", &bad).replacen(r#""name": "starter""#, r#""name": []"#, 1),
                resource("last", r#"{"a": 1}"#),
            );
            let list: ObjectList<WatchedResource> = serde_json::from_str(&list).unwrap();
            let names: Vec<_> = list
                .items
                .iter()
                .map(|one| (one.name_any(), one.read().is_ok()))
                .collect();
            let expected = [("first", true), ("bad", false), ("last", true)];
            assert_eq!(names, expected.map(|(name, is)| (name.to_owned(), is)));
            let unreadable = &list.items[1];
            let problem = unreadable.read().unwrap_err();
            assert!(problem.len() < 1_000, "{problem}");
            assert_eq!(unreadable.resource_version().as_deref(), Some("7"));
        }
    }

    #[test]
    fn an_unreadable_resource_is_an_event_of_a_watch() {
        let event = format!(
            r#"{{"type": "MODIFIED", "object": {}}}"#,
            resource("bad", &nested(135))
        );
        let event: WatchEvent<WatchedResource> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(resource) = event else {
            panic!("{event:?}");
        };
        assert_eq!(resource.name_any(), "bad");
        let problem = resource.read().unwrap_err();
        assert!(problem.contains("nested deeper than"), "{problem}");
    }

    #[test]
    fn a_resource_is_reported_once_its_status_is_about_its_current_spec() {
        let is_reported = |generation: u32, status: &str| {
            let text = format!(
                r#"{{"apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
                    "metadata": {{"name": "a", "namespace": "n", "generation": {generation}}},
                    "spec": {{"distribution": {{"name": "starter"}}}}{status}}}"#
            );
            let resource: WatchedResource = serde_json::from_str(&text).unwrap();
            resource.is_reported()
        };
        let reported = r#", "status": {"observedGeneration": 2}"#;
        assert!(is_reported(2, reported));
        assert!(!is_reported(3, reported), "the spec changed since");
        assert!(!is_reported(1, ""), "it is new");
    }
}
