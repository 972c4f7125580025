//! A client of the OCI distribution protocol for one registry and one credential.
//!
//! A session owns its connections, its tokens and its address guard, so that nothing obtained with one
//! credential is used with another. A refused credential is an error: a session never retries with
//! another credential or anonymously.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;

use crate::credentials::Candidate;
use crate::digest::{Digest, Hasher};
use crate::error::Error;
use crate::guard::is_plain_http;
use crate::manifest::{ACCEPT_MANIFESTS, Descriptor};
use crate::reference::DEFAULT_REGISTRY;
use crate::settings::Settings;
use crate::transport::{Request, Transport, read_body};

mod authorization;
mod blob;
mod referrers;
mod upload;

use authorization::CachedHeader;
pub(crate) use blob::BlobReader;

/// The size limit of token responses and error messages.
const MAX_SMALL_RESPONSE_BYTES: u64 = 1 << 20;
/// The access to a repository that a request needs. Tokens are valid for one kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Pull,
    Push,
}

/// A session; see the module documentation.
pub(crate) struct Session {
    registry: String,
    base: Url,
    candidate: Candidate,
    transport: Transport,
    /// Authorization headers by scope. Locked while a token is requested, so that concurrent requests
    /// share one token.
    headers: Mutex<BTreeMap<String, CachedHeader>>,
    manifest_limit: u64,
}

/// A manifest or index, and its digest.
#[derive(Clone, Debug)]
pub(crate) struct FetchedManifest {
    pub(crate) digest: Digest,
    pub(crate) bytes: Vec<u8>,
}

impl Session {
    pub(crate) fn new(
        registry: &str,
        candidate: Candidate,
        settings: &Settings,
        tls: rustls::ClientConfig,
    ) -> Result<Self, Error> {
        let host = match registry {
            DEFAULT_REGISTRY => "registry-1.docker.io",
            other => other,
        };
        let bad = |_| Error::Settings {
            problem: format!("{host:?} is not a valid registry host"),
        };
        let mut base: Url = format!("https://{host}/v2/").parse().map_err(bad)?;
        let http: Url = format!("http://{host}/v2/").parse().map_err(bad)?;
        if is_plain_http(&settings.plain_http, &http) {
            base = http;
        }
        let transport = Transport::new(base.host_str().unwrap_or_default(), settings, tls)?;
        Ok(Self {
            registry: registry.to_owned(),
            base,
            candidate,
            transport,
            headers: Mutex::default(),
            manifest_limit: settings.limits.manifest_bytes,
        })
    }

    /// The host and port of the registry.
    pub(crate) fn registry(&self) -> &str {
        &self.registry
    }

    /// `registry/repository`.
    pub(crate) fn name_of(&self, repository: &str) -> String {
        format!("{}/{repository}", self.registry)
    }

    /// The credential of this session.
    pub(crate) fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// Requests the digest of a tag, or checks that a digest exists.
    pub(crate) async fn head_manifest(
        &self,
        repository: &str,
        tag_or_digest: &str,
    ) -> Result<Digest, Error> {
        let at = self.at(repository, tag_or_digest);
        let url = self.url(&at, &[repository, "manifests", tag_or_digest])?;
        let request = Request::get(url, &at)
            .method(Method::HEAD)
            .accept(ACCEPT_MANIFESTS);
        let response = self.send(repository, Access::Pull, &request).await?;
        let header = response.headers().get("docker-content-digest");
        match header.and_then(|value| value.to_str().ok()?.parse().ok()) {
            Some(digest) => Ok(digest),
            // Old registries omit the header. Fetch the manifest and hash it.
            None => Ok(self.get_manifest(repository, tag_or_digest).await?.digest),
        }
    }

    /// Fetches a manifest or index. If it is requested by digest, its content must match.
    pub(crate) async fn get_manifest(
        &self,
        repository: &str,
        tag_or_digest: &str,
    ) -> Result<FetchedManifest, Error> {
        let at = self.at(repository, tag_or_digest);
        let url = self.url(&at, &[repository, "manifests", tag_or_digest])?;
        let request = Request::get(url, &at).accept(ACCEPT_MANIFESTS);
        let read = || self.read(repository, &request, self.manifest_limit).boxed();
        let bytes = self.retrying(read).await?;
        let digest = Digest::of(&bytes);
        match tag_or_digest.parse::<Digest>() {
            Ok(expected) if expected != digest => Err(Error::DigestMismatch { at, found: digest }),
            _ => Ok(FetchedManifest { digest, bytes }),
        }
    }

