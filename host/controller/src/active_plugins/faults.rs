//! Counts the consecutive faults of plugins and quarantines a component after too many.
//!
//! A fault is an error of the plugin, not of the user: a trap, output that violates the contract, or
//! an exceeded limit. A timeout on a busy machine does not count. Quarantine affects only plugins
//! from registries; nothing could replace a built-in one.

use std::collections::{BTreeMap, BTreeSet};

use futures::Stream;
use llsd_render::adapter::{Fault, FaultKind};
use llsd_render::{GenerateError, Generated};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::changes;

/// Consecutive faults until a component is quarantined.
const MAX_FAULTS: u32 = 5;

/// Fault counts by component digest.
#[derive(Default)]
pub(crate) struct Faults {
    counts: Mutex<Counts>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Counts {
    consecutive: BTreeMap<String, u32>,
    quarantined: BTreeSet<String>,
}

impl Faults {
    /// Records the result of a generation.
    pub(crate) fn record(&self, result: Result<&Generated, &GenerateError>) {
        match result {
            Ok(generated) => {
                self.counts
                    .lock()
                    .consecutive
                    .remove(&generated.receipt.component);
            }
            Err(GenerateError::Fault(fault)) => self.count(fault),
            Err(_) => {}
        }
    }

    /// Whether a component is quarantined.
    pub(crate) fn is_quarantined(&self, digest: &str) -> bool {
        self.counts.lock().quarantined.contains(digest)
    }

    /// Quarantines components, as the status of a `SchemaPlugin` records.
    pub(crate) fn quarantine(&self, digests: &[String]) {
        self.counts
            .lock()
            .quarantined
            .extend(digests.iter().cloned());
    }

    /// Releases components from quarantine and resets their counts.
    pub(crate) fn release(&self, digests: &[String]) {
        let mut counts = self.counts.lock();
        for digest in digests {
            counts.quarantined.remove(digest);
            counts.consecutive.remove(digest);
        }
    }

    /// Yields each time a component is quarantined.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.changed.subscribe())
    }

    fn count(&self, fault: &Fault) {
        if matches!(fault.kind, FaultKind::OutOfTime { .. }) {
            return;
        }
        let mut counts = self.counts.lock();
        let count = counts.consecutive.entry(fault.digest.clone()).or_default();
        *count += 1;
        if *count >= MAX_FAULTS && counts.quarantined.insert(fault.digest.clone()) {
            tracing::warn!(%fault, "plugin failed {MAX_FAULTS} times in a row and is quarantined");
            self.changed.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: FaultKind) -> GenerateError {
        GenerateError::Fault(Fault {
            plugin: "x".to_owned(),
            digest: "sha256:1".to_owned(),
            call: "assemble",
            kind,
        })
    }

    #[test]
    fn consecutive_faults_quarantine_a_component_and_timeouts_do_not() {
        let faults = Faults::default();
        for _ in 0..2 * MAX_FAULTS {
            faults.record(Err(&fault(FaultKind::OutOfTime { limit_ms: 1 })));
        }
        assert!(!faults.is_quarantined("sha256:1"));
        for _ in 1..MAX_FAULTS {
            faults.record(Err(&fault(FaultKind::OutOfFuel { limit: 1 })));
        }
        assert!(!faults.is_quarantined("sha256:1"));
        faults.record(Err(&fault(FaultKind::OutOfFuel { limit: 1 })));
        assert!(faults.is_quarantined("sha256:1"));
        faults.release(&["sha256:1".to_owned()]);
        faults.record(Err(&fault(FaultKind::OutOfFuel { limit: 1 })));
        assert!(!faults.is_quarantined("sha256:1"));
    }
}
