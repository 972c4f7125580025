//! What a process knows of all revisions: their numbers, and the newest resolution of each resource.
//!
//! Resolutions are compressed, and all of them share a limit. Resources are known by their uid, because a
//! deleted resource and a new one can have the same name.

use std::collections::{BTreeSet, HashMap, HashSet};

use kube::ResourceExt;
use llsd_render::objects::{ConfigPlan, Owner};
use llsd_render::{Generated, digest};

use super::{Basis, Resolution, number, owner_uid};
use crate::cache::{ClusterCache, Packed};

/// Memory for compressed resolutions: tens of thousands of them.
const MAX_BYTES: usize = 64 << 20;

/// What a process knows of all revisions.
#[derive(Default)]
pub(super) struct State {
    /// The numbers of the revisions of each resource, by its uid. `None` until the first use: only the
    /// leader writes revisions, so that a list at that time and its own writes are complete.
    pub(super) numbers: Option<HashMap<String, BTreeSet<i64>>>,
    /// The newest resolution of each resource, by its uid.
    resolutions: HashMap<String, PackedResolution>,
    bytes: usize,
    /// The uid of each resource, by namespace and name.
    pub(super) uids: HashMap<(String, String), String>,
    /// The uids of resources that were listed and have no recorded resolution yet. They may be older
    /// than this process.
    pub(super) listed: HashSet<String>,
}

/// A resolution in memory.
pub(super) struct PackedResolution {
    /// The namespace and name of its revision. An object of another namespace can claim any owner.
    namespace: String,
    name: String,
    pub(super) packed: Packed,
    /// See [`pod_digest`].
    pod_digest: Option<String>,
    pub(super) basis: Option<Basis>,
}

impl State {
    /// The numbers of the revisions of each resource, by its uid.
    pub(super) fn numbers(&mut self, cache: &ClusterCache) -> &mut HashMap<String, BTreeSet<i64>> {
        self.numbers.get_or_insert_with(|| numbers_in(cache))
    }

    /// The resolution of a resource, if it is that of the revision `name`.
    pub(super) fn resolution(&self, owner: &Owner, name: &str) -> Option<&PackedResolution> {
        let resolution = self.resolutions.get(&owner.uid)?;
        (resolution.namespace == owner.namespace && resolution.name == name).then_some(resolution)
    }

    /// Whether the resolution in effect is known to have a configuration with this [`pod_digest`].
    pub(super) fn has_configuration(&self, owner: &Owner, digest: &str) -> bool {
        let numbers = self.numbers.as_ref();
        let newest = numbers.and_then(|all| all.get(&owner.uid)?.last());
        // A replica that was not the leader may have an older one.
        let resolution = self.resolutions.get(&owner.uid);
        let resolution = resolution
            .filter(|one| one.namespace == owner.namespace && number(&one.name).as_ref() == newest);
        resolution.is_some_and(|one| one.pod_digest.as_deref() == Some(digest))
    }

    /// The number of the revision whose resolution is stored.
    pub(super) fn stored_number(&self, uid: &str) -> Option<i64> {
        number(&self.resolutions.get(uid)?.name)
    }

    /// Stores a resolution. Any other one makes room for it, because all are equally likely to be
    /// needed next.
    pub(super) fn store(&mut self, uid: &str, resolution: PackedResolution) {
        self.forget(uid);
        while self.bytes + resolution.packed.len() > MAX_BYTES {
            let Some(other) = self.resolutions.keys().next().cloned() else {
                return;
            };
            self.forget(&other);
        }
        self.bytes += resolution.packed.len();
        self.resolutions.insert(uid.to_owned(), resolution);
    }

    /// The bytes of all stored resolutions.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops what is stored for a deleted resource.
    pub(super) fn forget_resource(&mut self, uid: &str) {
        self.forget(uid);
        self.listed.remove(uid);
        if let Some(numbers) = &mut self.numbers {
            numbers.remove(uid);
        }
    }

    fn forget(&mut self, uid: &str) {
        if let Some(resolution) = self.resolutions.remove(uid) {
            self.bytes -= resolution.packed.len();
        }
    }
}

impl PackedResolution {
    /// The resolution of the revision `name`, and the same compressed.
    pub(super) fn new(
        namespace: String,
        name: String,
        resolution: &Resolution,
        packed: Packed,
    ) -> Self {
        Self {
            namespace,
            name,
            packed,
            pod_digest: match &resolution.plan {
                ConfigPlan::Generated(generated) => Some(pod_digest(generated)),
                ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => None,
            },
            basis: Basis::of(resolution),
        }
    }
}

/// The numbers of all revisions in the cache, by the uid of their resource.
fn numbers_in(cache: &ClusterCache) -> HashMap<String, BTreeSet<i64>> {
    let mut numbers: HashMap<String, BTreeSet<i64>> = HashMap::new();
    let all = cache.revisions.select(|head| {
        Some((
            owner_uid(head.owner_references())?,
            number(&head.name_any())?,
        ))
    });
    for (uid, number) in all {
        numbers.entry(uid).or_default().insert(number);
    }
    numbers
}

/// Digest of the parts of a configuration that its pods depend on.
pub(super) fn pod_digest(generated: &Generated) -> String {
    let Generated {
        receipt,
        variables,
        startup,
        ..
    } = generated;
    // The digest of the file stands for the file. Writing to memory cannot fail, and all keys are strings.
    digest::of(serde_json::to_vec(&(&receipt.output, variables, startup)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use llsd_api::labels;

    use super::*;
    use crate::cache::Packer;

    fn owner(namespace: &str) -> Owner {
        Owner {
            namespace: namespace.to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
            pod_app: labels::PRODUCT,
        }
    }

    fn state(namespace: &str) -> State {
        let resolution = PackedResolution {
            namespace: namespace.to_owned(),
            name: "demo-rev-1".to_owned(),
            packed: Packer::<Vec<u8>>::new().pack(&vec![7]),
            pod_digest: None,
            basis: None,
        };
        let mut state = State::default();
        state.store("1", resolution);
        state
    }

    #[test]
    fn an_object_of_another_namespace_is_not_the_resolution_of_a_resource() {
        let state = state("hostile");
        assert!(state.resolution(&owner("team"), "demo-rev-1").is_none());
        assert!(state.resolution(&owner("hostile"), "demo-rev-1").is_some());
        assert!(state.resolution(&owner("hostile"), "demo-rev-2").is_none());
    }

    #[test]
    fn nothing_is_kept_of_a_deleted_resource() {
        let mut state = state("team");
        state.listed.insert("1".to_owned());
        state.numbers = Some(HashMap::from([("1".to_owned(), BTreeSet::from([1]))]));
        state.forget_resource("1");
        assert_eq!(state.bytes, 0);
        assert!(state.resolutions.is_empty() && state.listed.is_empty());
        assert_eq!(state.numbers, Some(HashMap::new()));
    }
}
