//! What was read, what is being read, and the limits of what is kept for each namespace.
//!
//! The contents of one namespace never displace those of a namespace that keeps less.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use llsd_registry::BaseConfig;
use tokio::sync::watch;

use super::{Error, Puller, retry};

/// The most reads that are kept for one namespace, finished or not.
pub(super) const MAX_READS: usize = 512;
/// The most bytes that are kept for one namespace. The largest base configuration has 1 MiB, a
/// published one 60 KB.
const NAMESPACE_BYTES: usize = 8 << 20;
/// The most bytes that are kept for all namespaces.
const TOTAL_BYTES: usize = 48 << 20;
/// How long a content is used before it is read again. As long as the registry client caches the
/// digest of a tag.
const REFRESH: Duration = Duration::from_secs(300);

/// Namespace and name of a resource.
pub(super) type Resource = (String, String);

/// One read: what is read, and with whose credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) image: String,
    /// The file; `None` for the base configuration.
    pub(super) path: Option<String>,
    pub(super) puller: Puller,
}

impl Key {
    pub(super) fn base(image: &str, puller: &Puller) -> Self {
        Self {
            image: image.to_owned(),
            path: None,
            puller: puller.clone(),
        }
    }

    pub(super) fn file(image: &str, path: &str, puller: &Puller) -> Self {
        Self {
            path: Some(path.to_owned()),
            ..Self::base(image, puller)
        }
    }
}

/// What a read returned.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Base(Arc<BaseConfig>),
    File(Arc<[u8]>),
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Self::Base(base) => {
                let labels = base
                    .hints
                    .iter()
                    .map(|(key, value)| key.len() + value.len());
                base.yaml.len() + labels.sum::<usize>()
            }
            Self::File(content) => content.len(),
        }
    }

    /// Whether a newer content has the same effect.
    fn is_same(&self, newer: &Self) -> bool {
        match (self, newer) {
            (Self::Base(old), Self::Base(new)) => old == new,
            (Self::File(old), Self::File(new)) => old == new,
            _ => false,
        }
    }
}

/// What the result of a read depends on besides its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// Counts the changes of the mirrors.
    pub(super) mirrors: u64,
    /// The resource versions of the pull secrets that were tried.
    pub(super) secrets: Vec<Option<u64>>,
}

/// A finished read.
#[derive(Debug)]
struct Finished {
    result: Result<Content, Error>,
    at: Instant,
    circumstances: Circumstances,
    /// Failures in a row.
    failures: u32,
}

impl Finished {
    fn is_due(&self, current: &Circumstances, now: Instant) -> bool {
        let age = now.duration_since(self.at);
        match &self.result {
            Ok(_) => age >= REFRESH || self.circumstances.mirrors != current.mirrors,
            Err(error) => {
                age >= retry::delay(error, self.failures) || self.circumstances != *current
            }
        }
    }
}

/// A read that is queued or runs.
#[derive(Debug)]
struct Pending {
    since: Instant,
    resources: BTreeSet<Resource>,
    /// Dropped when the read ends.
    done: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Entry {
    finished: Option<Finished>,
    pending: Option<Pending>,
    last_used: u64,
}

/// All reads.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    entries: HashMap<Key, Entry>,
    /// Counts the uses, to find what was not used for the longest time.
    uses: u64,
}

/// The answer to a request for a content.
pub(super) struct Answer {
    /// The last result, or that there is none yet.
    pub(super) result: Result<Content, Error>,
    /// When to ask again, unless the read that is pending ends before.
    pub(super) retry_at: Option<Instant>,
    /// Ends when the pending read ends.
    pub(super) pending: Option<watch::Receiver<()>>,
    /// Whether the read must be queued now.
    pub(super) is_new: bool,
}

impl Fetched {
    /// The bytes of all contents.
    pub(super) fn bytes(&self) -> usize {
        self.entries.values().map(Entry::bytes).sum()
    }

