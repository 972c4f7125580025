//! The distribution protocol, spoken to one registry with one credential.
//!
//! A session owns its connections, its tokens and its judgement of addresses, so nothing that one
//! credential obtained can be used under another. A refused credential is an error: a session never
//! tries again as somebody else, nor as nobody.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;

use crate::credentials::Candidate;
use crate::digest::{Digest, Hashing};
use crate::error::Error;
use crate::guard::is_plain;
use crate::manifest::{ACCEPT_MANIFESTS, Descriptor, Document, Index};
use crate::reference::DEFAULT_REGISTRY;
use crate::settings::Settings;
use crate::transport::{Call, Transport, read_body};

mod authorization;
mod blob;
mod upload;

use authorization::Held;
pub(crate) use blob::Blob;

/// Token answers and error messages are small; more is not read.
const SMALL_ANSWER: u64 = 1 << 20;
/// What a request wants to do with a repository; tokens are per access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Pull,
    Push,
}

/// See the module text.
pub(crate) struct Session {
    registry: String,
    base: Url,
    candidate: Candidate,
    transport: Transport,
    /// Authorization header by scope. Held while a token is fetched, so that many requests share one.
    headers: Mutex<BTreeMap<String, Held>>,
    manifest_limit: u64,
}

/// A manifest as the registry holds it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
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
            problem: format!("{host:?} is not a registry host"),
        };
        let mut base: Url = format!("https://{host}/v2/").parse().map_err(bad)?;
        let http: Url = format!("http://{host}/v2/").parse().map_err(bad)?;
        if is_plain(&settings.plain_http, &http) {
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

    /// Registry and repository in one text.
    pub(crate) fn name_of(&self, repository: &str) -> String {
        format!("{}/{repository}", self.registry)
    }

    /// What this session shows to the registry.
    pub(crate) fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The digest a tag points to, or the digest itself when it exists.
    pub(crate) async fn head_manifest(
        &self,
        repository: &str,
        selector: &str,
    ) -> Result<Digest, Error> {
        let at = self.at(repository, selector);
        let url = self.url(&at, &[repository, "manifests", selector])?;
        let call = Call::get(url, &at)
            .method(Method::HEAD)
            .accept(ACCEPT_MANIFESTS);
        let response = self.request(repository, Access::Pull, &call).await?;
        let header = response.headers().get("docker-content-digest");
        match header.and_then(|value| value.to_str().ok()?.parse().ok()) {
            Some(digest) => Ok(digest),
            // Old registries leave the header out; the bytes say it too.
            None => Ok(self.get_manifest(repository, selector).await?.digest),
        }
    }

    /// A manifest or index. Asked for by digest, its bytes are checked against it.
    pub(crate) async fn get_manifest(
        &self,
        repository: &str,
        selector: &str,
    ) -> Result<Stored, Error> {
        let at = self.at(repository, selector);
        let url = self.url(&at, &[repository, "manifests", selector])?;
        let call = Call::get(url, &at).accept(ACCEPT_MANIFESTS);
        let read = || self.read(repository, &call, self.manifest_limit).boxed();
        let bytes = self.retrying(read).await?;
        let digest = Digest::of(&bytes);
        match selector.parse::<Digest>() {
            Ok(wanted) if wanted != digest => Err(Error::DigestMismatch { at, found: digest }),
            _ => Ok(Stored { digest, bytes }),
        }
    }

    /// Opens a blob for reading. The announced size must fit the descriptor and the limit.
    pub(crate) async fn open_blob(
        &self,
        repository: &str,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<Blob<'_>, Error> {
        let at = self.at(repository, &descriptor.digest.to_string());
        if descriptor.size > limit {
            return Err(Error::TooLarge { at, limit });
        }
        let digest = descriptor.digest.to_string();
        let url = self.url(&at, &[repository, "blobs", &digest])?;
        let response = self
            .request(repository, Access::Pull, &Call::get(url, &at))
            .await?;
        match response.content_length() {
            Some(found) if found != descriptor.size => Err(Error::WrongLength {
                at,
                expected: descriptor.size,
                found,
            }),
            _ => Ok(Blob {
                session: self,
                response,
                hashing: Some(Hashing::default()),
                descriptor: descriptor.clone(),
                at,
            }),
        }
    }

    /// A whole blob in memory.
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

    /// What refers to a manifest: the API's answer, or the fallback tag where there is no API.
    pub(crate) async fn referrers(
        &self,
        repository: &str,
        subject: &Digest,
    ) -> Result<Vec<Descriptor>, Error> {
        let at = self.at(repository, &subject.to_string());
        let url = self.url(&at, &[repository, "referrers", &subject.to_string()])?;
        let call = Call::get(url, &at).accept(crate::manifest::OCI_INDEX);
        let answered = self.read(repository, &call, self.manifest_limit).await;
        let bytes = match answered {
            // No such API: 404 from most, another refusal from some.
            Err(Error::NotFound { .. } | Error::Refused { .. }) => {
                let fallback = format!("sha256-{}", subject.hex());
                match self.get_manifest(repository, &fallback).await {
                    Err(Error::NotFound { .. }) => return Ok(Vec::new()),
                    other => other?.bytes,
                }
            }
            other => other?,
        };
        match Document::parse(&bytes) {
            Ok(Document::Index(Index { manifests })) => Ok(manifests),
            Ok(Document::Manifest(_)) => Ok(Vec::new()),
            Err(problem) => Err(Error::BadAnswer { at, problem }),
        }
    }

    /// Runs a read again while its failure looks temporary; `send` covers everything up to the
    /// headers, this covers bodies that break off.
    pub(crate) async fn retrying<'a, T>(
        &self,
        operation: impl Fn() -> BoxFuture<'a, Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let mut attempt = 1;
        loop {
            match operation().await {
                Err(Error::CutShort { .. }) if self.transport.may_retry(attempt) => {
                    tokio::time::sleep(self.transport.backoff(attempt)).await;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn read(&self, repository: &str, call: &Call, limit: u64) -> Result<Vec<u8>, Error> {
        let response = self.request(repository, Access::Pull, call).await?;
        read_body(response, &call.at, limit, self.transport.timeouts).await
    }

    /// Sends with authorization, answers one challenge, and turns refusals into errors.
    async fn request(
        &self,
        repository: &str,
        access: Access,
        call: &Call,
    ) -> Result<Response, Error> {
        let scope = match access {
            Access::Pull => format!("repository:{repository}:pull"),
            Access::Push => format!("repository:{repository}:pull,push"),
        };
        let used = self.held(&scope).await;
        let mut response = self.transport.send(call, used.as_ref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let header = self
                .answer(&response, &scope, used.as_ref(), &call.at)
                .await?;
            response = self.transport.send(call, Some(&header)).await?;
        }
        let at = call.at.clone();
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

    /// The registry's own words, in one short line, without anything we sent as a credential.
    async fn message_of(&self, response: Response, at: &str) -> String {
        #[derive(Deserialize, Default)]
        struct Answer {
            #[serde(default)]
            errors: Vec<Problem>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Problem {
            code: String,
            message: String,
        }
        let read = read_body(response, at, SMALL_ANSWER, self.transport.timeouts).await;
        let answer: Answer = read
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let Some(Problem { code, message }) = answer.errors.into_iter().next() else {
            return "no reason given".to_owned();
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

    fn at(&self, repository: &str, selector: &str) -> String {
        let joint = if selector.starts_with("sha256:") {
            '@'
        } else {
            ':'
        };
        format!("{}/{repository}{joint}{selector}", self.registry)
    }

    fn url(&self, at: &str, path: &[&str]) -> Result<Url, Error> {
        self.base
            .join(&path.join("/"))
            .map_err(|_| Error::BadAnswer {
                at: at.to_owned(),
                problem: "its name does not fit into a URL".to_owned(),
            })
    }
}
