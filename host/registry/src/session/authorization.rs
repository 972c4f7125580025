//! Authorization: Basic headers, and tokens from the token service of the registry.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Method, Response};
use serde::Deserialize;
use url::Url;

use super::{MAX_SMALL_RESPONSE_BYTES, Session};
use crate::challenge::{self, Challenge};
use crate::credentials::Credential;
use crate::error::Error;
use crate::transport::{Request, read_body};

/// The lifetime of a token without `expires_in`, and the shortest lifetime that the specification allows.
const MIN_TOKEN_SECS: u64 = 60;
/// A token is replaced this long before it expires, so that it does not expire during a request.
const TOKEN_MARGIN: Duration = Duration::from_secs(5);

/// The longest token. Real ones have a few KB.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// The most headers that a session holds, one for each repository.
const MAX_HEADERS: usize = 256;

/// An authorization header and when it expires.
#[derive(Clone)]
pub(super) struct CachedHeader {
    header: HeaderValue,
    expires: Option<Instant>,
}

impl Session {
    /// The cached header for a scope, unless it has expired.
    pub(super) async fn cached_header(&self, scope: &str) -> Option<HeaderValue> {
        let headers = self.headers.lock().await;
        let cached = headers.get(scope)?;
        cached
            .expires
            .is_none_or(|expires| expires > Instant::now())
            .then(|| cached.header.clone())
    }

    /// Obtains the header for a challenge and caches it for the scope.
    pub(super) async fn respond_to_challenge(
        &self,
        response: &Response,
        scope: &str,
        used: Option<&HeaderValue>,
        at: &str,
    ) -> Result<HeaderValue, Error> {
        let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenge = challenge::parse(values.filter_map(|value| value.to_str().ok()));
        let mut headers = self.headers.lock().await;
        if let Some(cached) = headers.get(scope)
            && Some(&cached.header) != used
            && cached
                .expires
                .is_none_or(|expires| expires > Instant::now())
        {
            // Another request has renewed the header in the meantime.
            return Ok(cached.header.clone());
        }
        headers.remove(scope);
        let (text, expires) = match (challenge, &self.candidate.credential) {
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
                    scope: requested,
                }),
                _,
            ) => {
                // Use the scope in the challenge only if it includes the scope of this request.
                let scope = requested
                    .filter(|requested| requested.starts_with(scope))
                    .unwrap_or(scope.into());
                let token = self.token(&realm, service.as_deref(), &scope, at).await?;
                (format!("Bearer {}", token.value()), token.expires())
            }
        };
        let mut header = HeaderValue::from_str(&text).map_err(|_| Error::UnexpectedResponse {
            at: at.to_owned(),
            problem:
                "the credential or token contains characters that are invalid in an HTTP header"
                    .to_owned(),
        })?;
        header.set_sensitive(true);
        if headers.len() >= MAX_HEADERS {
            // The tokens are requested again when they are needed.
            headers.clear();
        }
        headers.insert(
            scope.to_owned(),
            CachedHeader {
                header: header.clone(),
                expires,
            },
        );
        Ok(header)
    }

    /// Requests a token from the realm of a challenge. The address guard checks the realm too.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        at: &str,
    ) -> Result<Token, Error> {
        let bad = |problem: &str| Error::UnexpectedResponse {
            at: at.to_owned(),
            problem: problem.into(),
        };
        let mut url: Url = realm
            .parse()
            .map_err(|_| bad("the token realm is not a valid URL"))?;
        let fields = [("service", service.unwrap_or_default()), ("scope", scope)];
        let mut header = None;
        let request = match &self.candidate.credential {
            Credential::IdentityToken(token) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs([("grant_type", "refresh_token"), ("client_id", "llsd")]);
                form.extend_pairs(fields)
                    .append_pair("refresh_token", token);
                let body = Bytes::from(form.finish());
                Request::get(url, at)
                    .method(Method::POST)
                    .body("application/x-www-form-urlencoded", body)
            }
            credential => {
                url.query_pairs_mut()
                    .extend_pairs(fields.iter().filter(|(_, v)| !v.is_empty()));
                if let Credential::Basic { username, password } = credential {
                    let value = HeaderValue::from_str(&basic(username, password));
                    let mut value = value.map_err(|_| {
                        bad("the credential or token contains characters that are invalid in an HTTP header")
                    })?;
                    value.set_sensitive(true);
                    header = Some(value);
                }
                Request::get(url, at)
            }
        };
        let response = self.transport.send(&request, header.as_ref()).await?;
        if !response.status().is_success() {
            return Err(self.unauthorized(at.to_owned()));
        }
        let bytes = read_body(
            response,
            at,
            MAX_SMALL_RESPONSE_BYTES,
            self.transport.timeouts,
        )
        .await?;
        let token: Token = serde_json::from_slice(&bytes)
            .map_err(|_| bad("the token response is not valid JSON"))?;
        if token.value().is_empty() {
            return Err(bad("the token response contains no token"));
        }
        if token.value().len() > MAX_TOKEN_BYTES {
            return Err(bad("the token has more than 16 KiB"));
        }
        Ok(token)
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
    /// When to replace the token.
    fn expires(&self) -> Option<Instant> {
        let lifetime = Duration::from_secs(self.expires_in.unwrap_or(0).max(MIN_TOKEN_SECS));
        Instant::now().checked_add(lifetime.saturating_sub(TOKEN_MARGIN))
    }

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
