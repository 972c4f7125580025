//! Asks one server what it is.
//!
//! In: an address, and whom to trust there. Out: what the server says, or in a few fixed words why it
//! says nothing. Servers belong to users: an answer is bounded in time and size, leads nowhere else,
//! and of a provider only what names it is taken, never its configuration.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use llsd_api::v1alpha2::{ProviderHealth, ServerProvider};
use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;
use url::Url;

/// For one question.
const TIME: Duration = Duration::from_secs(5);
/// A server with every provider there is answers with a tenth of it.
const MOST_BYTES: usize = 1 << 20;
const MOST_PROVIDERS: usize = 256;
const LONGEST_TEXT: usize = 253;

/// Where a server is, and how to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// `http://demo-service.ns.svc.cluster.local:8321`.
    pub(crate) url: String,
    /// Certificates in PEM to know it by, where it has one.
    pub(crate) trust: Option<Vec<u8>>,
    /// Where its name leads, instead of what the cluster says.
    pub(crate) at: Option<SocketAddr>,
}

/// What a server says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) version: String,
    pub(crate) providers: Vec<ServerProvider>,
}

/// Why a server says nothing. Equal failures have equal words, so that they are no news.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Silence {
    #[error("{url} is no address")]
    Address { url: String },
    #[error("the certificates to know the server by cannot be read")]
    Trust,
    #[error("{path}: {problem}")]
    Unreachable {
        path: &'static str,
        problem: &'static str,
    },
    #[error("{path}: the server answered with status {status}")]
    Status { path: &'static str, status: u16 },
    #[error("{path}: the server answered with more than {MOST_BYTES} bytes")]
    TooLarge { path: &'static str },
    #[error("{path}: the server answered with something else than a LlamaStack server does")]
    Unreadable { path: &'static str },
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Providers {
    data: Vec<Provider>,
}

#[derive(Deserialize)]
struct Provider {
    api: String,
    provider_id: String,
    provider_type: String,
    #[serde(default)]
    health: Option<Health>,
}

#[derive(Default, Deserialize)]
struct Health {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: Option<String>,
}

/// Asks a server for its version and its providers.
pub(crate) async fn ask(place: &Place) -> Result<Answer, Silence> {
    let base = place.base()?;
    let client = client(place, &base)?;
    let version: Version = get(&client, &base, "/v1/version").await?;
    let providers: Providers = get(&client, &base, "/v1/providers").await?;
    let listed = providers.data.into_iter().take(MOST_PROVIDERS);
    Ok(Answer {
        version: short(version.version),
        providers: listed.map(shown).collect(),
    })
}

fn shown(provider: Provider) -> ServerProvider {
    let Provider {
        api,
        provider_id,
        provider_type,
        health,
    } = provider;
    let Health { status, message } = health.unwrap_or_default();
    ServerProvider {
        api: short(api),
        provider_id: short(provider_id),
        provider_type: short(provider_type),
        config: json!({}),
        health: ProviderHealth {
            status: short(status),
            message: short(message.unwrap_or_default()),
        },
    }
}

fn short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_TEXT));
    text
}

fn client(place: &Place, base: &Url) -> Result<reqwest::Client, Silence> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(place.trust.as_deref().unwrap_or_default()) {
        let certificate = certificate.map_err(|_| Silence::Trust)?;
        roots.add(certificate).map_err(|_| Silence::Trust)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Silence::Trust)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .no_proxy()
        .user_agent(concat!("llsd/", env!("CARGO_PKG_VERSION")));
    if let (Some(at), Some(host)) = (place.at, base.host_str()) {
        builder = builder.resolve(host, at);
    }
    builder.build().map_err(|_| Silence::Trust)
}

impl Place {
    /// The address to ask. A name can be led elsewhere, but a port cannot.
    fn base(&self) -> Result<Url, Silence> {
        let address = || Silence::Address {
            url: self.url.clone(),
        };
        let mut base: Url = self.url.parse().map_err(|_| address())?;
        if let Some(at) = self.at {
            base.set_port(Some(at.port())).map_err(|()| address())?;
        }
        Ok(base)
    }
}