    /// Returns the last result, and marks the read as pending if it is due and `may_start` allows it.
    pub(super) fn request(
        &mut self,
        key: &Key,
        resource: Option<Resource>,
        current: &Circumstances,
        now: Instant,
        may_start: impl FnOnce() -> Result<(), Error>,
    ) -> Answer {
        self.uses += 1;
        let uses = self.uses;
        if !self.entries.contains_key(key) && !self.make_room(key.puller.namespace()) {
            return Answer {
                result: Err(Error::TooMany {
                    image: key.image.clone(),
                    namespace: key.puller.namespace().to_owned(),
                    limit: MAX_READS,
                }),
                retry_at: None,
                pending: None,
                is_new: false,
            };
        }
        let entry = self.entries.entry(key.clone()).or_default();
        entry.last_used = uses;
        let finished = entry.finished.as_ref();
        let is_due = finished.is_none_or(|finished| finished.is_due(current, now));
        let may_start = match entry.pending.is_none() && is_due {
            true => may_start().map(|()| true),
            false => Ok(false),
        };
        let is_new = matches!(may_start, Ok(true));
        let blocked_until = match &may_start {
            Err(Error::HostBackoff { until, .. }) => Some(*until),
            _ => None,
        };
        if is_new {
            entry.pending = Some(Pending {
                since: now,
                resources: BTreeSet::new(),
                done: watch::Sender::new(()),
            });
        }
        if let Some(pending) = &mut entry.pending {
            pending.resources.extend(resource);
        }
        // The mirrors decide where an image comes from: what came from elsewhere does not count.
        let finished = finished_for(entry.finished.as_ref(), current);
        let result = match (finished, &entry.pending, may_start) {
            (Some(finished), _, _) => finished.result.clone(),
            (None, Some(pending), _) => Err(Error::Waiting {
                image: key.image.clone(),
                since: pending.since,
            }),
            (None, None, Err(blocked)) => Err(blocked),
            // Not reached: a read that is due and may start is pending.
            (None, None, Ok(_)) => Err(Error::Interrupted {
                image: key.image.clone(),
            }),
        };
        let retry_at = match (&result, finished) {
            // The end of the read triggers the resource.
            _ if entry.pending.is_some() => None,
            _ if blocked_until.is_some() => blocked_until,
            (Err(error), Some(finished)) => {
                Some(finished.at + retry::delay(error, finished.failures))
            }
            _ => None,
        };
        Answer {
            result,
            retry_at,
            pending: entry.pending.as_ref().map(|one| one.done.subscribe()),
            is_new,
        }
    }

    /// Stores the result of a pending read. Returns the resources that must be reconciled: those that
    /// asked meanwhile, if the result differs from the previous one.
    pub(super) fn finish(
        &mut self,
        key: &Key,
        result: Result<Content, Error>,
        circumstances: Circumstances,
        now: Instant,
    ) -> Vec<Resource> {
        let Some(entry) = self.entries.get_mut(key) else {
            return Vec::new();
        };
        let resources = entry.pending.take().map(|pending| pending.resources);
        let before = entry.finished.take();
        let failures = before.as_ref().map_or(0, |before| before.failures);
        let is_same = match (before.map(|before| before.result), &result) {
            (Some(Ok(before)), Ok(content)) => before.is_same(content),
            _ => false,
        };
        entry.finished = Some(Finished {
            failures: match result {
                Ok(_) => 0,
                Err(_) => failures.saturating_add(1),
            },
            result,
            at: now,
            circumstances,
        });
        self.evict(key);
        match is_same {
            true => Vec::new(),
            false => resources.into_iter().flatten().collect(),
        }
    }

    /// Whether the namespace may have one more read. Forgets the one that was not used for the longest
    /// time, if it is finished.
    fn make_room(&mut self, namespace: &str) -> bool {
        let is_own = |key: &Key| key.puller.namespace() == namespace;
        let count = self.entries.keys().filter(|key| is_own(key)).count();
        if count < MAX_READS {
            return true;
        }
        match self.least_recently_used(|key, _| is_own(key)) {
            Some(key) => self.entries.remove(&key).is_some(),
            None => false,
        }
    }

