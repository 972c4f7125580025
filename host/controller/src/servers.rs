//! Asks running servers what they are, beside the passes.
//!
//! A pass says which server there is to ask and takes what was last heard; it never waits for an
//! answer. A few servers are asked at a time. Only an answer that is other than the last one wakes its
//! resource, so that at rest the API server is asked for nothing.

mod ask;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use llsd_render::objects::Owner;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::gather::Contents;
use crate::view::Wake;
pub(crate) use ask::{Answer, Silence};
use ask::{Place, ask};

/// Servers that are asked at the same time.
const AT_ONCE: usize = 8;
/// The keys of a TLS Secret by which its server is known.
const CERTIFICATES: [&str; 2] = ["ca.crt", "tls.crt"];

/// How servers are asked.
#[derive(Debug, Clone)]
pub struct Polling {
    /// How often each of them is.
    pub every: Duration,
    /// Where all of them are, instead of at their Services' addresses; for whoever is outside the
    /// cluster's network.
    pub at: Option<SocketAddr>,
}

/// A server to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) url: String,
    /// Secret with its certificate.
    pub(crate) tls_secret: Option<String>,
    /// Another one is another server at the same address, and is asked at once.
    pub(crate) generation: Option<i64>,
}

/// What was last heard of a server.
pub(crate) type Heard = Result<Answer, Silence>;

/// Namespace and name of a resource.
type Resource = (String, String);

/// The servers to ask, and what they said.
pub(crate) struct Polls {
    polling: Option<Polling>,
    servers: Mutex<HashMap<Resource, Server>>,
    news: Notify,
}

struct Server {
    target: Target,
    /// When it is asked next; absent: it is being asked.
    due: Option<Instant>,
    /// What it is known by, once read: another certificate comes with another generation.
    trust: Option<Vec<u8>>,
    heard: Option<Heard>,
}

