//! Polls running servers for their version and providers, independently of the reconciliations.
//!
//! A reconciliation registers the server to poll and reads the last result; it never waits for a
//! server. Only a result that differs from the last one triggers a reconciliation, so that an idle
//! operator makes no requests to the API server.
//!
//! Imports only `cache`.

mod failure;
mod query;
mod trust;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use llsd_render::objects::Owner;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::cache::{ContentCache, ReconcileTrigger};
pub(crate) use query::{QueryError, ServerInfo};
use query::{ServerEndpoint, query};
use trust::ServerCertificates;

/// Servers that are queried concurrently.
const MAX_CONCURRENT: usize = 8;
/// Time until a server that did not respond is polled again. It doubles with each failure, up to the
/// second value. A pod is ready before every node routes to it, so the first poll often fails.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// The failures after which a server that has not responded yet is reported.
const REPORTED_FAILURES: u32 = 3;

/// How servers are polled.
#[derive(Debug, Clone)]
pub struct Polling {
    /// Time between two polls of one server.
    pub interval: Duration,
    /// Connects to this address instead of the addresses of the Services, for an operator outside
    /// the cluster's network.
    pub connect_to: Option<SocketAddr>,
}

/// A server to poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PollTarget {
    pub(crate) url: String,
    /// The Secret with its certificate.
    pub(crate) tls_secret: Option<String>,
    /// Generation of the Deployment. A new one means new pods, which are polled at once.
    pub(crate) generation: Option<i64>,
}

/// The result of a poll.
pub(crate) type QueryResult = Result<ServerInfo, QueryError>;

/// The last result of polling a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastPoll {
    pub(crate) result: QueryResult,
    /// Whether only pods of the current generation could respond. Otherwise the result may be that of
    /// a previous image.
    pub(crate) is_current: bool,
}

/// Namespace and name of a resource.
type Resource = (String, String);

/// The servers to poll, and their last results.
pub(crate) struct ServerPoller {
    polling: Option<Polling>,
    servers: Mutex<HashMap<Resource, Server>>,
    changed: Notify,
}

struct Server {
    target: PollTarget,
    /// When the server is polled next; `None` while a query is running.
    due: Option<Instant>,
    /// The certificates of its Secret, once read. A new certificate comes with a new generation.
    certificates: Option<ServerCertificates>,
    /// The number of failures since the last response, or since the target was set.
    failures: u32,
    last: Option<QueryResult>,
    /// Whether `last` is a result of `target`, and not of the one before.
    is_of_target: bool,
}

impl Server {
    fn last_poll(&self) -> Option<LastPoll> {
        Some(LastPoll {
            result: self.last.clone()?,
            is_current: self.is_of_target && self.target.generation.is_some(),
        })
    }
}

