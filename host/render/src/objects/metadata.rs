//! Names, labels and owner references of the objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use llsd_api::{API_VERSION_V1ALPHA2, KIND, labels};

use super::Owner;

/// Metadata of the object `<resource><suffix>`.
pub(super) fn metadata(owner: &Owner, suffix: &str) -> ObjectMeta {
    let labels = [
        (labels::MANAGED_BY, labels::MANAGER),
        (labels::PART_OF, labels::PRODUCT),
        (labels::WATCH, "true"),
    ];
    ObjectMeta {
        name: Some(format!("{}{suffix}", owner.name)),
        namespace: Some(owner.namespace.clone()),
        labels: Some(string_map(labels)),
        owner_references: Some(vec![OwnerReference {
            api_version: API_VERSION_V1ALPHA2.to_owned(),
            kind: KIND.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// The labels that select the pods. They must never change, because selectors are immutable.
pub(super) fn selector(owner: &Owner) -> BTreeMap<String, String> {
    string_map([
        (labels::APP, owner.pod_app),
        (labels::INSTANCE, owner.name.as_str()),
    ])
}

/// The same as the text of a label selector, such as `app=llama-stack,…`.
pub fn pod_selector(owner: &Owner) -> String {
    let labels = selector(owner).into_iter();
    let terms: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    terms.join(",")
}

pub(super) fn string_map<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
