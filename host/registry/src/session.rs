//! The distribution protocol, spoken to one registry with one credential.
//!
//! A session owns its connections, its tokens and its judgement of addresses, so nothing that one
//! credential obtained can be used under another. A refused credential is an error: a session never
//! tries again as somebody else, nor as nobody.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;

use crate::challenge::{self, Challenge};
use crate::credentials::{Candidate, Credential};
use crate::digest::{Digest, Hashing};
use crate::error::Error;
use crate::guard::is_plain;
use crate::manifest::{ACCEPT_MANIFESTS, Descriptor, Document, Index};
use crate::reference::DEFAULT_REGISTRY;
use crate::settings::Settings;
use crate::transport::{Call, Transport, next_chunk, read_body};

mod upload;

/// Token answers and error messages are small; more is not read.
const SMALL_ANSWER: u64 = 1 << 20;
/// What the token specification says an answer without `expires_in` means.
const DEFAULT_TOKEN_SECS: u64 = 60;
/// A token is given up this long before it ends, so that it does not end on the way.
const TOKEN_MARGIN: Duration = Duration::from_secs(5);

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

#[derive(Clone)]
struct Held {
    header: HeaderValue,
    until: Option<Instant>,
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
            Err(Error::NotFound { .. }) => {
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

    async fn held(&self, scope: &str) -> Option<HeaderValue> {
        let headers = self.headers.lock().await;
        let held = headers.get(scope)?;
        held.until
            .is_none_or(|until| until > Instant::now())
            .then(|| held.header.clone())
    }

    /// The header that answers a challenge, remembered for the scope.
    async fn answer(
        &self,
        response: &Response,
        scope: &str,
        used: Option<&HeaderValue>,
        at: &str,
    ) -> Result<HeaderValue, Error> {
        let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenge = challenge::parse(values.filter_map(|value| value.to_str().ok()));
        let mut headers = self.headers.lock().await;
        if let Some(held) = headers.get(scope)
            && Some(&held.header) != used
            && held.until.is_none_or(|until| until > Instant::now())
        {
            // Somebody else has answered it meanwhile.
            return Ok(held.header.clone());
        }
        headers.remove(scope);
        let (text, until) = match (challenge, &self.candidate.credential) {
            (None, _) => return Err(self.unauthorized(at.to_owned())),
            (Some(_), Credential::RegistryToken(token)) => (format!("Bearer {token}"), None),
            (Some(Challenge::Basic), Credential::Basic { username, password }) => {
                (basic(username, password), None)
            }
            (Some(Challenge::Basic), _) => return Err(self.unauthorized(at.to_owned())),
            (
                Some(Challenge::Bearer {
                    realm,
                    service,
                    scope: asked,
                }),
                _,
            ) => {
                // A registry may ask for a wider scope than we know; a narrower one is not enough.
                let scope = asked
                    .filter(|asked| asked.starts_with(scope))
                    .unwrap_or(scope.into());
                let token = self.token(&realm, service.as_deref(), &scope, at).await?;
                let lifetime = Duration::from_secs(token.expires_in.unwrap_or(DEFAULT_TOKEN_SECS));
                let until = Instant::now().checked_add(lifetime.saturating_sub(TOKEN_MARGIN));
                (format!("Bearer {}", token.value()), until)
            }
        };
        let mut header = HeaderValue::from_str(&text).map_err(|_| Error::BadAnswer {
            at: at.to_owned(),
            problem: "the credential cannot be sent in a header".to_owned(),
        })?;
        header.set_sensitive(true);
        headers.insert(
            scope.to_owned(),
            Held {
                header: header.clone(),
                until,
            },
        );
        Ok(header)
    }

    /// Gets a token where the registry says; the guard judges that address like any other hop.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        at: &str,
    ) -> Result<Token, Error> {
        let bad = |problem: &str| Error::BadAnswer {
            at: at.to_owned(),
            problem: problem.into(),
        };
        let mut url: Url = realm
            .parse()
            .map_err(|_| bad("the token address is not a URL"))?;
        let fields = [("service", service.unwrap_or_default()), ("scope", scope)];
        let mut header = None;
        let call = match &self.candidate.credential {
            Credential::IdentityToken(token) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs([("grant_type", "refresh_token"), ("client_id", "llsd")]);
                form.extend_pairs(fields)
                    .append_pair("refresh_token", token);
                let body = Bytes::from(form.finish());
                Call::get(url, at)
                    .method(Method::POST)
                    .body("application/x-www-form-urlencoded", body)
            }
            credential => {
                url.query_pairs_mut()
                    .extend_pairs(fields.iter().filter(|(_, v)| !v.is_empty()));
                if let Credential::Basic { username, password } = credential {
                    let value = HeaderValue::from_str(&basic(username, password));
                    let mut value = value.map_err(|_| bad("the credential cannot be sent"))?;
                    value.set_sensitive(true);
                    header = Some(value);
                }
                Call::get(url, at)
            }
        };
        let response = self.transport.send(&call, header.as_ref()).await?;
        if !response.status().is_success() {
            return Err(self.unauthorized(at.to_owned()));
        }
        let bytes = read_body(response, at, SMALL_ANSWER, self.transport.timeouts).await?;
        let token: Token =
            serde_json::from_slice(&bytes).map_err(|_| bad("the token answer cannot be read"))?;
        if token.value().is_empty() {
            return Err(bad("the token answer holds no token"));
        }
        Ok(token)
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

/// A blob on its way in: counted and hashed as it passes.
pub(crate) struct Blob<'a> {
    session: &'a Session,
    response: Response,
    /// `None` once the end was reached and checked.
    hashing: Option<Hashing>,
    descriptor: Descriptor,
    pub(crate) at: String,
}

impl Blob<'_> {
    /// The next piece. `None` comes only after length and digest were found right.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(mut hashing) = self.hashing.take() else {
            return Ok(None);
        };
        let timeouts = self.session.transport.timeouts;
        let chunk = next_chunk(&mut self.response, &self.at, hashing.count(), timeouts).await?;
        let expected = self.descriptor.size;
        let wrong_length = |found| {
            Err(Error::WrongLength {
                at: self.at.clone(),
                expected,
                found,
            })
        };
        match chunk {
            Some(bytes) => {
                hashing.update(&bytes);
                if hashing.count() > expected {
                    return wrong_length(hashing.count());
                }
                self.hashing = Some(hashing);
                Ok(Some(bytes))
            }
            None if hashing.count() != expected => wrong_length(hashing.count()),
            None => match hashing.finish() {
                found if found == self.descriptor.digest => Ok(None),
                found => Err(Error::DigestMismatch {
                    at: self.at.clone(),
                    found,
                }),
            },
        }
    }
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Token {
    fn value(&self) -> &str {
        if self.token.is_empty() {
            &self.access_token
        } else {
            &self.token
        }
    }
}

fn basic(username: &str, password: &str) -> String {
    format!(
        "Basic {}",
        STANDARD.encode(format!("{username}:{password}"))
    )
}