    /// Opens a blob for reading. Its size must match the descriptor and be within the limit.
    pub(crate) async fn open_blob(
        &self,
        repository: &str,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<BlobReader<'_>, Error> {
        let at = self.at(repository, &descriptor.digest.to_string());
        if descriptor.size > limit {
            return Err(Error::TooLarge { at, limit });
        }
        let digest = descriptor.digest.to_string();
        let url = self.url(&at, &[repository, "blobs", &digest])?;
        let response = self
            .send(repository, Access::Pull, &Request::get(url, &at))
            .await?;
        match response.content_length() {
            Some(found) if found != descriptor.size => Err(Error::WrongLength {
                at,
                expected: descriptor.size,
                found,
            }),
            _ => Ok(BlobReader {
                session: self,
                response,
                hasher: Some(Hasher::new()),
                descriptor: descriptor.clone(),
                at,
            }),
        }
    }

    /// Reads a whole blob into memory.
    pub(crate) async fn get_blob(
        &self,
        repository: &str,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let read = async || {
            let mut blob = self.open_blob(repository, descriptor, limit).await?;
            let mut bytes = Vec::with_capacity(descriptor.size as usize);
            while let Some(chunk) = blob.next().await? {
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        };
        self.retrying(|| read().boxed()).await
    }

    /// Retries a read whose response body ended early. `Transport::send` retries all earlier failures.
    pub(crate) async fn retrying<'a, T>(
        &self,
        operation: impl Fn() -> BoxFuture<'a, Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let mut attempt = 1;
        loop {
            match operation().await {
                Err(Error::ConnectionLost { .. }) if self.transport.may_retry(attempt) => {
                    tokio::time::sleep(self.transport.backoff(attempt)).await;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn read(
        &self,
        repository: &str,
        request: &Request,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let response = self.send(repository, Access::Pull, request).await?;
        read_body(response, &request.at, limit, self.transport.timeouts).await
    }

    /// Sends a request with authorization, responds to one challenge, and maps the status to an error.
    async fn send(
        &self,
        repository: &str,
        access: Access,
        request: &Request,
    ) -> Result<Response, Error> {
        let scope = match access {
            Access::Pull => format!("repository:{repository}:pull"),
            Access::Push => format!("repository:{repository}:pull,push"),
        };
        let used = self.cached_header(&scope).await;
        let mut response = self.transport.send(request, used.as_ref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            check_challenger(&response, request)?;
            let header = self
                .respond_to_challenge(&response, &scope, used.as_ref(), &request.at)
                .await?;
            response = self.transport.send(request, Some(&header)).await?;
        }
        let at = request.at.clone();
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.unauthorized(at)),
            StatusCode::NOT_FOUND => Err(Error::NotFound { at }),
            status => {
                let message = self.message_of(response, &at).await;
                Err(Error::Refused {
                    at,
                    status: status.as_u16(),
                    message,
                })
            }
        }
    }

    fn unauthorized(&self, at: String) -> Error {
        Error::Unauthorized {
            at,
            credential: self.candidate.source.clone(),
        }
    }

    /// The error message of the registry, as one short line without the secrets of the credential.
    async fn message_of(&self, response: Response, at: &str) -> String {
        #[derive(Deserialize, Default)]
        struct ErrorResponse {
            #[serde(default)]
            errors: Vec<Problem>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Problem {
            code: String,
            message: String,
        }
        let read = read_body(
            response,
            at,
            MAX_SMALL_RESPONSE_BYTES,
            self.transport.timeouts,
        )
        .await;
        let response: ErrorResponse = read
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let Some(Problem { code, message }) = response.errors.into_iter().next() else {
            return "the response has no error message".to_owned();
        };
        let mut text = format!("{code} {message}");
        for secret in self.candidate.credential.secrets() {
            text = text.replace(secret, "…");
        }
        text.chars()
            .filter(|c| !c.is_control())
            .take(200)
            .collect::<String>()
            .trim()
            .to_owned()
    }

    fn at(&self, repository: &str, tag_or_digest: &str) -> String {
        let separator = if tag_or_digest.starts_with("sha256:") {
            '@'
        } else {
            ':'
        };
        format!("{}/{repository}{separator}{tag_or_digest}", self.registry)
    }

    fn url(&self, at: &str, path: &[&str]) -> Result<Url, Error> {
        self.base
            .join(&path.join("/"))
            .map_err(|_| Error::UnexpectedResponse {
                at: at.to_owned(),
                problem: "its name cannot be part of a URL".to_owned(),
            })
    }
}

/// Only the registry itself may ask for the credential. The target of a redirect is another server: its
/// challenge would name a token service of its choice, which would then receive the credential.
fn check_challenger(response: &Response, request: &Request) -> Result<(), Error> {
    if response.url().origin() == request.url.origin() {
        return Ok(());
    }
    let host = response.url().host_str().unwrap_or_default();
    Err(Error::UnexpectedResponse {
        at: request.at.clone(),
        problem: format!(
            "it redirects to {host}, which asks for a login; credentials are sent to the registry only"
        ),
    })
}
