//! Reads images in the background, so that no reconciliation waits for a registry.
//!
//! A reconciliation asks for an image and gets the last result, or [`Error::Waiting`]. When the read
//! ends, the resources that asked for it are reconciled. There is one read for each image and puller;
//! every read has a deadline, and a growing delay after a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use llsd_registry::BaseConfig;
use llsd_render::objects::{Kind, Owner};
use parking_lot::Mutex;

use super::fair_queue::{FairQueue, Shares};
use super::fetched::{Answer, Circumstances, Content, Fetched, Key, Resource};
use super::retry::SilentHosts;
use super::{Error, ImageReader, Images, Puller, ReadError};
use crate::cache::{ClusterCache, ReconcileTrigger};

/// A read holds at most a manifest (4 MiB) and a config (8 MiB) of an image in memory.
pub(super) const SHARES: Shares = Shares {
    total: 12,
    of_one_namespace: 2,
    unproven: 8,
};
/// The longest time for one read, with its retries and all credentials.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// Reads images in the background. All clones share their reads.
#[derive(Clone)]
pub(crate) struct Fetcher(Arc<Shared>);

struct Shared {
    images: Images,
    cache: Arc<ClusterCache>,
    trigger: ReconcileTrigger,
    state: Mutex<State>,
}

struct State {
    fetched: Fetched,
    queue: FairQueue<Key>,
    silent_hosts: SilentHosts,
}

/// Reads images for one resource, which is reconciled again when a read ends.
pub(crate) struct ForResource<'a> {
    fetcher: &'a Fetcher,
    owner: &'a Owner,
    /// Until when to wait for a read.
    until: Option<Instant>,
}

impl Fetcher {
    pub(crate) fn new(images: Images, cache: Arc<ClusterCache>, trigger: ReconcileTrigger) -> Self {
        let state = State {
            fetched: Fetched::default(),
            queue: FairQueue::new(SHARES),
            silent_hosts: SilentHosts::default(),
        };
        Self(Arc::new(Shared {
            images,
            cache,
            trigger,
            state: Mutex::new(state),
        }))
    }

    /// The bytes of all contents that were read.
    pub(crate) fn bytes(&self) -> usize {
        self.0.state.lock().fetched.bytes()
    }

    /// Reads images for a resource, without waiting.
    pub(crate) fn for_resource<'a>(&'a self, owner: &'a Owner) -> ForResource<'a> {
        ForResource {
            fetcher: self,
            owner,
            until: None,
        }
    }

    /// Reads images for a resource, and waits for each until a point in time.
    pub(crate) fn waiting_until<'a>(&'a self, until: Instant, owner: &'a Owner) -> ForResource<'a> {
        ForResource {
            until: Some(until),
            ..self.for_resource(owner)
        }
    }

    /// The pull secrets that were tried when images were last read for a puller.
    pub(crate) fn pull_secrets(&self, puller: &Puller) -> Vec<String> {
        self.0.images.keyrings.secrets(puller)
    }

    /// The base configuration of an image. Waits for the read, if none has ended yet.
    pub(super) async fn wait_for_base(
        &self,
        image: &str,
        puller: &Puller,
    ) -> Result<Arc<BaseConfig>, Error> {
        let key = Key::base(image, puller);
        let first = self.request(&key, None);
        if wait(&first, None).await {
            return base(&key, self.request(&key, None).result?);
        }
        base(&key, first.result?)
    }

    /// The base configuration of an image as it is now, for a task in the background that can wait.
    pub(crate) async fn read_now(
        &self,
        image: &str,
        puller: &Puller,
    ) -> Result<Arc<BaseConfig>, Error> {
        let reading = self.0.images.read_base(image, puller);
        match tokio::time::timeout(DEADLINE, reading).await {
            Ok(read) => read,
            Err(_) => Err(Error::Deadline {
                image: image.to_owned(),
                limit: DEADLINE,
            }),
        }
    }

    fn request(&self, key: &Key, resource: Option<Resource>) -> Answer {
        let current = self.0.circumstances(&key.puller);
        let now = Instant::now();
        let answer = {
            let mut state = self.0.state.lock();
            let State {
                fetched,
                queue,
                silent_hosts,
            } = &mut *state;
            let may_start = || silent_hosts.check(key, now);
            let answer = fetched.request(key, resource, &current, now, may_start);
            if answer.is_new {
                queue.push(key.puller.namespace(), key.clone());
            }
            answer
        };
        self.0.start_reads();
        answer
    }
}

impl Shared {
    /// What decides whether a failed read is repeated early.
    fn circumstances(&self, puller: &Puller) -> Circumstances {
        let secrets = self.cache.of(Kind::Secret);
        let version = |name: &String| secrets?.resource_version(puller.namespace(), name);
        Circumstances {
            mirrors: self.images.registries.generation(),
            secrets: self
                .images
                .keyrings
                .secrets(puller)
                .iter()
                .map(version)
                .collect(),
        }
    }