    /// Forgets contents until the limits are kept. Starts with the namespace that keeps the most.
    fn evict(&mut self, newest: &Key) {
        loop {
            let mut bytes: BTreeMap<&str, usize> = BTreeMap::new();
            for (key, entry) in &self.entries {
                *bytes.entry(key.puller.namespace()).or_default() += entry.bytes();
            }
            let total: usize = bytes.values().sum();
            let Some((namespace, largest)) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)
            else {
                return;
            };
            if largest <= NAMESPACE_BYTES && total <= TOTAL_BYTES {
                return;
            }
            let namespace = namespace.to_owned();
            let oldest = self.least_recently_used(|key, entry| {
                key.puller.namespace() == namespace && key != newest && entry.bytes() > 0
            });
            match oldest {
                Some(key) => drop(self.entries.remove(&key)),
                None => return,
            }
        }
    }

    /// The finished read that was not used for the longest time.
    fn least_recently_used(&self, is_candidate: impl Fn(&Key, &Entry) -> bool) -> Option<Key> {
        let candidates = self
            .entries
            .iter()
            .filter(|(key, entry)| entry.pending.is_none() && is_candidate(key, entry));
        let (key, _) = candidates.min_by_key(|(_, entry)| entry.last_used)?;
        Some(key.clone())
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        match self.finished.as_ref().map(|finished| &finished.result) {
            Some(Ok(content)) => content.bytes(),
            _ => 0,
        }
    }
}