impl Polls {
    /// Nobody to ask yet. Without `polling` nobody is ever asked.
    pub(crate) fn new(polling: Option<Polling>) -> Self {
        Self {
            polling,
            servers: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// Takes which server of a resource there is to ask, if any, and gives what was last heard of it.
    pub(crate) fn follow(&self, owner: &Owner, target: Option<Target>) -> Option<Heard> {
        self.polling.as_ref()?;
        let resource = (owner.namespace.clone(), owner.name.clone());
        let Some(target) = target else {
            self.lock().remove(&resource);
            return None;
        };
        let mut servers = self.lock();
        if let Some(known) = servers.get(&resource)
            && known.target == target
        {
            return known.heard.clone();
        }
        let heard = servers.remove(&resource).and_then(|known| known.heard);
        let server = Server {
            target,
            due: Some(Instant::now()),
            trust: None,
            heard: heard.clone(),
        };
        servers.insert(resource, server);
        drop(servers);
        self.news.notify_one();
        heard
    }

    /// Forgets a resource that is gone.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Asks for ever.
    pub(crate) async fn run(&self, contents: &Contents, wake: &Wake) {
        let Some(polling) = &self.polling else {
            return std::future::pending().await;
        };
        let mut asking = JoinSet::new();
        loop {
            while asking.len() < AT_ONCE
                && let Some((resource, target, trust)) = self.next_due(Instant::now())
            {
                let trust = match (trust, &target.tls_secret) {
                    (None, Some(secret)) => certificates(contents, &resource.0, secret).await,
                    (trust, _) => trust,
                };
                let place = Place {
                    url: target.url.clone(),
                    trust: trust.clone(),
                    at: polling.at,
                };
                asking.spawn(async move { (resource, target, trust, ask(&place).await) });
            }
            let pause = self.until_next(Instant::now());
            let is_full = asking.len() >= AT_ONCE;
            tokio::select! {
                Some(done) = asking.join_next() => {
                    if let Ok((resource, target, trust, heard)) = done
                        && self.take(&resource, &target, trust, heard, polling.every)
                    {
                        wake.resource(&resource.0, &resource.1);
                    }
                }
                () = self.news.notified() => {}
                () = tokio::time::sleep(pause.unwrap_or(polling.every)), if !is_full => {}
            }
        }
    }

    /// A server whose time has come, which from now on is being asked.
    fn next_due(&self, now: Instant) -> Option<(Resource, Target, Option<Vec<u8>>)> {
        let mut servers = self.lock();
        let is_due = |server: &Server| server.due.is_some_and(|due| due <= now);
        let (resource, server) = servers.iter_mut().find(|(_, server)| is_due(server))?;
        server.due = None;
        Some((
            resource.clone(),
            server.target.clone(),
            server.trust.clone(),
        ))
    }

    fn until_next(&self, now: Instant) -> Option<Duration> {
        let servers = self.lock();
        let next = servers.values().filter_map(|server| server.due).min();
        next.map(|due| due.saturating_duration_since(now))
    }

    /// Takes what a server said, and tells whether that is news.
    fn take(
        &self,
        resource: &Resource,
        target: &Target,
        trust: Option<Vec<u8>>,
        heard: Heard,
        every: Duration,
    ) -> bool {
        let mut servers = self.lock();
        let known = servers.get_mut(resource);
        // Meanwhile it may be gone, or another one.
        let Some(server) = known.filter(|server| server.target == *target) else {
            return false;
        };
        server.due = Some(Instant::now() + every);
        server.trust = trust;
        let is_news = server.heard.as_ref() != Some(&heard);
        server.heard = Some(heard);
        is_news
    }

    /// No reader or writer leaves the map half done, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, HashMap<Resource, Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a TLS Secret shows to everybody. Without it the server is not believed, and says so.
async fn certificates(contents: &Contents, namespace: &str, secret: &str) -> Option<Vec<u8>> {
    let values = contents.values(namespace, secret).await.ok()?;
    let found = CERTIFICATES.iter().filter_map(|key| values.get(*key));
    let mut all = Vec::new();
    for certificate in found {
        all.extend_from_slice(&certificate.0);
        all.push(b'\n');
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(60);

    fn owner() -> Owner {
        Owner {
            namespace: "ns".to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
        }
    }

    fn target(generation: i64) -> Target {
        Target {
            url: "http://demo:1".to_owned(),
            tls_secret: None,
            generation: Some(generation),
        }
    }

    fn polls() -> Polls {
        Polls::new(Some(Polling {
            every: EVERY,
            at: None,
        }))
    }

    fn silence() -> Heard {
        Err(Silence::Trust)
    }

    #[test]
    fn an_answer_is_news_once_and_the_next_question_comes_in_its_time() {
        let polls = polls();
        assert_eq!(polls.follow(&owner(), Some(target(1))), None);
        let now = Instant::now();
        let (resource, asked, _) = polls.next_due(now).expect("one to ask");
        assert!(polls.next_due(now).is_none(), "it is being asked");
        assert!(polls.take(&resource, &asked, None, silence(), EVERY));
        assert_eq!(polls.follow(&owner(), Some(target(1))), Some(silence()));
        assert!(polls.next_due(now).is_none());
        let later = now + EVERY + Duration::from_secs(1);
        let (resource, asked, _) = polls.next_due(later).expect("one to ask");
        assert!(!polls.take(&resource, &asked, None, silence(), EVERY));
    }

    #[test]
    fn another_server_is_asked_at_once_and_what_the_last_one_says_late_does_not_count() {
        let polls = polls();
        polls.follow(&owner(), Some(target(1)));
        let (resource, first, _) = polls.next_due(Instant::now()).expect("one to ask");
        polls.follow(&owner(), Some(target(2)));
        assert!(!polls.take(&resource, &first, None, silence(), EVERY));
        assert!(polls.next_due(Instant::now()).is_some());
        assert_eq!(polls.follow(&owner(), None), None);
        assert!(polls.next_due(Instant::now()).is_none());
    }
}
