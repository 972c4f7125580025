//! Sends HTTP requests, with redirects, retries and limits.
//!
//! The [`AddressGuard`] checks every request. Redirects are followed here and not by the HTTP client,
//! because the guard must check each of them, and because credentials are sent to their origin only.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use url::Url;

use crate::error::{Error, from_transport};
use crate::guard::{AddressGuard, GuardedResolver};
use crate::settings::{ProxySettings, Retry, Settings, Timeouts, TransferObserver};

/// The most redirects that are followed. Storage backends need one.
const MAX_REDIRECTS: usize = 5;

/// A request that can be sent several times.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: Option<&'static str>,
    pub(crate) body: Option<(String, Bytes)>,
    /// The requested manifest or blob, for errors.
    pub(crate) at: String,
}

impl Request {
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
    guard: Arc<AddressGuard>,
    pub(crate) timeouts: Timeouts,
    retry: Retry,
    observer: Option<Arc<dyn TransferObserver>>,
}

impl Transport {
    /// Builds a client. Each credential has its own, so that no connection is shared between credentials.
    pub(crate) fn new(
        registry_host: &str,
        settings: &Settings,
        tls: rustls::ClientConfig,
    ) -> Result<Self, Error> {
        let guard = Arc::new(AddressGuard::new(
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
            problem: format!("failed to build the HTTP client: {}", error.without_url()),
        })?;
        Ok(Self {
            client,
            guard,
            timeouts: settings.timeouts,
            retry: settings.retry,
            observer: settings.observer.clone(),
        })
    }

    /// Tells the observer that `done` of `total` bytes of a blob were transferred.
    pub(crate) fn report(&self, at: &str, done: u64, total: u64) {
        if let Some(observer) = &self.observer {
            observer.transferred(at, done, total);
        }
    }

    /// Sends a request. Retries transient errors, server errors and rate limits.
    pub(crate) async fn send(
        &self,
        request: &Request,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Error> {
        // An upload must not be sent twice.
        let is_repeatable = matches!(request.method, Method::GET | Method::HEAD);
        let mut attempt = 1;
        loop {
            let wait = match self.send_following_redirects(request, authorization).await {
                Ok(response) => match retry_after(&response) {
                    None => return Ok(response),
                    Some(wait) => {
                        let error = error_of(&request.at, &response, wait);
                        let is_too_long = wait.is_some_and(|wait| wait > self.retry.max_backoff);
                        let is_limit = response.status() == StatusCode::TOO_MANY_REQUESTS;
                        if is_too_long || !(is_repeatable || is_limit) || !self.may_retry(attempt) {
                            return Err(error);
                        }
                        wait.unwrap_or_else(|| self.backoff(attempt))
                    }
                },
                Err(error) if is_repeatable && error.is_transient() && self.may_retry(attempt) => {
                    tracing::debug!(at = %request.at, attempt, reason = error.reason(), "retrying the request");
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

    /// Exponential backoff with jitter of up to half of the delay.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        let full = self.retry.initial_backoff * 2u32.saturating_pow(attempt - 1);
        full.min(self.retry.max_backoff)
            .mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    async fn send_following_redirects(
        &self,
        request: &Request,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Error> {
        let mut url = request.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let blocked = |source| Error::Blocked {
                at: request.at.clone(),
                source,
            };
            self.guard.check_url(&url).await.map_err(blocked)?;
            let mut builder = self.client.request(request.method.clone(), url.clone());
            if let Some(accept) = request.accept {
                builder = builder.header(ACCEPT, accept);
            }
            if let Some((media_type, body)) = &request.body {
                builder = builder.header(CONTENT_TYPE, media_type).body(body.clone());
            }
            if let Some(value) = authorization.filter(|_| url.origin() == request.url.origin()) {
                builder = builder.header(AUTHORIZATION, value);
            }
            let sent = builder.send().await;
            let response =
                sent.map_err(|error| from_transport(&request.at, error, self.timeouts.read))?;
            let is_redirect = response.status().is_redirection()
                && matches!(request.method, Method::GET | Method::HEAD);
            if !is_redirect {
                return Ok(response);
            }
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|v| v.to_str().ok());
            url = location
                .and_then(|text| url.join(text).ok())
                .ok_or_else(|| Error::UnexpectedResponse {
                    at: request.at.clone(),
                    problem: "the redirect has no valid Location header".to_owned(),
                })?;
        }
        Err(Error::UnexpectedResponse {
            at: request.at.clone(),
            problem: format!("more than {MAX_REDIRECTS} redirects"),
        })
    }
}

/// `Some` if the request may be retried, with the delay in `Retry-After`. A date in `Retry-After` is
/// ignored: registries send seconds.
fn retry_after(response: &Response) -> Option<Option<Duration>> {
    let status = response.status();
    let may_retry = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    may_retry.then(|| {
        let header = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        header.trim().parse().ok().map(Duration::from_secs)
    })
}

fn error_of(at: &str, response: &Response, retry_after: Option<Duration>) -> Error {
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS => Error::TooManyRequests {
            at: at.to_owned(),
            retry_after,
        },
        status => Error::ServerError {
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
        problem: "the proxy URL is invalid; write http://host:port".to_owned(),
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

/// The TLS configuration: ring as the crypto provider, and the CAs of the system and the installer.
pub(crate) fn tls_config(extra_ca: &[u8]) -> Result<rustls::ClientConfig, Error> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    let settings = |problem: String| Error::Settings { problem };
    let mut roots = rustls::RootCertStore::empty();
    // A minimal image has no system CAs. Then the bundle of the installer is the only source.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(extra_ca) {
        let certificate =
            certificate.map_err(|_| settings("the CA bundle is not valid PEM".to_owned()))?;
        roots.add(certificate).map_err(|error| {
            settings(format!(
                "the CA bundle contains an invalid certificate: {error}"
            ))
        })?;
        added += 1;
    }
    if added == 0 && !extra_ca.trim_ascii().is_empty() {
        return Err(settings(
            "the CA bundle contains no certificate; provide PEM certificates".to_owned(),
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

/// Reads a response body of at most `limit` bytes.
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

/// The next chunk of a response body.
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
            false => Error::ConnectionLost {
                at: at.to_owned(),
                received,
            },
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_ca_bundle_is_refused_before_any_request() {
        assert!(tls_config(b"").is_ok());
        assert!(tls_config(b"\n \n").is_ok());
        let problem = |bytes: &[u8]| tls_config(bytes).unwrap_err().to_string();
        assert!(problem(b"not a certificate").contains("no certificate"));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(problem(broken).contains("CA bundle"));
    }
}