impl ServerPoller {
    /// Starts without servers. Without `polling` no server is ever polled.
    pub(crate) fn new(polling: Option<Polling>) -> Self {
        Self {
            polling,
            servers: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Sets the server to poll for a resource, if any, and returns the last result.
    pub(crate) fn set_target(&self, owner: &Owner, target: Option<PollTarget>) -> Option<LastPoll> {
        self.polling.as_ref()?;
        let resource = (owner.namespace.clone(), owner.name.clone());
        let Some(target) = target else {
            self.servers.lock().remove(&resource);
            return None;
        };
        let mut servers = self.servers.lock();
        if let Some(known) = servers.get(&resource)
            && known.target == target
        {
            return known.last_poll();
        }
        let server = Server {
            target,
            due: Some(Instant::now()),
            certificates: None,
            failures: 0,
            last: servers.remove(&resource).and_then(|known| known.last),
            is_of_target: false,
        };
        let last = server.last_poll();
        servers.insert(resource, server);
        drop(servers);
        self.changed.notify_one();
        last
    }

    /// Stops polling the server of a deleted resource.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.servers
            .lock()
            .remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Polls forever.
    pub(crate) async fn run(&self, contents: &ContentCache, trigger: &ReconcileTrigger) {
        let Some(polling) = &self.polling else {
            return std::future::pending().await;
        };
        let mut queries = JoinSet::new();
        loop {
            while queries.len() < MAX_CONCURRENT
                && let Some((resource, target, known)) = self.next_due(Instant::now())
            {
                let certificates = match (known, &target.tls_secret) {
                    (None, Some(secret)) => read_certificates(contents, &resource.0, secret).await,
                    (known, _) => known,
                };
                let endpoint = ServerEndpoint {
                    url: target.url.clone(),
                    certificates: certificates.clone(),
                    connect_to: polling.connect_to,
                };
                queries
                    .spawn(async move { (resource, target, certificates, query(&endpoint).await) });
            }
            let pause = self.until_next(Instant::now());
            let is_full = queries.len() >= MAX_CONCURRENT;
            tokio::select! {
                Some(done) = queries.join_next() => {
                    if let Ok((resource, target, certificates, result)) = done
                        && self.record(&resource, &target, certificates, result, polling.interval)
                    {
                        trigger.request(&resource.0, &resource.1);
                    }
                }
                () = self.changed.notified() => {}
                () = tokio::time::sleep(pause.unwrap_or(polling.interval)), if !is_full => {}
            }
        }
    }

    /// A server that is due, which counts as being queried from now on.
    fn next_due(&self, now: Instant) -> Option<(Resource, PollTarget, Option<ServerCertificates>)> {
        let mut servers = self.servers.lock();
        let is_due = |server: &Server| server.due.is_some_and(|due| due <= now);
        let (resource, server) = servers.iter_mut().find(|(_, server)| is_due(server))?;
        server.due = None;
        Some((
            resource.clone(),
            server.target.clone(),
            server.certificates.clone(),
        ))
    }

    fn until_next(&self, now: Instant) -> Option<Duration> {
        let servers = self.servers.lock();
        let next = servers.values().filter_map(|server| server.due).min();
        next.map(|due| due.saturating_duration_since(now))
    }

    /// Records a result and returns whether it differs from the last one, or is the first of a
    /// generation. The first failures of a new target are not recorded.
    fn record(
        &self,
        resource: &Resource,
        target: &PollTarget,
        certificates: Option<ServerCertificates>,
        result: QueryResult,
        interval: Duration,
    ) -> bool {
        let mut servers = self.servers.lock();
        let known = servers.get_mut(resource);
        // The server may have been removed or replaced meanwhile.
        let Some(server) = known.filter(|server| server.target == *target) else {
            return false;
        };
        server.certificates = certificates;
        server.failures = match result {
            Ok(_) => 0,
            Err(_) => server.failures.saturating_add(1),
        };
        server.due = Some(Instant::now() + next_delay(server.failures, interval));
        if result.is_err() && !server.is_of_target && server.failures < REPORTED_FAILURES {
            return false;
        }
        let is_first = !server.is_of_target && target.generation.is_some();
        let is_changed = is_first || server.last.as_ref() != Some(&result);
        server.last = Some(result);
        server.is_of_target = true;
        is_changed
    }
}

/// The time until the next poll after a number of failures.
fn next_delay(failures: u32, interval: Duration) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return interval;
    };
    let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
    let delay = FIRST_RETRY.saturating_mul(factor).min(LAST_RETRY);
    delay.min(interval)
}

