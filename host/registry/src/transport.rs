//! One HTTP exchange with everything that can happen on the way: redirects, retries, limits.
//!
//! Every hop passes the [`HopGuard`]. Redirects are followed here and not by the HTTP client, because
//! each of them must be judged, and because credentials stay at the origin they were meant for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use url::Url;

use crate::error::{Error, from_transport};
use crate::guard::{GuardedResolver, HopGuard};
use crate::settings::{ProxySettings, Retry, Settings, Timeouts};

/// Storage backends need one redirect; more than a few is a loop.
const MAX_REDIRECTS: usize = 5;

/// A request, ready to be sent as often as needed.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: Option<&'static str>,
    pub(crate) body: Option<(String, Bytes)>,
    /// What is asked for, in words for errors.
    pub(crate) at: String,
}

impl Call {
    pub(crate) fn get(url: Url, at: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            url,
            accept: None,
            body: None,
            at: at.into(),
        }
    }

    pub(crate) fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    pub(crate) fn accept(self, accept: &'static str) -> Self {
        Self {
            accept: Some(accept),
            ..self
        }
    }

    pub(crate) fn body(self, media_type: &str, body: Bytes) -> Self {
        Self {
            body: Some((media_type.to_owned(), body)),
            ..self
        }
    }
}

/// The HTTP client of one registry and one credential.
pub(crate) struct Transport {
    client: reqwest::Client,
    guard: Arc<HopGuard>,
    pub(crate) timeouts: Timeouts,
    retry: Retry,
}

impl Transport {
    /// Connections are not shared between credentials, so neither are proxies' or servers' views of them.
    pub(crate) fn new(
        registry_host: &str,
        settings: &Settings,
        tls: rustls::ClientConfig,
    ) -> Result<Self, Error> {
        let guard = Arc::new(HopGuard::new(
            registry_host,
            settings.allowed.clone(),
            settings.plain_http.clone(),
            settings.proxy.hosts(),
            Arc::clone(&settings.network),
        ));
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(GuardedResolver(Arc::clone(&guard)))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(settings.timeouts.connect)
            .read_timeout(settings.timeouts.read)
            .pool_max_idle_per_host(4)
            .user_agent(concat!("llsd/", env!("CARGO_PKG_VERSION")))
            .no_proxy();
        for proxy in proxies(&settings.proxy)? {
            builder = builder.proxy(proxy);
        }
        let client = builder.build().map_err(|error| Error::Settings {
            problem: format!("no HTTP client can be made: {}", error.without_url()),
        })?;
        Ok(Self {
            client,
            guard,
            timeouts: settings.timeouts,
            retry: settings.retry,
        })
    }

