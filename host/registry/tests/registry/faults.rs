//! Faults between client and registry, injected by the test proxy.
//!
//! Each fault must give its own error within the limits of time and size, leave no partial file in the
//! cache, and not affect the next request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use llsd_registry::guard::Network;
use llsd_registry::{
    BaseError, Digest, Keyring, ProxySettings, Reference, Registry, Settings, labels,
};
use tempfile::TempDir;

use crate::support::layout::{Compression, Image, Layer, push};
use crate::support::proxy::{Fault, Proxy, response};
use crate::support::token_server::TokenServer;
use crate::support::{
    Options, PASSWORD, RegistryServer, USER, cache_folder, chain, files_in, settings_for,
};

const YAML: &str = "version: 2\n";

/// A registry with one image whose configuration is in a layer, and a proxy in front of it.
struct FaultyRegistry {
    server: RegistryServer,
    proxy: Proxy,
    reference: Reference,
    layer: Digest,
    settings: Settings,
    cache: TempDir,
}

impl FaultyRegistry {
    async fn new() -> Self {
        let noise: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
        let files: [(&str, &[u8]); 2] = [("run.yaml", YAML.as_bytes()), ("noise", &noise)];
        Self::with(Layer::with(&files, Compression::Gzip)).await
    }

    async fn with(layer: Layer) -> Self {
        let server = RegistryServer::plain();
        let digest = layer.digest();
        let mut image = Image::labelled([
            (labels::LAYER, digest.to_string()),
            (labels::PATH, "run.yaml".to_owned()),
        ]);
        image.layers.push(layer);
        push(&server, &image, "faulty/image:1");
        let proxy = Proxy::before(&server.address).await;
        let reference = format!("{}/faulty/image:1", proxy.address).parse().unwrap();
        let (cache, dir) = cache_folder();
        let mut settings = settings_for(&proxy.address);
        settings.cache_dir = Some(dir);
        settings.timeouts.total = Duration::from_secs(10);
        Self {
            server,
            proxy,
            reference,
            layer: digest,
            settings,
            cache,
        }
    }

    fn layer_path(&self) -> String {
        format!("/blobs/{}", self.layer)
    }

    /// Checks that the first read fails with this reason and that the second one succeeds.
    async fn fails_once_with(&self, reason: &str) -> BaseError {
        let registry = Registry::new(self.settings.clone()).unwrap();
        let begun = Instant::now();
        let error = registry
            .base_config(&self.reference, &Keyring::empty())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{}", chain(&error));
        let limit = self.settings.timeouts.total + Duration::from_secs(30);
        assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
        for file in files_in(self.cache.path()) {
            let content = std::fs::read(&file).unwrap();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let hex = name.rsplit('-').next().unwrap();
            assert_eq!(
                Digest::of(&content).hex(),
                hex,
                "the cache contains only complete blobs"
            );
        }
        let base = registry
            .base_config(&self.reference, &Keyring::empty())
            .await;
        assert_eq!(base.unwrap().yaml, YAML);
        error
    }
}

#[tokio::test]
async fn a_lost_connection_during_a_blob_is_retried_and_then_reported() {
    let faulty = FaultyRegistry::new().await;
    faulty
        .proxy
        .fault("GET", &faulty.layer_path(), 2, Fault::CutAfter(1000));
    let registry = Registry::new(faulty.settings.clone()).unwrap();
    let base = registry
        .base_config(&faulty.reference, &Keyring::empty())
        .await
        .unwrap();
    assert_eq!(base.yaml, YAML, "the third attempt succeeds");

    let faulty = FaultyRegistry::new().await;
    faulty
        .proxy
        .fault("GET", &faulty.layer_path(), 3, Fault::CutAfter(1000));
    faulty.fails_once_with("ConnectionLost").await;
}

#[tokio::test]
async fn a_lost_connection_during_a_manifest_is_reported() {
    let faulty = FaultyRegistry::new().await;
    faulty
        .proxy
        .fault("GET", "/manifests/", 3, Fault::CutAfter(10));
    faulty.fails_once_with("ConnectionLost").await;
}