/// The public certificates of a TLS Secret. If they cannot be read, the query reports that.
async fn read_certificates(
    contents: &ContentCache,
    namespace: &str,
    secret: &str,
) -> Option<ServerCertificates> {
    let values = contents.secret_values(namespace, secret).await.ok()?;
    let value = |key: &str| values.get(key).map(|value| value.0.clone());
    Some(ServerCertificates {
        serving: value("tls.crt")?,
        authorities: value("ca.crt").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);

    fn owner() -> Owner {
        Owner {
            namespace: "ns".to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
            pod_app: llsd_api::labels::PRODUCT,
        }
    }

    fn target(generation: i64) -> PollTarget {
        PollTarget {
            url: "http://demo:1".to_owned(),
            tls_secret: None,
            generation: Some(generation),
        }
    }

    fn poller() -> ServerPoller {
        ServerPoller::new(Some(Polling {
            interval: INTERVAL,
            connect_to: None,
        }))
    }

    fn failure() -> QueryResult {
        Err(QueryError::Certificates)
    }

    fn response() -> QueryResult {
        Ok(ServerInfo::default())
    }

    #[test]
    fn a_result_is_a_change_once_and_the_next_query_is_due_after_the_interval() {
        let poller = poller();
        assert_eq!(poller.set_target(&owner(), Some(target(1))), None);
        let now = Instant::now();
        let (resource, queried, _) = poller.next_due(now).expect("a server that is due");
        assert!(poller.next_due(now).is_none(), "the query is running");
        assert!(poller.record(&resource, &queried, None, response(), INTERVAL));
        let last = LastPoll {
            result: response(),
            is_current: true,
        };
        assert_eq!(poller.set_target(&owner(), Some(target(1))), Some(last));
        assert!(poller.next_due(now).is_none());
        let later = now + INTERVAL + Duration::from_secs(1);
        let (resource, queried, _) = poller.next_due(later).expect("a server that is due");
        assert!(!poller.record(&resource, &queried, None, response(), INTERVAL));
    }

    #[test]
    fn a_new_server_that_does_not_respond_yet_is_polled_again_soon_and_reported_later() {
        let poller = poller();
        poller.set_target(&owner(), Some(target(1)));
        let mut now = Instant::now();
        let mut poll = |result| {
            let (resource, queried, _) = poller.next_due(now).expect("a server that is due");
            let is_changed = poller.record(&resource, &queried, None, result, INTERVAL);
            let pause = poller.until_next(Instant::now()).expect("another poll");
            now = Instant::now() + pause;
            (is_changed, pause.as_secs_f64().round())
        };
        assert_eq!(poll(failure()), (false, 1.0));
        assert_eq!(poll(failure()), (false, 2.0));
        assert_eq!(poll(failure()), (true, 4.0));
        assert_eq!(poll(failure()), (false, 8.0));
        assert_eq!(poll(response()), (true, 60.0));
        // A server that responded before is reported at once.
        assert_eq!(poll(failure()), (true, 1.0));
    }

    #[test]
    fn the_delay_after_a_failure_grows_up_to_a_bound_and_never_exceeds_the_interval() {
        let seconds = |failures| next_delay(failures, INTERVAL).as_secs();
        assert_eq!(
            [0, 1, 4, 5, 6, 40, u32::MAX].map(seconds),
            [60, 1, 8, 16, 30, 30, 30]
        );
        let short = Duration::from_millis(50);
        assert_eq!(next_delay(7, short), short);
    }

    #[test]
    fn an_equal_result_of_a_new_generation_is_a_change_and_the_old_one_is_not_current() {
        let poller = poller();
        let is_current = |target: PollTarget| {
            let last = poller.set_target(&owner(), Some(target));
            last.map(|last| last.is_current)
        };
        let poll = || {
            let due = poller.next_due(Instant::now());
            let (resource, queried, _) = due.expect("a server that is due");
            poller.record(&resource, &queried, None, response(), INTERVAL)
        };
        assert_eq!(is_current(target(1)), None);
        assert!(poll());
        assert_eq!(is_current(target(1)), Some(true));
        let during_rollout = PollTarget {
            generation: None,
            ..target(1)
        };
        assert_eq!(is_current(during_rollout.clone()), Some(false));
        assert!(!poll(), "pods of both generations respond");
        assert_eq!(is_current(during_rollout), Some(false));
        assert_eq!(is_current(target(2)), Some(false));
        assert!(poll());
        assert_eq!(is_current(target(2)), Some(true));
    }

    #[test]
    fn a_new_generation_is_polled_at_once_and_a_late_result_of_the_old_one_is_ignored() {
        let poller = poller();
        poller.set_target(&owner(), Some(target(1)));
        let (resource, first, _) = poller
            .next_due(Instant::now())
            .expect("a server that is due");
        poller.set_target(&owner(), Some(target(2)));
        assert!(!poller.record(&resource, &first, None, failure(), INTERVAL));
        assert!(poller.next_due(Instant::now()).is_some());
        assert_eq!(poller.set_target(&owner(), None), None);
        assert!(poller.next_due(Instant::now()).is_none());
    }
}
