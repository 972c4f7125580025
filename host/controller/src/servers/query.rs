//! Queries one server for its version and providers.
//!
//! In: an address, and the certificates to trust. Out: the version and the providers, or an error.
//! Servers belong to users: a response is limited in time and size, redirects are not followed, and
//! the configuration of a provider is never read. Equal failures produce equal errors, so that a
//! repeated failure is not a change.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use llsd_api::v1alpha2::{ProviderHealth, ServerProvider};
use llsd_blocking::NAMES;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;
use url::Url;

use super::failure;
use super::trust::ServerCertificates;

/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The response of a server with every known provider is a tenth of this.
const MAX_BYTES: usize = 1 << 20;
const MAX_PROVIDERS: usize = 256;
const MAX_STRING_BYTES: usize = 253;

/// The address of a server, and how to verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerEndpoint {
    /// `http://demo-service.ns.svc.cluster.local:8321`.
    pub(crate) url: String,
    /// The certificates of its Secret; `None` for a server without TLS, or if they cannot be read.
    pub(crate) certificates: Option<ServerCertificates>,
    /// Connects to this address instead of the one that DNS returns.
    pub(crate) connect_to: Option<SocketAddr>,
}

/// The response of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerInfo {
    pub(crate) version: String,
    pub(crate) providers: Vec<ServerProvider>,
}

/// Why a query failed. Contains nothing that changes from one query to the next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("\"{url}\" is not a valid URL")]
    InvalidUrl { url: String },
    #[error("failed to read the certificate in tls.crt of the server's Secret")]
    Certificates,
    #[error("{path}: {problem}")]
    Unreachable {
        path: &'static str,
        problem: &'static str,
    },
    #[error("{path}: the server responded with status {status}")]
    Status { path: &'static str, status: u16 },
    #[error("{path}: the response is larger than {MAX_BYTES} bytes")]
    TooLarge { path: &'static str },
    #[error("{path}: the response is not one of a LlamaStack server")]
    InvalidResponse { path: &'static str },
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

/// Queries a server for its version and its providers.
pub(crate) async fn query(endpoint: &ServerEndpoint) -> Result<ServerInfo, QueryError> {
    let base = endpoint.base()?;
    let client = client(endpoint, &base)?;
    let version: Version = get(&client, &base, "/v1/version").await?;
    let providers = match get::<Providers>(&client, &base, "/v1/providers").await {
        // The version needs no token. The operator has none for the list of providers.
        Err(QueryError::Status {
            status: 401 | 403, ..
        }) => Providers { data: Vec::new() },
        providers => providers?,
    };
    let listed = providers.data.into_iter().take(MAX_PROVIDERS);
    Ok(ServerInfo {
        version: truncated(version.version),
        providers: listed.map(summary).collect(),
    })
}

fn summary(provider: Provider) -> ServerProvider {
    let Provider {
        api,
        provider_id,
        provider_type,
        health,
    } = provider;
    let Health { status, message } = health.unwrap_or_default();
    ServerProvider {
        api: truncated(api),
        provider_id: truncated(provider_id),
        provider_type: truncated(provider_type),
        config: json!({}),
        health: ProviderHealth {
            status: truncated(status),
            message: truncated(message.unwrap_or_default()),
        },
    }
}

fn truncated(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_STRING_BYTES));
    text
}

fn client(endpoint: &ServerEndpoint, base: &Url) -> Result<reqwest::Client, QueryError> {
    let mut builder = reqwest::Client::builder()
        .dns_resolver(PooledResolver)
        .redirect(Policy::none())
        .no_proxy()
        .user_agent(concat!("llsd/", env!("CARGO_PKG_VERSION")));
    // Without TLS nothing is verified, but the client still needs a configuration.
    let tls = match (base.scheme(), &endpoint.certificates) {
        ("https", Some(certificates)) => certificates.client_config(),
        ("https", None) => None,
        _ => no_trust(),
    };
    builder = builder.tls_backend_preconfigured(tls.ok_or(QueryError::Certificates)?);
    if let (Some(address), Some(host)) = (endpoint.connect_to, base.host_str()) {
        builder = builder.resolve(host, address);
    }
    builder.build().map_err(|_| QueryError::Certificates)
}

/// TLS settings that trust no server.
fn no_trust() -> Option<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    let config = builder.with_root_certificates(rustls::RootCertStore::empty());
    Some(config.with_no_client_auth())
}

