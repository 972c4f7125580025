//! The registry client: sessions, what is cached between them, and how access is decided.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::timeout;

use crate::base::{self, BaseConfig};
use crate::cache::store::Store;
use crate::cache::{Flights, Memory};
use crate::credentials::{self, Candidate, Credential, Keyring};
use crate::digest::Digest;
use crate::error::Error;
use crate::file;
use crate::manifest::Descriptor;
use crate::reference::{ParseReferenceError, Reference};
use crate::session::Session;
use crate::settings::Settings;
use crate::transport::tls_config;

/// Shipped base configurations have up to 60 KB; at the limit of 1 MiB each, this is the most we hold.
const BASES: usize = 64;
/// A provider's declaration has a few hundred bytes.
const FILES: usize = 256;
/// Tags and rights are a few hundred bytes each.
const SMALL_ENTRIES: usize = 8192;
/// Each holds a few idle connections.
const SESSIONS: usize = 256;

/// A client for any number of registries and credentials. Clones share everything.
#[derive(Clone)]
pub struct Registry {
    pub(crate) inner: Arc<Inner>,
}

/// A repository as one set of credentials sees it.
pub(crate) type Viewpoint = (String, Vec<Credential>);

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    /// By scope and digest of the image.
    pub(crate) bases: Memory<(String, Digest), Arc<BaseConfig>>,
    pub(crate) base_flights: Flights<(Viewpoint, Digest), Arc<BaseConfig>, base::Error>,
    /// By scope and digest of the image, and path of the file.
    pub(crate) files: Memory<(String, Digest, String), Arc<[u8]>>,
    pub(crate) file_flights: Flights<(Viewpoint, Digest, String), Arc<[u8]>, file::Error>,
    tls: rustls::ClientConfig,
    sessions: Memory<(String, Candidate), Arc<Session>>,
    tags: Memory<(Viewpoint, String), (Digest, Instant)>,
    tag_flights: Flights<(Viewpoint, String), Digest, Error>,
    /// Who was let see what by the registry, and with which of their credentials.
    seen: Memory<(Viewpoint, Digest), Candidate>,
}

/// A reference after the mirrors, with the credentials that match it there.
pub(crate) struct Located {
    pub(crate) target: Reference,
    pub(crate) candidates: Vec<Candidate>,
}

impl Located {
    pub(crate) fn key(&self) -> Viewpoint {
        let credentials = self
            .candidates
            .iter()
            .map(|c| c.credential.clone())
            .collect();
        (self.target.name(), credentials)
    }
}

/// Why a reference leads nowhere before any request was made.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LocateError {
    #[error(transparent)]
    Mirror(#[from] ParseReferenceError),
    #[error(transparent)]
    Credentials(#[from] credentials::Error),
}

impl From<LocateError> for base::Error {
    fn from(error: LocateError) -> Self {
        match error {
            LocateError::Mirror(error) => error.into(),
            LocateError::Credentials(error) => error.into(),
        }
    }
}

impl Registry {
    /// Checks the settings; makes no request.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let tls = tls_config(&settings.extra_ca)?;
        let store = Store::open(settings.cache_dir.clone(), settings.cache_bytes);
        let store = store.map_err(|error| Error::Settings {
            problem: format!("the cache folder cannot be used: {error}"),
        })?;
        Ok(Self {
            inner: Arc::new(Inner {
                settings,
                store,
                bases: Memory::new(BASES),
                base_flights: Flights::new(),
                files: Memory::new(FILES),
                file_flights: Flights::new(),
                tls,
                sessions: Memory::new(SESSIONS),
                tags: Memory::new(SMALL_ENTRIES),
                tag_flights: Flights::new(),
                seen: Memory::new(SMALL_ENTRIES),
            }),
        })
    }

    /// A client with some settings changed, which remembers nothing of this one.
    pub fn adapted(&self, change: impl FnOnce(&mut Settings)) -> Result<Self, Error> {
        let mut settings = self.inner.settings.clone();
        change(&mut settings);
        Self::new(settings)
    }
}

impl Inner {
    /// Where a reference is read from and with what. Credentials are matched with the address that is
    /// really asked, so that a mirror never receives the credentials of what it mirrors.
    pub(crate) fn locate(
        &self,
        reference: &Reference,
        keyring: &Keyring,
    ) -> Result<Located, LocateError> {
        let target = self.settings.mirrors.rewrite(reference)?;
        let candidates = keyring.lookup(&target)?;
        Ok(Located { target, candidates })
    }

