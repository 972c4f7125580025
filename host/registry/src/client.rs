//! The client: its sessions and caches, and the check that a credential may read a cached digest.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::timeout;

use crate::base_config::{self, BaseConfig};
use crate::cache::{DiskCache, LruCache, SingleFlight};
use crate::credentials::{self, Candidate, Credential, Keyring};
use crate::digest::Digest;
use crate::error::Error;
use crate::image_file;
use crate::layer::ScanPermits;
use crate::manifest::Descriptor;
use crate::reference::{ParseReferenceError, Reference};
use crate::session::Session;
use crate::settings::Settings;
use crate::transport::tls_config;

/// Base configurations in memory, with their labels. Published ones have up to 60 KB.
const MAX_CACHED_BASE_BYTES: usize = 16 << 20;
/// Files of images in memory. The declaration of a provider has a few hundred bytes.
const MAX_CACHED_FILE_BYTES: usize = 4 << 20;
/// What an entry of a cache costs besides its content: keys, and the data of the map.
const ENTRY_OVERHEAD: usize = 1 << 10;
/// Tags in memory, and granted digests. An entry has a few hundred bytes, with long credentials more.
const MAX_CACHED_ACCESS_BYTES: usize = 8 << 20;
/// Sessions, each with a few idle connections.
const MAX_SESSIONS: usize = 256;

/// A client for any number of registries and credentials. Clones share all caches and connections.
#[derive(Clone)]
pub struct Registry {
    pub(crate) inner: Arc<Inner>,
}

/// A repository and the credentials that are tried for it.
pub(crate) type AccessKey = (String, Vec<Credential>);

/// What an entry of a cache with this key costs.
fn access_bytes((name, credentials): &AccessKey) -> usize {
    let credentials: usize = credentials.iter().map(Credential::bytes).sum();
    ENTRY_OVERHEAD + name.len() + credentials
}

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) disk_cache: DiskCache,
    /// By scope and image digest.
    pub(crate) base_cache: LruCache<(String, Digest), Arc<BaseConfig>>,
    pub(crate) base_fetches: SingleFlight<(AccessKey, Digest), Arc<BaseConfig>, base_config::Error>,
    /// By scope, image digest and path.
    pub(crate) file_cache: LruCache<(String, Digest, String), Arc<[u8]>>,
    pub(crate) file_fetches:
        SingleFlight<(AccessKey, Digest, String), Arc<[u8]>, image_file::Error>,
    /// Limits the layers that are searched at the same time. Shared by clients with changed settings.
    pub(crate) scans: Arc<ScanPermits>,
    tls: rustls::ClientConfig,
    sessions: LruCache<(String, Candidate), Arc<Session>>,
    tags: LruCache<(AccessKey, String), (Digest, Instant)>,
    tag_lookups: SingleFlight<(AccessKey, String), Digest, Error>,
    /// The credential with which the registry granted access to a digest.
    granted: LruCache<(AccessKey, Digest), Candidate>,
}

/// A reference after the mirror rewrite, with the credentials that match it.
pub(crate) struct Located {
    pub(crate) target: Reference,
    pub(crate) candidates: Vec<Candidate>,
}

impl Located {
    pub(crate) fn key(&self) -> AccessKey {
        let credentials = self
            .candidates
            .iter()
            .map(|c| c.credential.clone())
            .collect();
        (self.target.name(), credentials)
    }
}