#[tokio::test]
async fn a_missing_response_ends_with_the_read_timeout() {
    let mut faulty = FaultyRegistry::new().await;
    faulty.settings.timeouts.read = Duration::from_millis(500);
    faulty.proxy.fault("HEAD", "/manifests/", 3, Fault::Silence);
    faulty.fails_once_with("RegistryTimeout").await;
}

#[tokio::test]
async fn a_slow_response_ends_with_the_total_timeout() {
    let mut faulty = FaultyRegistry::new().await;
    faulty.settings.timeouts.total = Duration::from_secs(1);
    faulty.proxy.fault("GET", "/manifests/", 9, Fault::Drip);
    let registry = Registry::new(faulty.settings.clone()).unwrap();
    let error = registry
        .base_config(&faulty.reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "RegistryTimeout", "{}", chain(&error));
    assert!(chain(&error).contains("within 1s"), "{}", chain(&error));
}

#[tokio::test]
async fn endless_responses_end_at_their_size_limit() {
    let faulty = FaultyRegistry::new().await;
    faulty
        .proxy
        .fault("GET", &faulty.layer_path(), 1, Fault::Endless);
    faulty.fails_once_with("WrongLength").await;
    let faulty = FaultyRegistry::new().await;
    faulty.proxy.fault("GET", "/manifests/", 1, Fault::Endless);
    faulty.fails_once_with("TooLarge").await;
}

#[tokio::test]
async fn content_with_another_digest_is_refused() {
    let faulty = FaultyRegistry::new().await;
    faulty
        .proxy
        .fault("GET", "/manifests/", 1, response("200 OK", &[], b"{}"));
    faulty.fails_once_with("DigestMismatch").await;

    let faulty = FaultyRegistry::new().await;
    let registry = faulty.server.crane(&[
        "blob",
        &format!("{}/faulty/image@{}", faulty.server.address, faulty.layer),
    ]);
    let mut altered = registry;
    *altered.last_mut().unwrap() ^= 1;
    faulty.proxy.fault(
        "GET",
        &faulty.layer_path(),
        1,
        response("200 OK", &[], &altered),
    );
    faulty.fails_once_with("DigestMismatch").await;
}

#[tokio::test]
async fn another_length_than_in_the_descriptor_is_refused_before_it_is_read() {
    let faulty = FaultyRegistry::new().await;
    faulty.proxy.fault(
        "GET",
        &faulty.layer_path(),
        1,
        response("200 OK", &[], b"short"),
    );
    faulty.fails_once_with("WrongLength").await;
}

#[tokio::test]
async fn a_redirect_to_a_metadata_or_link_local_address_is_not_followed() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[fe80::1]/",
        "https://2852039166/",
        "https://[::ffff:169.254.169.254]/",
    ] {
        let faulty = FaultyRegistry::new().await;
        let redirect = response("307 Temporary Redirect", &[("Location", location)], b"");
        faulty.proxy.fault("GET", &faulty.layer_path(), 1, redirect);
        let error = faulty.fails_once_with("FetchBlocked").await;
        assert!(
            chain(&error).contains("refused to connect"),
            "{}",
            chain(&error)
        );
    }
}