    /// The digest the reference means now. A tag whose registry does not answer keeps its last digest.
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
        let asked = self.tag_flights.join(key.clone(), || {
            let (inner, located) = (Arc::clone(self), Arc::clone(located));
            async move { inner.resolve(&located).await }
        });
        match (asked.await, last) {
            (Ok(digest), _) => {
                self.tags.put(key, (digest.clone(), Instant::now()));
                Ok(digest)
            }
            (Err(error), Some((digest, _))) if error.is_transient() => {
                tracing::warn!(image = %located.target, reason = error.reason(), "the tag keeps its last digest");
                Ok(digest)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Asks the registry which digest a tag has; a digest is its own answer.
    pub(crate) async fn resolve(self: &Arc<Self>, located: &Located) -> Result<Digest, Error> {
        if let Some(digest) = located.target.digest() {
            return Ok(digest.clone());
        }
        let asked = self.head(located, located.target.selector());
        let (session, digest) = self
            .within_deadline(&located.target.to_string(), asked)
            .await?;
        self.seen
            .put((located.key(), digest.clone()), session.candidate().clone());
        Ok(digest)
    }

    /// What the caches keep apart: repositories, where tenants share them; nothing, where they do not.
    /// A registry of somebody's own would vouch for any digest, so a digest alone proves no right.
    pub(crate) fn scope(&self, name: &str) -> String {
        match self.settings.check_access {
            true => name.to_owned(),
            false => String::new(),
        }
    }

    /// Makes sure, by asking once, that these credentials may read this digest.
    pub(crate) async fn check_access(
        &self,
        located: &Located,
        digest: &Digest,
    ) -> Result<(), Error> {
        match self.settings.check_access {
            true => self.admitted(located, digest).await.map(|_| ()),
            false => Ok(()),
        }
    }

    /// A session that may read this digest: one that was let in before, or the first that is now.
    async fn admitted(&self, located: &Located, digest: &Digest) -> Result<Arc<Session>, Error> {
        let key = (located.key(), digest.clone());
        let registry = located.target.registry();
        if let Some(candidate) = self.seen.get(&key) {
            return self.session(registry, &candidate);
        }
        if let ([only], false) = (located.candidates.as_slice(), self.settings.check_access) {
            return self.session(registry, only);
        }
        let asked = self.head(located, digest.to_string());
        let (session, _) = self
            .within_deadline(&located.target.to_string(), asked)
            .await?;
        self.seen.put(key, session.candidate().clone());
        Ok(session)
    }

    /// Asks for the digest of a tag or digest, with the first credential that is let in.
    async fn head(
        &self,
        located: &Located,
        selector: String,
    ) -> Result<(Arc<Session>, Digest), Error> {
        let repository = located.target.repository();
        let head = async |session: Arc<Session>| session.head_manifest(repository, &selector).await;
        self.try_each(located, |session| head(session).boxed())
            .await
    }

    /// The manifest a reference starts from, and the session that may read the repository.
    pub(crate) async fn first_manifest(
        self: &Arc<Self>,
        located: &Located,
        digest: &Digest,
    ) -> Result<(Arc<Session>, Vec<u8>), Error> {
        let scope = self.scope(&located.target.name());
        if let Some(bytes) = self.store.blob(&scope, digest).await {
            return Ok((self.admitted(located, digest).await?, bytes));
        }
        let (repository, selector) = (located.target.repository(), digest.to_string());
        let get = async |session: Arc<Session>| session.get_manifest(repository, &selector).await;
        let (session, stored) = self
            .try_each(located, |session| get(session).boxed())
            .await?;
        self.store
            .keep_blob(&scope, &stored.digest, &stored.bytes)
            .await;
        self.seen
            .put((located.key(), digest.clone()), session.candidate().clone());
        Ok((session, stored.bytes))
    }

    /// A manifest by digest, from disk or from the registry.
    pub(crate) async fn manifest(
        &self,
        session: &Session,
        repository: &str,
        digest: &Digest,
    ) -> Result<Vec<u8>, Error> {
        let scope = self.scope(&session.name_of(repository));
        if let Some(bytes) = self.store.blob(&scope, digest).await {
            return Ok(bytes);
        }
        let stored = session
            .get_manifest(repository, &digest.to_string())
            .await?;
        self.store.keep_blob(&scope, digest, &stored.bytes).await;
        Ok(stored.bytes)
    }

    /// A blob by digest, from disk or from the registry.
    pub(crate) async fn blob(
        &self,
        session: &Session,
        repository: &str,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let scope = self.scope(&session.name_of(repository));
        if let Some(bytes) = self.store.blob(&scope, &descriptor.digest).await {
            return Ok(bytes);
        }
        let bytes = session.get_blob(repository, descriptor, limit).await?;
        self.store
            .keep_blob(&scope, &descriptor.digest, &bytes)
            .await;
        Ok(bytes)
    }

    /// Tries the credentials in order, as the kubelet does, until one is let in.
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
                    tracing::debug!(image = %located.target, credential = %candidate.source, "refused");
                    // Of several refusals the first says most: later credentials are guesses.
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
        self.sessions.put(key, Arc::clone(&session));
        Ok(session)
    }

    /// Ends an operation that takes longer than it may in all.
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