async fn get<T: DeserializeOwned>(
    client: &reqwest::Client,
    base: &Url,
    path: &'static str,
) -> Result<T, Silence> {
    let read = async {
        let mut url = base.clone();
        url.set_path(path);
        let failed = |error: reqwest::Error| Silence::Unreachable {
            path,
            problem: words(&error),
        };
        let mut response = client.get(url).send().await.map_err(failed)?;
        if response.status() != reqwest::StatusCode::OK {
            let status = response.status().as_u16();
            return Err(Silence::Status { path, status });
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MOST_BYTES {
                return Err(Silence::TooLarge { path });
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|_| Silence::Unreadable { path })
    };
    let timed_out = |_| Silence::Unreachable {
        path,
        problem: "the server did not answer in time",
    };
    timeout(TIME, read).await.map_err(timed_out)?
}

/// What the transport says, without addresses and numbers that change from time to time.
fn words(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "the server did not answer in time"
    } else if error.is_connect() {
        "no connection to the server, or not the certificate that was expected"
    } else {
        "the connection ended early"
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::response::Redirect;
    use axum::routing::get;

    use super::*;

    const PROVIDERS: &str = r#"{"data": [{"api": "inference", "provider_id": "vllm", "provider_type": "remote::vllm",
        "config": {"api_token": "canary"}, "health": {"status": "OK", "message": null}}]}"#;

    /// A server on this machine, by the name that it would have in a cluster.
    async fn serve(router: Router) -> Place {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let at = listener.local_addr().expect("an address");
        tokio::spawn(async { axum::serve(listener, router).await });
        Place {
            url: "http://demo-service.ns.svc.cluster.local:8321".to_owned(),
            trust: None,
            at: Some(at),
        }
    }

    fn router(version: &'static str, providers: &'static str) -> Router {
        Router::new()
            .route("/v1/version", get(async move || version))
            .route("/v1/providers", get(async move || providers))
    }

    #[tokio::test]
    async fn a_server_says_its_release_and_its_providers_and_no_configuration() {
        let place = serve(router(r#"{"version": "0.7.1"}"#, PROVIDERS)).await;
        let answer = ask(&place).await.expect("an answer");
        assert_eq!(answer.version, "0.7.1");
        assert_eq!(answer.providers[0].provider_id, "vllm");
        assert_eq!(answer.providers[0].health.status, "OK");
        assert!(!format!("{answer:?}").contains("canary"));
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let elsewhere = async || Redirect::temporary("http://169.254.169.254/latest");
        let place = serve(Router::new().route("/v1/version", get(elsewhere))).await;
        let path = "/v1/version";
        assert_eq!(
            ask(&place).await,
            Err(Silence::Status { path, status: 307 })
        );
    }

    #[tokio::test]
    async fn an_answer_without_end_is_cut_off() {
        let endless = async || " ".repeat(MOST_BYTES + 1);
        let place = serve(Router::new().route("/v1/version", get(endless))).await;
        let path = "/v1/version";
        assert_eq!(ask(&place).await, Err(Silence::TooLarge { path }));
    }

    #[tokio::test]
    async fn every_failure_has_words_that_stay_the_same() {
        let wrong = serve(router("<html>", PROVIDERS)).await;
        let path = "/v1/version";
        assert_eq!(ask(&wrong).await, Err(Silence::Unreadable { path }));
        let broken = async || StatusCode::INTERNAL_SERVER_ERROR;
        let broken = serve(Router::new().route("/v1/version", get(broken))).await;
        assert_eq!(
            ask(&broken).await,
            Err(Silence::Status { path, status: 500 })
        );
        let nobody = Place {
            url: "http://demo-service.ns.svc.cluster.local:9".to_owned(),
            trust: None,
            at: Some(([127, 0, 0, 1], 9).into()),
        };
        let first = ask(&nobody).await.expect_err("nobody is there");
        assert_eq!(ask(&nobody).await, Err(first));
    }

    #[tokio::test]
    async fn a_server_with_a_certificate_is_known_by_it_and_no_other() {
        let name = "demo-service.ns.svc.cluster.local".to_owned();
        let make = || rcgen::generate_simple_self_signed([name.clone()]).expect("a certificate");
        let (own, other) = (make(), make());
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = axum_server::tls_rustls::RustlsConfig::from_pem(
            own.cert.pem().into_bytes(),
            own.signing_key.serialize_pem().into_bytes(),
        );
        let tls = tls.await.expect("a configuration");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let at = listener.local_addr().expect("an address");
        let server = axum_server::from_tcp_rustls(listener, tls).expect("a server");
        let routes = router(r#"{"version": "0.7.1"}"#, PROVIDERS);
        tokio::spawn(server.serve(routes.into_make_service()));
        let place = |trust: &rcgen::CertifiedKey<rcgen::KeyPair>| Place {
            url: format!("https://{name}:8321"),
            trust: Some(trust.cert.pem().into_bytes()),
            at: Some(at),
        };
        assert!(ask(&place(&own)).await.is_ok());
        assert!(ask(&place(&other)).await.is_err());
    }
}
