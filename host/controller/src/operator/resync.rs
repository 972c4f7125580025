//! Reconciles every resource once an hour: a safety net in case a watch misses a change.
//!
//! A delay for each resource in kube's scheduler would take kilobytes of memory.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use kube::ResourceExt;

use crate::cache::{ReconcileTrigger, ResourceStore};

/// The time between two parts.
const INTERVAL: Duration = Duration::from_secs(60);
/// The parts that the resources are divided into, so that they are not reconciled all at once.
const PARTS: u64 = 60;

/// Requests a reconciliation of each resource, one part after the other, forever.
pub(super) async fn resync(resources: ResourceStore, trigger: ReconcileTrigger) {
    for part in (0..PARTS).cycle() {
        tokio::time::sleep(INTERVAL).await;
        request(&resources, &trigger, part);
    }
}

/// Requests a reconciliation of each resource of a part.
fn request(resources: &ResourceStore, trigger: &ReconcileTrigger, part: u64) {
    for resource in resources.all() {
        let (namespace, name) = (
            resource.namespace().unwrap_or_default(),
            resource.name_any(),
        );
        if part_of(&namespace, &name) == part {
            trigger.request(&namespace, &name);
        }
    }
}

/// The part of a resource.
fn part_of(namespace: &str, name: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one((namespace, name)) % PARTS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::{StreamExt, stream};
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn every_resource_is_in_one_part() {
        let names: BTreeSet<String> = (0..200).map(|number| format!("r-{number}")).collect();
        let resource = |name: &String| {
            let resource = json!({
                "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
                "metadata": {"name": name, "namespace": "n"}, "spec": {},
            });
            let resource = serde_json::from_value(resource).expect("a resource");
            Ok(Event::Apply(resource))
        };
        let (store, writer) = ResourceStore::new();
        let resources: Vec<_> = names.iter().map(resource).collect();
        writer.write(stream::iter(resources)).count().await;
        let (trigger, triggered) = ReconcileTrigger::new();
        for part in 0..PARTS {
            request(&store, &trigger, part);
        }
        // The stream ends with its trigger.
        drop(trigger);
        let requested: Vec<String> = triggered.map(|one| one.name).collect().await;
        assert_eq!(requested.len(), names.len());
        assert_eq!(BTreeSet::from_iter(requested), names);
    }
}