    /// Sends until there is an answer that a second try would not change.
    pub(crate) async fn send(
        &self,
        call: &Call,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Error> {
        // An upload that arrived must not arrive twice.
        let repeatable = matches!(call.method, Method::GET | Method::HEAD);
        let mut attempt = 1;
        loop {
            let wait = match self.follow(call, authorization).await {
                Ok(response) => match pause(&response) {
                    None => return Ok(response),
                    Some(asked) => {
                        let error = failure(&call.at, &response, asked);
                        let too_long = asked.is_some_and(|wait| wait > self.retry.longest_wait);
                        let is_limit = response.status() == StatusCode::TOO_MANY_REQUESTS;
                        if too_long || !(repeatable || is_limit) || !self.may_retry(attempt) {
                            return Err(error);
                        }
                        asked.unwrap_or_else(|| self.backoff(attempt))
                    }
                },
                Err(error) if repeatable && error.is_transient() && self.may_retry(attempt) => {
                    tracing::debug!(at = %call.at, attempt, reason = error.reason(), "trying again");
                    self.backoff(attempt)
                }
                Err(error) => return Err(error),
            };
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    pub(crate) fn may_retry(&self, attempt: u32) -> bool {
        attempt < self.retry.attempts
    }

    /// Doubling waits, each shortened by a random half, so that many waiters do not come back at once.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        let full = self.retry.first_wait * 2u32.saturating_pow(attempt - 1);
        full.min(self.retry.longest_wait)
            .mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    async fn follow(
        &self,
        call: &Call,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Error> {
        let mut url = call.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let blocked = |source| Error::Blocked {
                at: call.at.clone(),
                source,
            };
            self.guard.check(&url).await.map_err(blocked)?;
            let mut request = self.client.request(call.method.clone(), url.clone());
            if let Some(accept) = call.accept {
                request = request.header(ACCEPT, accept);
            }
            if let Some((media_type, body)) = &call.body {
                request = request.header(CONTENT_TYPE, media_type).body(body.clone());
            }
            if let Some(value) = authorization.filter(|_| url.origin() == call.url.origin()) {
                request = request.header(AUTHORIZATION, value);
            }
            let sent = request.send().await;
            let response =
                sent.map_err(|error| from_transport(&call.at, error, self.timeouts.read))?;
            let is_redirect = response.status().is_redirection()
                && matches!(call.method, Method::GET | Method::HEAD);
            if !is_redirect {
                return Ok(response);
            }
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|v| v.to_str().ok());
            url = location
                .and_then(|text| url.join(text).ok())
                .ok_or_else(|| Error::BadAnswer {
                    at: call.at.clone(),
                    problem: "a redirect without a usable address".to_owned(),
                })?;
        }
        Err(Error::BadAnswer {
            at: call.at.clone(),
            problem: format!("more than {MAX_REDIRECTS} redirects"),
        })
    }
}

/// `Some` when the answer asks for a second try, with the wait it asks for. `Retry-After` as a date is
/// read as "a while": registries send seconds.
fn pause(response: &Response) -> Option<Option<Duration>> {
    let status = response.status();
    let again = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    again.then(|| {
        let header = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        header.trim().parse().ok().map(Duration::from_secs)
    })
}

fn failure(at: &str, response: &Response, retry_after: Option<Duration>) -> Error {
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS => Error::TooManyRequests {
            at: at.to_owned(),
            retry_after,
        },
        status => Error::Failed {
            at: at.to_owned(),
            status: status.as_u16(),
        },
    }
}

fn proxies(settings: &ProxySettings) -> Result<Vec<reqwest::Proxy>, Error> {
    let ProxySettings {
        https,
        http,
        no_proxy,
    } = settings;
    let bad = |_| Error::Settings {
        problem: "a proxy address cannot be used".to_owned(),
    };
    let exceptions = reqwest::NoProxy::from_string(no_proxy);
    let mut all = Vec::new();
    if let Some(url) = https {
        all.push(
            reqwest::Proxy::https(url.clone())
                .map_err(bad)?
                .no_proxy(exceptions.clone()),
        );
    }
    if let Some(url) = http {
        all.push(
            reqwest::Proxy::http(url.clone())
                .map_err(bad)?
                .no_proxy(exceptions),
        );
    }
    Ok(all)
}

/// TLS with the one crypto provider of this program, the system's authorities and the installer's.
pub(crate) fn tls_config(extra_ca: &[u8]) -> Result<rustls::ClientConfig, Error> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    let settings = |problem: String| Error::Settings { problem };
    let mut roots = rustls::RootCertStore::empty();
    // A system without authorities is normal in a minimal image; the bundle may be all there is.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(extra_ca) {
        let certificate =
            certificate.map_err(|_| settings("the CA bundle is not PEM".to_owned()))?;
        roots
            .add(certificate)
            .map_err(|error| settings(format!("a certificate of the CA bundle: {error}")))?;
        added += 1;
    }
    if added == 0 && !extra_ca.trim_ascii().is_empty() {
        return Err(settings(
            "the CA bundle holds no certificate; give PEM text".to_owned(),
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| settings(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Reads a whole answer, refusing to read more than `limit`.
pub(crate) async fn read_body(
    mut response: Response,
    at: &str,
    limit: u64,
    timeouts: Timeouts,
) -> Result<Vec<u8>, Error> {
    let too_large = || Error::TooLarge {
        at: at.to_owned(),
        limit,
    };
    if response
        .content_length()
        .is_some_and(|length| length > limit)
    {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = next_chunk(&mut response, at, bytes.len() as u64, timeouts).await? {
        if bytes.len() as u64 + chunk.len() as u64 > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The next piece of an answer; a broken connection is told apart from a slow one.
pub(crate) async fn next_chunk(
    response: &mut Response,
    at: &str,
    received: u64,
    timeouts: Timeouts,
) -> Result<Option<Bytes>, Error> {
    response
        .chunk()
        .await
        .map_err(|error| match error.is_timeout() {
            true => Error::TimedOut {
                at: at.to_owned(),
                limit: timeouts.read,
            },
            false => Error::CutShort {
                at: at.to_owned(),
                received,
            },
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_bundle_that_is_none_is_refused_before_any_request() {
        assert!(tls_config(b"").is_ok());
        assert!(tls_config(b"\n \n").is_ok());
        let problem = |bytes: &[u8]| tls_config(bytes).unwrap_err().to_string();
        assert!(problem(b"not a certificate").contains("no certificate"));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(problem(broken).contains("CA bundle"));
    }
}