/// Why a reference cannot be requested.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LocateError {
    #[error(transparent)]
    Mirror(#[from] ParseReferenceError),
    #[error(transparent)]
    Credentials(#[from] credentials::Error),
}

impl From<LocateError> for base_config::Error {
    fn from(error: LocateError) -> Self {
        match error {
            LocateError::Mirror(error) => error.into(),
            LocateError::Credentials(error) => error.into(),
        }
    }
}

impl Registry {
    /// Builds a client. Checks the settings and sends no request.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Self::with_permits(settings, Arc::default())
    }

    /// The bytes of what was read from registries: in memory, and on disk.
    pub fn cached_bytes(&self) -> (u64, u64) {
        let Inner {
            disk_cache,
            base_cache,
            file_cache,
            tags,
            granted,
            ..
        } = &*self.inner;
        let memory = base_cache.weight() + file_cache.weight() + tags.weight() + granted.weight();
        (memory as u64, disk_cache.bytes())
    }

    fn with_permits(settings: Settings, scans: Arc<ScanPermits>) -> Result<Self, Error> {
        let tls = tls_config(&settings.extra_ca)?;
        let disk_cache = DiskCache::open(settings.cache_dir.clone(), settings.cache_bytes);
        let disk_cache = disk_cache.map_err(|error| Error::Settings {
            problem: format!("failed to open the cache directory: {error}"),
        })?;
        Ok(Self {
            inner: Arc::new(Inner {
                settings,
                disk_cache,
                base_cache: LruCache::weighing(MAX_CACHED_BASE_BYTES, |_, base| {
                    ENTRY_OVERHEAD + base.held_bytes()
                }),
                base_fetches: SingleFlight::new(),
                file_cache: LruCache::weighing(MAX_CACHED_FILE_BYTES, |_, content| {
                    ENTRY_OVERHEAD + content.len()
                }),
                scans,
                file_fetches: SingleFlight::new(),
                tls,
                sessions: LruCache::new(MAX_SESSIONS),
                tags: LruCache::weighing(MAX_CACHED_ACCESS_BYTES, |(key, tag), _| {
                    access_bytes(key) + tag.len()
                }),
                tag_lookups: SingleFlight::new(),
                granted: LruCache::weighing(MAX_CACHED_ACCESS_BYTES, |(key, _), candidate| {
                    access_bytes(key) + candidate.credential.bytes()
                }),
            }),
        })
    }

    /// Builds a client with changed settings and empty caches.
    pub fn with_changed_settings(&self, change: impl FnOnce(&mut Settings)) -> Result<Self, Error> {
        let mut settings = self.inner.settings.clone();
        change(&mut settings);
        Self::with_permits(settings, Arc::clone(&self.inner.scans))
    }
}

impl Inner {
    /// Applies the mirrors and finds the credentials. Credentials are matched against the rewritten
    /// reference, so that a mirror never receives the credentials of the original registry.
    pub(crate) fn locate(
        &self,
        reference: &Reference,
        keyring: &Keyring,
    ) -> Result<Located, LocateError> {
        let target = self.settings.mirrors.rewrite(reference)?;
        let candidates = keyring.lookup(&target)?;
        Ok(Located { target, candidates })
    }

