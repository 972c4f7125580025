//! Being let in: basic headers, and tokens from where the registry says.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Method, Response};
use serde::Deserialize;
use url::Url;

use super::{SMALL_ANSWER, Session};
use crate::challenge::{self, Challenge};
use crate::credentials::Credential;
use crate::error::Error;
use crate::transport::{Call, read_body};

/// What the token specification says an answer without `expires_in` means, and the least it may say.
const MIN_TOKEN_SECS: u64 = 60;
/// A token is given up this long before it ends, so that it does not end on the way.
const TOKEN_MARGIN: Duration = Duration::from_secs(5);

/// An authorization header and how long it is good for.
#[derive(Clone)]
pub(super) struct Held {
    header: HeaderValue,
    until: Option<Instant>,
}

impl Session {
    /// The header that was accepted for a scope before, while it lasts.
    pub(super) async fn held(&self, scope: &str) -> Option<HeaderValue> {
        let headers = self.headers.lock().await;
        let held = headers.get(scope)?;
        held.until
            .is_none_or(|until| until > Instant::now())
            .then(|| held.header.clone())
    }

    /// The header that answers a challenge, remembered for the scope.
    pub(super) async fn answer(
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
                let lifetime =
                    Duration::from_secs(token.expires_in.unwrap_or(0).max(MIN_TOKEN_SECS));
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