/// Resolves names on threads of their own, so that slow name servers delay nothing else.
struct PooledResolver;

impl Resolve for PooledResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = NAMES.run(move || (name.as_str(), 0).to_socket_addrs());
            Ok(Box::new(found.await??) as Addrs)
        })
    }
}

impl ServerEndpoint {
    /// The URL to query. `connect_to` replaces the port here; the client resolves the host name to
    /// its address.
    fn base(&self) -> Result<Url, QueryError> {
        let invalid = || QueryError::InvalidUrl {
            url: self.url.clone(),
        };
        let mut base: Url = self.url.parse().map_err(|_| invalid())?;
        if let Some(address) = self.connect_to {
            base.set_port(Some(address.port()))
                .map_err(|()| invalid())?;
        }
        Ok(base)
    }
}

async fn get<T: DeserializeOwned>(
    client: &reqwest::Client,
    base: &Url,
    path: &'static str,
) -> Result<T, QueryError> {
    let read = async {
        let mut url = base.clone();
        url.set_path(path);
        let failed = |error: reqwest::Error| QueryError::Unreachable {
            path,
            problem: failure::problem(&error),
        };
        let mut response = client.get(url).send().await.map_err(failed)?;
        if response.status() != reqwest::StatusCode::OK {
            let status = response.status().as_u16();
            return Err(QueryError::Status { path, status });
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(QueryError::TooLarge { path });
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|_| QueryError::InvalidResponse { path })
    };
    let timed_out = |_| QueryError::Unreachable {
        path,
        problem: failure::TIMED_OUT,
    };
    timeout(TIMEOUT, read).await.map_err(timed_out)?
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

    /// Starts a server on this machine, under the name that it would have in a cluster.
    async fn serve(router: Router) -> ServerEndpoint {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async { axum::serve(listener, router).await });
        ServerEndpoint {
            url: "http://demo-service.ns.svc.cluster.local:8321".to_owned(),
            certificates: None,
            connect_to: Some(address),
        }
    }

    fn router(version: &'static str, providers: &'static str) -> Router {
        Router::new()
            .route("/v1/version", get(async move || version))
            .route("/v1/providers", get(async move || providers))
    }

    #[tokio::test]
    async fn version_and_providers_are_read_without_provider_configuration() {
        let endpoint = serve(router(r#"{"version": "0.7.1"}"#, PROVIDERS)).await;
        let info = query(&endpoint).await.expect("a response");
        assert_eq!(info.version, "0.7.1");
        assert_eq!(info.providers[0].provider_id, "vllm");
        assert_eq!(info.providers[0].health.status, "OK");
        assert!(!format!("{info:?}").contains("canary"));
    }

    #[tokio::test]
    async fn a_server_that_asks_for_a_token_tells_its_version() {
        for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
            let version = async || r#"{"version": "0.7.1"}"#;
            let router = Router::new()
                .route("/v1/version", get(version))
                .route("/v1/providers", get(async move || status));
            let info = query(&serve(router).await).await.expect("a response");
            assert_eq!((info.version.as_str(), info.providers.len()), ("0.7.1", 0));
        }
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let elsewhere = async || Redirect::temporary("http://169.254.169.254/latest");
        let endpoint = serve(Router::new().route("/v1/version", get(elsewhere))).await;
        let path = "/v1/version";
        assert_eq!(
            query(&endpoint).await,
            Err(QueryError::Status { path, status: 307 })
        );
    }

    #[tokio::test]
    async fn a_response_that_is_too_large_is_an_error() {
        let endless = async || " ".repeat(MAX_BYTES + 1);
        let endpoint = serve(Router::new().route("/v1/version", get(endless))).await;
        let path = "/v1/version";
        assert_eq!(query(&endpoint).await, Err(QueryError::TooLarge { path }));
    }

    #[tokio::test]
    async fn equal_failures_are_equal_errors() {
        let wrong = serve(router("<html>", PROVIDERS)).await;
        let path = "/v1/version";
        assert_eq!(
            query(&wrong).await,
            Err(QueryError::InvalidResponse { path })
        );
        let broken = async || StatusCode::INTERNAL_SERVER_ERROR;
        let broken = serve(Router::new().route("/v1/version", get(broken))).await;
        assert_eq!(
            query(&broken).await,
            Err(QueryError::Status { path, status: 500 })
        );
        let unreachable = ServerEndpoint {
            url: "http://demo-service.ns.svc.cluster.local:9".to_owned(),
            certificates: None,
            connect_to: Some(([127, 0, 0, 1], 9).into()),
        };
        let first = query(&unreachable)
            .await
            .expect_err("an unreachable server");
        assert_eq!(query(&unreachable).await, Err(first));
    }

    const NAME: &str = "demo-service.ns.svc.cluster.local";

    /// Starts a server with TLS on this machine.
    async fn serve_tls(certificate: &str, key: &str) -> SocketAddr {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let tls = axum_server::tls_rustls::RustlsConfig::from_pem(
            certificate.into_bytes(),
            key.into_bytes(),
        );
        let tls = tls.await.expect("a configuration");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let server = axum_server::from_tcp_rustls(listener, tls).expect("a server");
        let routes = router(r#"{"version": "0.7.1"}"#, PROVIDERS);
        tokio::spawn(server.serve(routes.into_make_service()));
        address
    }

    async fn query_tls(address: SocketAddr, serving: &str, authority: &str) -> Result<(), String> {
        let endpoint = ServerEndpoint {
            url: format!("https://{NAME}:8321"),
            certificates: Some(ServerCertificates {
                serving: serving.as_bytes().to_vec(),
                authorities: authority.as_bytes().to_vec(),
            }),
            connect_to: Some(address),
        };
        let result = query(&endpoint).await;
        result.map(drop).map_err(|error| error.to_string())
    }

    /// A certificate of an authority, and that authority.
    fn issued(name: &str, until: (i32, u8, u8)) -> (String, String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let own = authority.self_signed(&key).expect("a certificate");
        let issuer = rcgen::Issuer::new(authority, key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut leaf = rcgen::CertificateParams::new([name.to_owned()]).expect("parameters");
        leaf.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
        (leaf.pem(), key.serialize_pem(), own.pem())
    }

    #[tokio::test]
    async fn a_server_is_trusted_by_its_authority_or_by_the_certificate_in_its_secret() {
        let (certificate, key, authority) = issued(NAME, (2999, 1, 1));
        let address = serve_tls(&certificate, &key).await;
        let (other, _, other_authority) = issued(NAME, (2999, 1, 1));
        assert_eq!(query_tls(address, &other, &authority).await, Ok(()));
        // `kubectl create secret tls` adds no `ca.crt`.
        assert_eq!(query_tls(address, &certificate, "").await, Ok(()));
        let rejected = query_tls(address, &other, &other_authority).await;
        let problem = rejected.expect_err("another certificate");
        assert!(problem.contains("not the one in its Secret"), "{problem}");
    }

    /// `openssl req -x509` creates an authority that is also the certificate of the server.
    #[tokio::test]
    async fn a_self_signed_authority_is_trusted_as_the_certificate_of_the_server() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut own = rcgen::CertificateParams::new(["elsewhere".to_owned()]).expect("parameters");
        own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let own = own.self_signed(&key).expect("a certificate").pem();
        let address = serve_tls(&own, &key.serialize_pem()).await;
        assert_eq!(query_tls(address, &own, "").await, Ok(()));
    }

    #[tokio::test]
    async fn failures_of_tls_and_of_the_connection_are_told_apart() {
        let problem = async |address, serving: &str, authority: &str| {
            let result = query_tls(address, serving, authority).await;
            result.expect_err("a failure")
        };
        let (expired, key, authority) = issued(NAME, (2001, 1, 1));
        let address = serve_tls(&expired, &key).await;
        let text = problem(address, &expired, &authority).await;
        assert!(text.contains("has expired"), "{text}");

        let (elsewhere, key, authority) = issued("elsewhere", (2999, 1, 1));
        let (valid, ..) = issued(NAME, (2999, 1, 1));
        let address = serve_tls(&elsewhere, &key).await;
        let text = problem(address, &valid, &authority).await;
        assert!(text.contains("not valid for the name"), "{text}");

        let plain = serve(router("", "")).await.connect_to.expect("an address");
        let text = problem(plain, &valid, "").await;
        assert!(text.contains("does not use TLS"), "{text}");
        let text = problem(plain, "no certificate", "").await;
        assert!(text.contains("tls.crt"), "{text}");
        let text = problem(([127, 0, 0, 1], 9).into(), &valid, "").await;
        assert!(text.contains("refused"), "{text}");
    }
}
