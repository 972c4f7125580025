//! How often plugins failed. One from a registry that fails too often in a row is not used again; one that
//! the operator was given has nothing that could take its place.
//!
//! A fault is the plugin's, never the user's: a trap, an answer outside the contract, a limit that it
//! ran into. Being slow on a busy machine does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::Stream;
use llsd_render::adapter::{Fault, FaultKind};
use llsd_render::{Generated, Refusal};
use tokio::sync::watch;

use super::changes;
use crate::expand::Error;

/// Faults in a row until a component is put aside.
const MOST: u32 = 5;

/// Counts by component digest.
#[derive(Default)]
pub(crate) struct Faults {
    counts: Mutex<Counts>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Counts {
    in_a_row: BTreeMap<String, u32>,
    quarantined: BTreeSet<String>,
}

impl Faults {
    /// Takes note of how a generation ended.
    pub(crate) fn note(&self, outcome: &Result<Generated, Error>) {
        match outcome {
            Ok(generated) => {
                self.lock().in_a_row.remove(&generated.receipt.component);
            }
            Err(Error::Refused(Refusal::Fault(fault))) => self.failed(fault),
            Err(_) => {}
        }
    }

    /// Whether a component is put aside.
    pub(crate) fn is_quarantined(&self, digest: &str) -> bool {
        self.lock().quarantined.contains(digest)
    }

    /// Puts components aside that an operator before this one did.
    pub(crate) fn remember(&self, digests: &[String]) {
        self.lock().quarantined.extend(digests.iter().cloned());
    }

    /// Gives components another chance.
    pub(crate) fn forgive(&self, digests: &[String]) {
        let mut counts = self.lock();
        for digest in digests {
            counts.quarantined.remove(digest);
            counts.in_a_row.remove(digest);
        }
    }

    /// Fires each time a component is put aside.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.changed.subscribe())
    }

    fn failed(&self, fault: &Fault) {
        if matches!(fault.kind, FaultKind::OutOfTime { .. }) {
            return;
        }
        let mut counts = self.lock();
        let count = counts.in_a_row.entry(fault.digest.clone()).or_default();
        *count += 1;
        if *count >= MOST && counts.quarantined.insert(fault.digest.clone()) {
            tracing::warn!(%fault, "the plugin failed {MOST} times in a row");
            self.changed.send_replace(());
        }
    }

    /// The counts are plain data, which a panic elsewhere cannot leave half-changed.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: FaultKind) -> Result<Generated, Error> {
        Err(Error::Refused(Refusal::Fault(Fault {
            plugin: "x".to_owned(),
            digest: "sha256:1".to_owned(),
            call: "assemble",
            kind,
        })))
    }

    #[test]
    fn faults_in_a_row_put_a_component_aside_and_slowness_does_not() {
        let faults = Faults::default();
        for _ in 0..2 * MOST {
            faults.note(&fault(FaultKind::OutOfTime { limit_ms: 1 }));
        }
        assert!(!faults.is_quarantined("sha256:1"));
        for _ in 1..MOST {
            faults.note(&fault(FaultKind::OutOfFuel { granted: 1 }));
        }
        assert!(!faults.is_quarantined("sha256:1"));
        faults.note(&fault(FaultKind::OutOfFuel { granted: 1 }));
        assert!(faults.is_quarantined("sha256:1"));
        faults.forgive(&["sha256:1".to_owned()]);
        faults.note(&fault(FaultKind::OutOfFuel { granted: 1 }));
        assert!(!faults.is_quarantined("sha256:1"));
    }
}
