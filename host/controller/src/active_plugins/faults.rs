//! Records how plugins end for each author of resources, and quarantines a component that fails for most.
//!
//! A fault is a trap, output that violates the contract, or an exceeded limit. It may be the fault of the
//! plugin or of its input, and one author must not be able to take a plugin away from all others. So a
//! fault counts as the input's, until resources of several authors fail and they are the majority of those
//! who use the plugin. A timeout on a busy machine does not count. Quarantine affects only plugins
//! from registries; nothing could replace a built-in one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::Stream;
use llsd_render::adapter::{Fault, FaultKind};
use llsd_render::{GenerateError, Generated};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::changes;

/// Faults of all authors together until a component is quarantined.
const MAX_FAULTS: u32 = 5;

/// Authors that must fail.
const MIN_AUTHORS: usize = 2;

/// How long the result of an author counts: longer than the time between two regular reconciliations, so
/// that every author for whom the plugin works is known.
const WINDOW: Duration = Duration::from_secs(2 * 3600);

/// The results of components, by digest.
#[derive(Default)]
pub(crate) struct Faults {
    records: Mutex<Records>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Records {
    by_component: BTreeMap<String, BTreeMap<String, Record>>,
    /// By digest: the `SchemaPlugin` that the component belongs to, once its status records the quarantine.
    quarantined: BTreeMap<String, Option<String>>,
}

/// The newest results of one author.
struct Record {
    /// Faults since the last success.
    faults: u32,
    at: Instant,
}

impl Faults {
    /// Records the result of a generation for an author: the namespace of the resource, or its name if the
    /// operator serves one namespace only.
    pub(crate) fn record(
        &self,
        author: &str,
        result: Result<&Generated, &GenerateError>,
        now: Instant,
    ) {
        match result {
            Ok(generated) => {
                self.succeeded(author, &generated.receipt.component, now);
                for fault in &generated.skipped {
                    self.failed(author, fault, now);
                }
            }
            Err(GenerateError::Fault(fault)) => self.failed(author, fault, now),
            Err(_) => {}
        }
    }

    /// Whether a component is quarantined.
    pub(crate) fn is_quarantined(&self, digest: &str) -> bool {
        self.records.lock().quarantined.contains_key(digest)
    }

    /// Quarantines components, as the status of a `SchemaPlugin` records.
    pub(crate) fn quarantine(&self, schema_plugin: &str, digests: &[String]) {
        let of_plugin = digests
            .iter()
            .map(|digest| (digest.clone(), Some(schema_plugin.to_owned())));
        self.records.lock().quarantined.extend(of_plugin);
    }

    /// Releases the components of all `SchemaPlugin`s that do not exist any more. Returns whether there
    /// were any.
    pub(super) fn release_deleted(&self, exists: impl Fn(&str) -> bool) -> bool {
        let mut records = self.records.lock();
        let before = records.quarantined.len();
        let quarantined = &mut records.quarantined;
        quarantined.retain(|_, plugin| plugin.as_deref().is_none_or(&exists));
        quarantined.len() != before
    }

    /// Releases components from quarantine and deletes their records.
    pub(crate) fn release(&self, digests: &[String]) {
        let mut records = self.records.lock();
        for digest in digests {
            records.quarantined.remove(digest);
            records.by_component.remove(digest);
        }
    }

    /// Yields each time a component is quarantined.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.changed.subscribe())
    }

    fn succeeded(&self, author: &str, digest: &str, now: Instant) {
        let mut records = self.records.lock();
        let authors = records.by_component.entry(digest.to_owned()).or_default();
        authors.insert(author.to_owned(), Record { faults: 0, at: now });
    }

    fn failed(&self, author: &str, fault: &Fault, now: Instant) {
        if matches!(fault.kind, FaultKind::OutOfTime { .. }) {
            return;
        }
        let mut records = self.records.lock();
        let Records {
            by_component,
            quarantined,
        } = &mut *records;
        let authors = by_component.entry(fault.digest.clone()).or_default();
        authors.retain(|_, record| now.duration_since(record.at) < WINDOW);
        let record = authors.entry(author.to_owned());
        let record = record.or_insert(Record { faults: 0, at: now });
        record.faults += 1;
        record.at = now;
        let failing = authors.values().filter(|record| record.faults > 0);
        let (count, faults) = failing.fold((0, 0), |(count, faults), record| {
            (count + 1, faults + record.faults)
        });
        let is_most = 2 * count > authors.len();
        if count >= MIN_AUTHORS
            && is_most
            && faults >= MAX_FAULTS
            && !quarantined.contains_key(&fault.digest)
        {
            quarantined.insert(fault.digest.clone(), None);
            tracing::warn!(%fault, authors = count, faults, "a plugin failed for most of its users and is quarantined");
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
            digest: DIGEST.to_owned(),
            call: "assemble",
            kind,
        })
    }

    const DIGEST: &str = "sha256:1";
    const OUT_OF_FUEL: FaultKind = FaultKind::OutOfFuel { limit: 1 };

    fn fail(faults: &Faults, author: &str, times: u32) {
        for _ in 0..times {
            faults.record(author, Err(&fault(OUT_OF_FUEL)), Instant::now());
        }
    }

    #[test]
    fn faults_of_several_authors_quarantine_a_component_and_timeouts_do_not() {
        let faults = Faults::default();
        for author in ["a", "b"] {
            for _ in 0..2 * MAX_FAULTS {
                let timeout = fault(FaultKind::OutOfTime { limit_ms: 1 });
                faults.record(author, Err(&timeout), Instant::now());
            }
        }
        fail(&faults, "a", MAX_FAULTS - 2);
        fail(&faults, "b", 1);
        assert!(!faults.is_quarantined(DIGEST));
        fail(&faults, "b", 1);
        assert!(faults.is_quarantined(DIGEST));
        faults.release(&[DIGEST.to_owned()]);
        fail(&faults, "a", 1);
        assert!(!faults.is_quarantined(DIGEST));
    }

    /// Issue I, row 3.
    #[test]
    fn one_author_cannot_quarantine_a_component() {
        let faults = Faults::default();
        fail(&faults, "hostile", 100);
        assert!(!faults.is_quarantined(DIGEST));
    }

    #[test]
    fn a_component_that_works_for_most_authors_is_not_quarantined() {
        let faults = Faults::default();
        for author in ["a", "b", "c"] {
            faults.succeeded(author, DIGEST, Instant::now());
        }
        fail(&faults, "d", 10);
        fail(&faults, "e", 10);
        fail(&faults, "f", 10);
        assert!(!faults.is_quarantined(DIGEST));
        fail(&faults, "a", 1);
        assert!(faults.is_quarantined(DIGEST));
    }

    #[test]
    fn an_old_result_does_not_count() {
        let faults = Faults::default();
        let old = Instant::now();
        for _ in 0..MAX_FAULTS {
            faults.record("a", Err(&fault(OUT_OF_FUEL)), old);
        }
        faults.record("b", Err(&fault(OUT_OF_FUEL)), old + WINDOW);
        assert!(!faults.is_quarantined(DIGEST));
    }
}