fn finished_for<'a>(
    finished: Option<&'a Finished>,
    current: &Circumstances,
) -> Option<&'a Finished> {
    finished.filter(|finished| finished.circumstances.mirrors == current.mirrors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circumstances() -> Circumstances {
        Circumstances {
            mirrors: 0,
            secrets: Vec::new(),
        }
    }

    fn key(namespace: &str, image: &str) -> Key {
        Key::file(image, "/file", &namespace.into())
    }

    fn file(bytes: usize) -> Result<Content, Error> {
        Ok(Content::File(vec![0; bytes].into()))
    }

    fn timed_out() -> Result<Content, Error> {
        Err(Error::Deadline {
            image: "a:1".to_owned(),
            limit: Duration::from_secs(1),
        })
    }

    fn ask(fetched: &mut Fetched, key: &Key, name: &str, now: Instant) -> Answer {
        let resource = (key.puller.namespace().to_owned(), name.to_owned());
        fetched.request(key, Some(resource), &circumstances(), now, || Ok(()))
    }

    #[test]
    fn one_read_serves_all_resources_that_wait_for_it() {
        let (mut fetched, now) = (Fetched::default(), Instant::now());
        let key = key("ns", "a:1");
        let first = ask(&mut fetched, &key, "one", now);
        assert!(first.is_new && matches!(first.result, Err(Error::Waiting { .. })));
        assert!(!ask(&mut fetched, &key, "two", now).is_new);
        let waiting = fetched.finish(&key, file(1), circumstances(), now);
        assert_eq!(waiting.len(), 2);
        let next = ask(&mut fetched, &key, "one", now);
        assert!(!next.is_new && next.result.is_ok());
    }

    #[test]
    fn a_content_is_used_while_it_is_read_again() {
        let (mut fetched, now) = (Fetched::default(), Instant::now());
        let key = key("ns", "a:1");
        ask(&mut fetched, &key, "one", now);
        fetched.finish(&key, file(1), circumstances(), now);
        let later = now + REFRESH;
        let again = ask(&mut fetched, &key, "one", later);
        assert!(again.is_new && again.result.is_ok());
        // An unchanged content needs no reconciliation.
        let unchanged = fetched.finish(&key, file(1), circumstances(), later);
        assert_eq!(unchanged, []);
        let much_later = later + REFRESH;
        ask(&mut fetched, &key, "one", much_later);
        let changed = fetched.finish(&key, file(2), circumstances(), much_later);
        assert_eq!(changed.len(), 1);
    }

    #[test]
    fn a_failed_read_is_repeated_later_and_later_unless_a_pull_secret_changes() {
        let (mut fetched, now) = (Fetched::default(), Instant::now());
        let key = key("ns", "a:1");
        ask(&mut fetched, &key, "one", now);
        fetched.finish(&key, timed_out(), circumstances(), now);
        let answer = ask(&mut fetched, &key, "one", now);
        assert!(!answer.is_new && answer.retry_at == Some(now + Duration::from_secs(10)));
        let due = now + Duration::from_secs(10);
        // While it is repeated, or its registry is not asked, the resource must not ask in a loop.
        let until = due + Duration::from_secs(5);
        let blocked = fetched.request(&key, None, &circumstances(), due, || {
            Err(Error::HostBackoff {
                image: "a:1".to_owned(),
                host: "a".to_owned(),
                namespace: "ns".to_owned(),
                failures: 1,
                until,
            })
        });
        assert!(!blocked.is_new && blocked.retry_at == Some(until));
        let repeated = ask(&mut fetched, &key, "one", due);
        assert!(repeated.is_new && repeated.result.is_err() && repeated.retry_at.is_none());
        fetched.finish(&key, timed_out(), circumstances(), due);
        assert!(!ask(&mut fetched, &key, "one", due + Duration::from_secs(10)).is_new);

        let renewed = Circumstances {
            secrets: vec![Some(2)],
            ..circumstances()
        };
        assert!(fetched.request(&key, None, &renewed, due, || Ok(())).is_new);
    }

    #[test]
    fn what_came_from_another_mirror_does_not_count() {
        let (mut fetched, now) = (Fetched::default(), Instant::now());
        let key = key("ns", "a:1");
        ask(&mut fetched, &key, "one", now);
        fetched.finish(&key, file(1), circumstances(), now);
        let moved = Circumstances {
            mirrors: 1,
            ..circumstances()
        };
        let answer = fetched.request(&key, None, &moved, now, || Ok(()));
        assert!(answer.is_new && matches!(answer.result, Err(Error::Waiting { .. })));
    }

    #[test]
    fn the_contents_of_one_namespace_do_not_displace_those_of_another() {
        let (mut fetched, now) = (Fetched::default(), Instant::now());
        let small = key("fair", "small:1");
        ask(&mut fetched, &small, "one", now);
        fetched.finish(&small, file(100), circumstances(), now);
        for number in 0..40 {
            let large = key("hostile", &format!("large:{number}"));
            ask(&mut fetched, &large, "two", now);
            fetched.finish(&large, file(1 << 20), circumstances(), now);
        }
        let bytes = |namespace: &str| -> usize {
            let entries = fetched.entries.iter();
            let own = entries.filter(|(key, _)| key.puller.namespace() == namespace);
            own.map(|(_, entry)| entry.bytes()).sum()
        };
        assert_eq!(bytes("hostile"), NAMESPACE_BYTES);
        assert_eq!(bytes("fair"), 100);
    }

    #[test]
    fn a_namespace_waits_for_a_limited_number_of_images() {
        let (mut fetched, now) = (Fetched::default(), Instant::now());
        for number in 0..MAX_READS {
            assert!(ask(&mut fetched, &key("ns", &format!("a:{number}")), "one", now).is_new);
        }
        let one_more = ask(&mut fetched, &key("ns", "b:1"), "one", now);
        assert!(matches!(one_more.result, Err(Error::TooMany { .. })));
        assert!(ask(&mut fetched, &key("other", "b:1"), "one", now).is_new);
        fetched.finish(&key("ns", "a:0"), file(1), circumstances(), now);
        assert!(ask(&mut fetched, &key("ns", "b:1"), "one", now).is_new);
    }
}