#[tokio::test]
async fn the_number_of_redirects_is_limited() {
    let faulty = FaultyRegistry::new().await;
    let here = format!("/v2/faulty/image{}", faulty.layer_path());
    let again = response("307 Temporary Redirect", &[("Location", &here)], b"");
    faulty.proxy.fault("GET", &faulty.layer_path(), 6, again);
    let error = faulty.fails_once_with("BadAnswer").await;
    assert!(
        chain(&error).contains("more than 5 redirects"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_followed_without_the_credential() {
    let server = RegistryServer::start(Options {
        basic_auth: true,
        ..Options::default()
    });
    let layer = Layer::with(&[("run.yaml", YAML.as_bytes())], Compression::Gzip);
    let mut image = Image::labelled([
        (labels::LAYER, layer.digest().to_string()),
        (labels::PATH, "run.yaml".to_owned()),
    ]);
    let (digest, compressed) = (layer.digest(), layer.compressed());
    image.layers.push(layer);
    push(&server, &image, "faulty/image:1");
    let proxy = Proxy::before(&server.address).await;
    let storage = Proxy::before(&server.address).await;
    let blob = format!("/blobs/{digest}");
    let location = format!("http://{}/storage{blob}?signature=x", storage.address);
    let redirect = response("307 Temporary Redirect", &[("Location", &location)], b"");
    proxy.fault("GET", &blob, 1, redirect);
    storage.fault("GET", &blob, 1, response("200 OK", &[], &compressed));
    let mut settings = settings_for(&proxy.address);
    settings.plain_http.push(storage.address.clone());
    let reference: Reference = format!("{}/faulty/image:1", proxy.address).parse().unwrap();
    let keyring = crate::support::keyring(&proxy.address, USER, PASSWORD);
    let registry = Registry::new(settings).unwrap();
    let base = registry.base_config(&reference, &keyring).await.unwrap();
    assert_eq!(base.yaml, YAML);
    assert!(
        proxy
            .heads()
            .iter()
            .any(|head| head.contains("authorization: Basic"))
    );
    let [head] = storage.heads().try_into().unwrap();
    assert!(!head.to_lowercase().contains("authorization"), "{head}");
}

#[tokio::test]
async fn a_redirect_target_that_asks_for_a_login_gets_no_credential() {
    let server = RegistryServer::start(Options {
        basic_auth: true,
        ..Options::default()
    });
    let layer = Layer::with(&[("run.yaml", YAML.as_bytes())], Compression::Gzip);
    let mut image = Image::labelled([
        (labels::LAYER, layer.digest().to_string()),
        (labels::PATH, "run.yaml".to_owned()),
    ]);
    let blob = format!("/blobs/{}", layer.digest());
    image.layers.push(layer);
    push(&server, &image, "faulty/image:1");
    let proxy = Proxy::before(&server.address).await;
    let stranger = Proxy::before(&server.address).await;
    let location = format!("http://{}/storage{blob}", stranger.address);
    let redirect = response("307 Temporary Redirect", &[("Location", &location)], b"");
    proxy.fault("GET", &blob, 9, redirect);
    let realm = format!("http://{}/token", stranger.address);
    for challenge in [
        format!("Bearer realm=\"{realm}\",service=\"x\""),
        "Basic realm=\"x\"".to_owned(),
    ] {
        let headers = [("WWW-Authenticate", challenge.as_str())];
        let asks = response("401 Unauthorized", &headers, b"");
        stranger.fault("GET", &blob, 1, asks);
        let token = response("200 OK", &[], br#"{"token": "theirs"}"#);
        stranger.fault("GET", "/token", 9, token);
        let mut settings = settings_for(&proxy.address);
        settings.plain_http.push(stranger.address.clone());
        let reference: Reference = format!("{}/faulty/image:1", proxy.address).parse().unwrap();
        let keyring = crate::support::keyring(&proxy.address, USER, PASSWORD);
        let registry = Registry::new(settings).unwrap();
        let error = registry
            .base_config(&reference, &keyring)
            .await
            .unwrap_err();
        assert!(
            chain(&error).contains("credentials are sent to the registry only"),
            "{}",
            chain(&error)
        );
    }
    for head in stranger.heads() {
        let head = head.to_lowercase();
        assert!(!head.contains("authorization"), "{head}");
        assert!(!head.contains("/token"), "{head}");
    }
}

/// A network with fixed addresses for names. All connections go to loopback.
struct FakeNetwork;

impl Network for FakeNetwork {
    fn resolve(&self, host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let address: IpAddr = match host {
            "registry.example" => "203.0.113.5".parse().unwrap(),
            "inside.example" => "10.1.2.3".parse().unwrap(),
            "metadata.example" => "169.254.169.254".parse().unwrap(),
            _ => return Box::pin(async { Err(std::io::ErrorKind::NotFound.into()) }),
        };
        Box::pin(async move { Ok(vec![address]) })
    }

    fn route(&self, _address: IpAddr) -> IpAddr {
        "127.0.0.1".parse().unwrap()
    }
}

#[tokio::test]
async fn a_token_realm_further_inside_the_network_than_the_registry_is_blocked() {
    let tokens = TokenServer::start();
    let port = tokens.address.rsplit_once(':').unwrap().1.to_owned();
    let server = RegistryServer::start(Options {
        token_auth: Some(tokens),
        ..Options::default()
    });
    let proxy = Proxy::before(&server.address).await;
    let registry_port = proxy.address.rsplit_once(':').unwrap().1;
    for host in [
        "inside.example",
        "metadata.example",
        "10.1.2.3",
        "169.254.169.254",
    ] {
        let realm = format!("Bearer realm=\"http://{host}:{port}/token\",service=\"test\"");
        let challenge = response("401 Unauthorized", &[("WWW-Authenticate", &realm)], b"");
        proxy.fault("HEAD", "/manifests/", 1, challenge);
        let mut settings = settings_for(&format!("registry.example:{registry_port}"));
        settings.plain_http.extend([host.to_owned()]);
        settings.network = Arc::new(FakeNetwork);
        let registry = Registry::new(settings).unwrap();
        let reference = format!("registry.example:{registry_port}/x/y:1")
            .parse()
            .unwrap();
        let keyring = crate::support::keyring("registry.example:*", "u", "p");
        let error = registry
            .base_config(&reference, &keyring)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "FetchBlocked", "{host}: {}", chain(&error));
    }
    assert_eq!(server.tokens.as_ref().unwrap().issued(), 0);
}

#[tokio::test]
async fn a_registry_that_resolves_to_a_forbidden_address_is_blocked() {
    let mut settings = settings_for("metadata.example");
    settings.network = Arc::new(FakeNetwork);
    let registry = Registry::new(settings).unwrap();
    let reference = "metadata.example/x/y:1".parse().unwrap();
    let error = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "FetchBlocked", "{}", chain(&error));
    assert!(
        chain(&error).contains("cloud metadata"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn loopback_is_blocked_unless_listed() {
    let faulty = FaultyRegistry::new().await;
    let mut settings = faulty.settings.clone();
    settings.allowed.clear();
    let registry = Registry::new(settings).unwrap();
    let error = registry
        .base_config(&faulty.reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "FetchBlocked");
    assert_eq!(faulty.proxy.seen().len(), 0);
}

#[tokio::test]
async fn a_token_that_is_refused_later_is_replaced_once() {
    let tokens = TokenServer::start();
    let server = RegistryServer::start(Options {
        token_auth: Some(tokens),
        ..Options::default()
    });
    let image = Image::labelled([(labels::BASE64, STANDARD.encode(YAML))]);
    push(&server, &image, "tokens/image:1");
    let issued = || server.tokens.as_ref().unwrap().issued();
    let proxy = Proxy::before(&server.address).await;
    let reference: Reference = format!("{}/tokens/image:1", proxy.address).parse().unwrap();
    let mut settings = server.settings();
    settings.plain_http.push(proxy.address.clone());
    let keyring = crate::support::keyring(&proxy.address, USER, PASSWORD);
    let realm = format!(
        "Bearer realm=\"{}\",service=\"test\",scope=\"repository:tokens/image:pull\"",
        server.tokens.as_ref().unwrap().realm()
    );
    let expired = response("401 Unauthorized", &[("WWW-Authenticate", &realm)], b"");
    let before = issued();
    proxy.fault("GET", "/blobs/", 1, expired.clone());
    let registry = Registry::new(settings.clone()).unwrap();
    assert_eq!(
        registry
            .base_config(&reference, &keyring)
            .await
            .unwrap()
            .yaml,
        YAML
    );
    assert_eq!(issued() - before, 2);

    proxy.fault("GET", "/blobs/", 2, expired);
    let registry = Registry::new(settings).unwrap();
    let error = registry
        .base_config(&reference, &keyring)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "AuthFailed", "{}", chain(&error));
    assert!(registry.base_config(&reference, &keyring).await.is_ok());
}

#[tokio::test]
async fn retry_after_is_honoured_or_reported() {
    let faulty = FaultyRegistry::new().await;
    let pause = |seconds| response("429 Too Many Requests", &[("Retry-After", seconds)], b"");
    faulty.proxy.fault("HEAD", "/manifests/", 1, pause("1"));
    let registry = Registry::new(faulty.settings.clone()).unwrap();
    let begun = Instant::now();
    assert!(
        registry
            .base_config(&faulty.reference, &Keyring::empty())
            .await
            .is_ok()
    );
    assert!(begun.elapsed() >= Duration::from_secs(1));

    // Longer than the maximum backoff: the caller decides when to retry.
    let faulty = FaultyRegistry::new().await;
    faulty.proxy.fault("HEAD", "/manifests/", 1, pause("3600"));
    let begun = Instant::now();
    let error = faulty.fails_once_with("RateLimited").await;
    assert!(begun.elapsed() < Duration::from_mins(1));
    let BaseError::Registry(llsd_registry::Error::TooManyRequests { retry_after, .. }) = error
    else {
        panic!("{error}")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn server_errors_are_retried_and_then_reported() {
    for (status, times) in [
        ("500 Internal Server Error", 3),
        ("503 Service Unavailable", 3),
    ] {
        let faulty = FaultyRegistry::new().await;
        faulty.proxy.fault(
            "GET",
            "/manifests/",
            times,
            response(status, &[], b"<html>"),
        );
        faulty.fails_once_with("RegistryFailed").await;
        let requests = faulty
            .proxy
            .seen()
            .iter()
            .filter(|r| r.starts_with("GET /v2/faulty/image/manifests/"))
            .count();
        assert_eq!(requests, 4, "three failures and one success");
    }
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let registry = Registry::new(settings_for(&address)).unwrap();
    let reference = format!("{address}/x/y:1").parse().unwrap();
    let error = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "RegistryUnreachable", "{}", chain(&error));
    assert!(error.is_transient());
}

#[tokio::test]
async fn plain_http_is_not_used_for_hosts_that_are_not_listed() {
    let faulty = FaultyRegistry::new().await;
    let mut settings = faulty.settings.clone();
    settings.timeouts.read = Duration::from_millis(200);
    settings.plain_http.clear();
    let registry = Registry::new(settings).unwrap();
    let error = registry
        .base_config(&faulty.reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert!(error.is_transient(), "{}", chain(&error));
    assert!(
        faulty.proxy.seen().is_empty(),
        "the proxy receives a TLS handshake and no request"
    );
}

#[tokio::test]
async fn proxies_are_used_except_for_hosts_in_no_proxy() {
    let proxy = Proxy::before("127.0.0.1:1").await;
    proxy.fault(
        "HEAD",
        "/manifests/",
        9,
        response("404 Not Found", &[], b""),
    );
    let mut settings = settings_for("registry.example");
    settings.network = Arc::new(FakeNetwork);
    let lookup = |name: &str| match name {
        "http_proxy" => Some(format!("http://{}", proxy.address)),
        "no_proxy" => Some("direct.example".to_owned()),
        _ => None,
    };
    settings.proxy = ProxySettings::from_variables(lookup).unwrap();
    settings
        .plain_http
        .extend(["elsewhere.example", "metadata.example"].map(str::to_owned));
    settings.plain_http.push("direct.example".to_owned());
    let registry = Registry::new(settings).unwrap();
    let reason = async |image: &str| {
        let reference = image.parse().unwrap();
        let result = registry.base_config(&reference, &Keyring::empty()).await;
        result.unwrap_err().reason()
    };
    assert_eq!(reason("registry.example/x/y:1").await, "NotFound");
    // Only the proxy can resolve this name.
    assert_eq!(reason("elsewhere.example/x/y:1").await, "NotFound");
    assert_eq!(
        proxy.seen(),
        [
            "HEAD http://registry.example/v2/x/y/manifests/1",
            "HEAD http://elsewhere.example/v2/x/y/manifests/1",
        ]
    );
    // A name that resolves to a blocked address is not sent to the proxy.
    assert_eq!(reason("metadata.example/x/y:1").await, "FetchBlocked");
    assert_eq!(reason("direct.example/x/y:1").await, "RegistryUnreachable");
    assert_eq!(proxy.seen().len(), 2);
}