    /// Resolves a reference to a digest, at most once per `tag_ttl` for a tag. If a later lookup of a tag
    /// fails with a transient error, the last known digest is used.
    pub(crate) async fn current_digest(
        self: &Arc<Self>,
        located: &Arc<Located>,
    ) -> Result<Digest, Error> {
        let (Some(tag), None) = (located.target.tag(), located.target.digest()) else {
            return self.resolve(located).await;
        };
        let key = (located.key(), tag.to_owned());
        let last = self.tags.get(&key);
        if let Some((digest, at)) = &last
            && at.elapsed() < self.settings.tag_ttl
        {
            return Ok(digest.clone());
        }
        let lookup = self.tag_lookups.run(key.clone(), || {
            let (inner, located) = (Arc::clone(self), Arc::clone(located));
            async move { inner.resolve(&located).await }
        });
        match (lookup.await, last) {
            (Ok(digest), _) => {
                self.tags.insert(key, (digest.clone(), Instant::now()));
                Ok(digest)
            }
            (Err(error), Some((digest, _))) if error.is_transient() => {
                tracing::warn!(image = %located.target, reason = error.reason(), "failed to resolve the tag; using the last known digest");
                Ok(digest)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Requests the digest of a tag. A reference with a digest needs no request.
    pub(crate) async fn resolve(self: &Arc<Self>, located: &Located) -> Result<Digest, Error> {
        if let Some(digest) = located.target.digest() {
            return Ok(digest.clone());
        }
        let head = self.head(located, located.target.tag_or_digest());
        let (session, digest) = self
            .within_deadline(&located.target.to_string(), head)
            .await?;
        self.granted
            .insert((located.key(), digest.clone()), session.candidate().clone());
        Ok(digest)
    }

    /// The scope of cache entries: the repository if tenants share the cache, otherwise one scope for
    /// all. Knowing a digest is no proof of access: a tenant's own registry would confirm any digest.
    pub(crate) fn scope(&self, name: &str) -> String {
        match self.settings.check_access {
            true => name.to_owned(),
            false => String::new(),
        }
    }

    /// Checks that these credentials may read this digest, with one request per digest.
    pub(crate) async fn check_access(
        &self,
        located: &Located,
        digest: &Digest,
    ) -> Result<(), Error> {
        match self.settings.check_access {
            true => self.granted_session(located, digest).await.map(|_| ()),
            false => Ok(()),
        }
    }

    /// A session that may read this digest: the cached one, or the first that the registry accepts.
    async fn granted_session(
        &self,
        located: &Located,
        digest: &Digest,
    ) -> Result<Arc<Session>, Error> {
        let key = (located.key(), digest.clone());
        let registry = located.target.registry();
        if let Some(candidate) = self.granted.get(&key) {
            return self.session(registry, &candidate);
        }
        if let ([only], false) = (located.candidates.as_slice(), self.settings.check_access) {
            return self.session(registry, only);
        }
        let head = self.head(located, digest.to_string());
        let (session, _) = self
            .within_deadline(&located.target.to_string(), head)
            .await?;
        self.granted.insert(key, session.candidate().clone());
        Ok(session)
    }

    /// Requests the digest of a tag or digest with the first credential that the registry accepts.
    async fn head(
        &self,
        located: &Located,
        tag_or_digest: String,
    ) -> Result<(Arc<Session>, Digest), Error> {
        let repository = located.target.repository();
        let head =
            async |session: Arc<Session>| session.head_manifest(repository, &tag_or_digest).await;
        self.try_each(located, |session| head(session).boxed())
            .await
    }

    /// The manifest or index of a reference, and the session that may read the repository.
    pub(crate) async fn first_manifest(
        self: &Arc<Self>,
        located: &Located,
        digest: &Digest,
    ) -> Result<(Arc<Session>, Vec<u8>), Error> {
        let scope = self.scope(&located.target.name());
        if let Some(bytes) = self.disk_cache.blob(&scope, digest).await {
            return Ok((self.granted_session(located, digest).await?, bytes));
        }
        let (repository, tag_or_digest) = (located.target.repository(), digest.to_string());
        let get =
            async |session: Arc<Session>| session.get_manifest(repository, &tag_or_digest).await;
        let (session, stored) = self
            .try_each(located, |session| get(session).boxed())
            .await?;
        self.disk_cache
            .put_blob(&scope, &stored.digest, &stored.bytes)
            .await;
        self.granted
            .insert((located.key(), digest.clone()), session.candidate().clone());
        Ok((session, stored.bytes))
    }

    /// A manifest by digest, from the disk cache or the registry.
    pub(crate) async fn manifest(
        &self,
        session: &Session,
        repository: &str,
        digest: &Digest,
    ) -> Result<Vec<u8>, Error> {
        let scope = self.scope(&session.name_of(repository));
        if let Some(bytes) = self.disk_cache.blob(&scope, digest).await {
            return Ok(bytes);
        }
        let stored = session
            .get_manifest(repository, &digest.to_string())
            .await?;
        self.disk_cache
            .put_blob(&scope, digest, &stored.bytes)
            .await;
        Ok(stored.bytes)
    }

    /// A blob by digest, from the disk cache or the registry.
    pub(crate) async fn blob(
        &self,
        session: &Session,
        repository: &str,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let scope = self.scope(&session.name_of(repository));
        if let Some(bytes) = self.disk_cache.blob(&scope, &descriptor.digest).await {
            return Ok(bytes);
        }
        let bytes = session.get_blob(repository, descriptor, limit).await?;
        self.disk_cache
            .put_blob(&scope, &descriptor.digest, &bytes)
            .await;
        Ok(bytes)
    }

    /// Tries the credentials in order, as the kubelet does, until the registry accepts one.
    pub(crate) async fn try_each<'a, T>(
        &self,
        located: &Located,
        operation: impl Fn(Arc<Session>) -> BoxFuture<'a, Result<T, Error>> + Send,
    ) -> Result<(Arc<Session>, T), Error> {
        let mut refused = None;
        for candidate in &located.candidates {
            let session = self.session(located.target.registry(), candidate)?;
            match operation(Arc::clone(&session)).await {
                Ok(value) => return Ok((session, value)),
                Err(error) if error.is_about_access() => {
                    tracing::debug!(image = %located.target, credential = %candidate.source, "the registry refused the credential");
                    // Report the first refusal: later credentials match less exactly.
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| Error::NotFound {
            at: located.target.to_string(),
        }))
    }

    fn session(&self, registry: &str, candidate: &Candidate) -> Result<Arc<Session>, Error> {
        let key = (registry.to_owned(), candidate.clone());
        if let Some(session) = self.sessions.get(&key) {
            return Ok(session);
        }
        let session = Session::new(
            registry,
            candidate.clone(),
            &self.settings,
            self.tls.clone(),
        )?;
        let session = Arc::new(session);
        self.sessions.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// Fails if the operation takes longer than the total time limit.
    pub(crate) async fn within_deadline<T, E: From<Error>>(
        &self,
        at: &str,
        operation: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let limit = self.settings.timeouts.total;
        let timed_out = |_| Error::TimedOut {
            at: at.to_owned(),
            limit,
        };
        timeout(limit, operation).await.map_err(timed_out)?
    }
}