    /// Starts every read that may start now.
    fn start_reads(self: &Arc<Self>) {
        loop {
            let Some(key) = self.state.lock().queue.pop() else {
                return;
            };
            let running = Running {
                shared: self.clone(),
                before: self.circumstances(&key.puller),
                key,
                result: None,
            };
            tokio::spawn(running.run());
        }
    }

    async fn read(&self, key: &Key) -> Result<Content, Error> {
        let Key {
            image,
            path,
            puller,
        } = key;
        let read = async {
            Ok(match path {
                Some(path) => Content::File(self.images.read_file(image, path, puller).await?),
                None => Content::Base(self.images.read_base(image, puller).await?),
            })
        };
        let timed_out = |_| Error::Deadline {
            image: image.clone(),
            limit: DEADLINE,
        };
        tokio::time::timeout(DEADLINE, read)
            .await
            .map_err(timed_out)?
    }

    fn finish(&self, key: &Key, before: Circumstances, result: Result<Content, Error>) {
        let is_silent = result.as_ref().is_err_and(Error::is_silence);
        if let Err(error) = &result {
            tracing::debug!(image = key.image, namespace = key.puller.namespace(), %error, "failed to read an image");
        }
        // What changed during the read counts as a change after it. Which secrets are tried is not known
        // before the first read of a puller.
        let after = self.circumstances(&key.puller);
        let circumstances = Circumstances {
            secrets: match before.secrets.len() == after.secrets.len() {
                true => before.secrets,
                false => after.secrets,
            },
            mirrors: before.mirrors,
        };
        let now = Instant::now();
        let waiting = {
            let mut state = self.state.lock();
            state.queue.finish(key.puller.namespace(), !is_silent);
            state.silent_hosts.record(key, is_silent, now);
            state.fetched.finish(key, result, circumstances, now)
        };
        for (namespace, name) in waiting {
            self.trigger.request(&namespace, &name);
        }
    }
}

/// A running read. Dropping it ends the read, also after a panic.
struct Running {
    shared: Arc<Shared>,
    before: Circumstances,
    key: Key,
    result: Option<Result<Content, Error>>,
}

impl Running {
    async fn run(mut self) {
        self.result = Some(self.shared.read(&self.key).await);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let interrupted = || Error::Interrupted {
            image: self.key.image.clone(),
        };
        // Without a result the read panicked, or the operator stops and starts nothing more.
        let stops = self.result.is_none() && !std::thread::panicking();
        let result = self.result.take().unwrap_or_else(|| Err(interrupted()));
        self.shared.finish(&self.key, self.before.clone(), result);
        if !stops {
            self.shared.start_reads();
        }
    }
}

impl ForResource<'_> {
    async fn request(&self, key: &Key) -> Result<Content, ReadError> {
        let Owner {
            namespace, name, ..
        } = self.owner;
        let ask = || {
            let resource = (namespace.clone(), name.clone());
            self.fetcher.request(key, Some(resource))
        };
        let mut answer = ask();
        if let Some(until) = self.until
            && wait(&answer, Some(until)).await
        {
            answer = ask();
        }
        let Answer {
            result, retry_at, ..
        } = answer;
        result.map_err(|cause| {
            let left = retry_at.map(|at| at.saturating_duration_since(Instant::now()));
            ReadError {
                cause,
                // Without a time, the end of the pending read triggers the resource.
                retry_after: left.unwrap_or(DEADLINE),
            }
        })
    }
}

impl ImageReader for ForResource<'_> {
    async fn base_config(
        &self,
        image: &str,
        puller: &Puller,
    ) -> Result<Arc<BaseConfig>, ReadError> {
        let key = Key::base(image, puller);
        Ok(base(&key, self.request(&key).await?)?)
    }

    async fn file(&self, image: &str, path: &str, puller: &Puller) -> Result<Arc<[u8]>, ReadError> {
        let key = Key::file(image, path, puller);
        match self.request(&key).await? {
            Content::File(content) => Ok(content),
            Content::Base(_) => Err(mismatch(&key).into()),
        }
    }
}

/// Waits for the end of the first read of an image. Returns whether it ended.
async fn wait(answer: &Answer, until: Option<Instant>) -> bool {
    let (Err(Error::Waiting { .. }), Some(pending)) = (&answer.result, &answer.pending) else {
        return false;
    };
    let mut pending = pending.clone();
    // The sender is dropped when the read ends.
    let ended = async { drop(pending.changed().await) };
    match until {
        Some(until) => tokio::time::timeout_at(until.into(), ended).await.is_ok(),
        None => {
            ended.await;
            true
        }
    }
}

fn base(key: &Key, content: Content) -> Result<Arc<BaseConfig>, Error> {
    match content {
        Content::Base(base) => Ok(base),
        Content::File(_) => Err(mismatch(key)),
    }
}

/// Not reached: a key has either a path or none.
fn mismatch(key: &Key) -> Error {
    Error::Interrupted {
        image: key.image.clone(),
    }
}
