//! Plugins that images propose by label. A proposal has no effect until a `SchemaPlugin` allows it.
//!
//! Everyone who may create resources decides which images are read. So only proposals under a prefix that a
//! `SchemaPlugin` allows are stored, each namespace has its share, and old ones are evicted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::Stream;
use llsd_registry::signature::Verification;
use llsd_registry::{Policy, Reference, Rule};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::changes;

/// Far more than a cluster has distributions.
const MAX_PROPOSALS: usize = 256;
/// The share of one namespace. A namespace rarely uses more than one distribution.
const MAX_PROPOSALS_PER_NAMESPACE: usize = 8;

/// The proposals since the operator started.
#[derive(Default)]
pub(crate) struct ImageProposals {
    proposals: Mutex<Proposals>,
    changed: watch::Sender<()>,
    prefixes: watch::Sender<BTreeSet<String>>,
}

/// By namespace, the proposals in the order of their last use.
#[derive(Default)]
struct Proposals(BTreeMap<String, VecDeque<Proposed>>);

struct Proposed {
    reference: String,
    image: String,
}

impl ImageProposals {
    /// Records the plugin that an image in a namespace proposes, if a prefix allows it.
    pub(crate) fn record(&self, namespace: &str, image: &str, reference: &str) {
        if self.is_allowed(reference) && self.proposals.lock().add(namespace, image, reference) {
            self.changed.send_replace(());
        }
    }

    /// Sets the prefixes under which plugins may be proposed.
    pub(crate) fn set_prefixes(&self, prefixes: BTreeSet<String>) {
        self.prefixes.send_if_modified(|known| {
            let is_changed = *known != prefixes;
            *known = prefixes;
            is_changed
        });
    }

    /// Every proposal: the image, by plugin reference.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let proposals = self.proposals.lock();
        let all = proposals.0.values().flatten();
        all.map(|one| (one.reference.clone(), one.image.clone()))
            .collect()
    }

    /// Yields each time a new plugin is proposed.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.changed.subscribe())
    }

    /// Yields each time the prefixes change. Then proposals that were ignored must be recorded again.
    pub(crate) fn prefix_changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.prefixes.subscribe())
    }

    fn is_allowed(&self, reference: &str) -> bool {
        let Ok(reference) = reference.parse::<Reference>() else {
            return false;
        };
        let prefixes = self.prefixes.borrow();
        let rules = prefixes.iter();
        let policy = Policy {
            rules: rules
                .map(|prefix| Rule::new(prefix.clone(), Verification::skip()))
                .collect(),
        };
        policy.admit(&reference).is_ok()
    }
}

impl Proposals {
    /// Adds a proposal. Returns whether it is new.
    fn add(&mut self, namespace: &str, image: &str, reference: &str) -> bool {
        let own = self.0.entry(namespace.to_owned()).or_default();
        let position = own.iter().position(|one| one.reference == reference);
        let proposed = position
            .and_then(|at| own.remove(at))
            .unwrap_or_else(|| Proposed {
                reference: reference.to_owned(),
                image: image.to_owned(),
            });
        own.push_back(proposed);
        if own.len() > MAX_PROPOSALS_PER_NAMESPACE {
            own.pop_front();
        }
        while self.0.values().map(VecDeque::len).sum::<usize>() > MAX_PROPOSALS {
            self.evict();
        }
        position.is_none()
    }

    /// Evicts the oldest proposal of the namespace that has the most.
    fn evict(&mut self) {
        let largest = self.0.iter_mut().max_by_key(|(_, own)| own.len());
        if let Some((_, own)) = largest {
            own.pop_front();
        }
        self.0.retain(|_, own| !own.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowing(prefix: &str) -> ImageProposals {
        let proposals = ImageProposals::default();
        proposals.set_prefixes([prefix.to_owned()].into());
        proposals
    }

    #[test]
    fn proposals_that_no_prefix_allows_are_not_stored() {
        let proposals = ImageProposals::default();
        proposals.record("ns", "image", "quay.io/acme/x:1");
        assert!(proposals.all().is_empty());
        proposals.set_prefixes(["quay.io/acme".to_owned()].into());
        for reference in ["quay.io/acme-evil/x:1", "ghcr.io/x:1", "not a reference"] {
            proposals.record("ns", "image", reference);
        }
        assert!(proposals.all().is_empty());
        proposals.record("ns", "image", "quay.io/acme/x:1");
        assert_eq!(proposals.all()["quay.io/acme/x:1"], "image");
    }

    #[test]
    fn a_namespace_with_many_proposals_does_not_displace_those_of_others() {
        let proposals = allowing("quay.io/acme");
        proposals.record("fair", "image", "quay.io/acme/fair:1");
        for number in 0..1000 {
            let reference = format!("quay.io/acme/{number}:1");
            proposals.record("greedy", "image", &reference);
        }
        let all = proposals.all();
        assert_eq!(all.len(), 1 + MAX_PROPOSALS_PER_NAMESPACE);
        assert!(all.contains_key("quay.io/acme/fair:1"));
        assert!(
            all.contains_key("quay.io/acme/999:1"),
            "old ones are evicted"
        );
    }

    #[test]
    fn many_namespaces_share_the_total_and_a_new_one_gets_in() {
        let proposals = allowing("quay.io/acme");
        for namespace in 0..100 {
            for number in 0..MAX_PROPOSALS_PER_NAMESPACE {
                let reference = format!("quay.io/acme/{namespace}-{number}:1");
                proposals.record(&namespace.to_string(), "image", &reference);
            }
        }
        assert_eq!(proposals.all().len(), MAX_PROPOSALS);
        proposals.record("new", "image", "quay.io/acme/new:1");
        assert!(proposals.all().contains_key("quay.io/acme/new:1"));
    }
}
