//! Everything that goes wrong between client and registry, made to happen by a proxy of our own.
//!
//! Each fault must end in an error of its own name, within its limits of time and size, leave nothing
//! half-written in the cache, and not spoil the next request.

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

use crate::support::layout::{Image, Layer, Layout, Packing, gzip, push};
use crate::support::proxy::{Fault, Proxy, answer};
use crate::support::tokens::TokenServer;
use crate::support::{
    Options, PASSWORD, RegistryServer, USER, cache_folder, chain, files_in, settings_for,
};

const YAML: &str = "version: 2\n";

/// A registry with one image whose configuration is in a layer, and a proxy before it.
struct Bench {
    server: RegistryServer,
    proxy: Proxy,
    reference: Reference,
    layer: Digest,
    settings: Settings,
    cache: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let noise: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
        let files: [(&str, &[u8]); 2] = [("run.yaml", YAML.as_bytes()), ("noise", &noise)];
        Self::with(Layer::with(&files, Packing::Gzip)).await
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

    /// Runs into a fault, and then does not.
    async fn fails_once_with(&self, reason: &str) -> BaseError {
        let registry = Registry::new(self.settings.clone()).unwrap();
        let begun = Instant::now();
        let error = registry
            .base_config(&self.reference, &Keyring::empty())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{}", chain(&error));
        let limit = self.settings.timeouts.total + Duration::from_secs(2);
        assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
        for file in files_in(self.cache.path()) {
            let content = std::fs::read(&file).unwrap();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let hex = name.rsplit('-').next().unwrap();
            assert_eq!(
                Digest::of(&content).hex(),
                hex,
                "only whole blobs under their digest"
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
async fn a_connection_cut_in_a_blob_is_tried_again_and_then_named() {
    let bench = Bench::new().await;
    bench
        .proxy
        .fault("GET", &bench.layer_path(), 2, Fault::CutAfter(1000));
    let registry = Registry::new(bench.settings.clone()).unwrap();
    let base = registry
        .base_config(&bench.reference, &Keyring::empty())
        .await
        .unwrap();
    assert_eq!(base.yaml, YAML, "the third try succeeds");

    let bench = Bench::new().await;
    bench
        .proxy
        .fault("GET", &bench.layer_path(), 3, Fault::CutAfter(1000));
    bench.fails_once_with("ConnectionLost").await;
}

#[tokio::test]
async fn a_connection_cut_in_a_manifest_is_named() {
    let bench = Bench::new().await;
    bench
        .proxy
        .fault("GET", "/manifests/", 3, Fault::CutAfter(10));
    bench.fails_once_with("ConnectionLost").await;
}

#[tokio::test]
async fn silence_ends_with_the_read_limit() {
    let mut bench = Bench::new().await;
    bench.settings.timeouts.read = Duration::from_millis(500);
    bench.proxy.fault("HEAD", "/manifests/", 3, Fault::Silence);
    bench.fails_once_with("RegistryTimeout").await;
}

#[tokio::test]
async fn a_slow_loris_ends_with_the_total_limit() {
    let mut bench = Bench::new().await;
    bench.settings.timeouts.total = Duration::from_secs(1);
    bench.proxy.fault("GET", "/manifests/", 9, Fault::Drip);
    let registry = Registry::new(bench.settings.clone()).unwrap();
    let error = registry
        .base_config(&bench.reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "RegistryTimeout", "{}", chain(&error));
    assert!(chain(&error).contains("within 1s"), "{}", chain(&error));
}

#[tokio::test]
async fn endless_answers_end_at_their_limit() {
    let bench = Bench::new().await;
    bench
        .proxy
        .fault("GET", &bench.layer_path(), 1, Fault::Endless);
    bench.fails_once_with("WrongLength").await;
    let bench = Bench::new().await;
    bench.proxy.fault("GET", "/manifests/", 1, Fault::Endless);
    bench.fails_once_with("TooLarge").await;
}

#[tokio::test]
async fn bytes_with_another_digest_are_refused_wherever_they_come() {
    let bench = Bench::new().await;
    bench
        .proxy
        .fault("GET", "/manifests/", 1, answer("200 OK", &[], b"{}"));
    bench.fails_once_with("DigestMismatch").await;

    let bench = Bench::new().await;
    let registry = bench.server.crane(&[
        "blob",
        &format!("{}/faulty/image@{}", bench.server.address, bench.layer),
    ]);
    let mut altered = registry;
    *altered.last_mut().unwrap() ^= 1;
    bench.proxy.fault(
        "GET",
        &bench.layer_path(),
        1,
        answer("200 OK", &[], &altered),
    );
    bench.fails_once_with("DigestMismatch").await;
}

#[tokio::test]
async fn another_length_than_announced_is_refused_before_it_is_read() {
    let bench = Bench::new().await;
    bench.proxy.fault(
        "GET",
        &bench.layer_path(),
        1,
        answer("200 OK", &[], b"short"),
    );
    bench.fails_once_with("WrongLength").await;
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
        let bench = Bench::new().await;
        let redirect = answer("307 Temporary Redirect", &[("Location", location)], b"");
        bench.proxy.fault("GET", &bench.layer_path(), 1, redirect);
        let error = bench.fails_once_with("FetchBlocked").await;
        assert!(
            chain(&error).contains("refused to connect"),
            "{}",
            chain(&error)
        );
    }
}

#[tokio::test]
async fn redirects_do_not_go_on_for_ever() {
    let bench = Bench::new().await;
    let here = format!("/v2/faulty/image{}", bench.layer_path());
    let again = answer("307 Temporary Redirect", &[("Location", &here)], b"");
    bench.proxy.fault("GET", &bench.layer_path(), 6, again);
    let error = bench.fails_once_with("BadAnswer").await;
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
    let layer = Layer::with(&[("run.yaml", YAML.as_bytes())], Packing::Gzip);
    let mut image = Image::labelled([
        (labels::LAYER, layer.digest().to_string()),
        (labels::PATH, "run.yaml".to_owned()),
    ]);
    let (digest, stored) = (layer.digest(), layer.stored());
    image.layers.push(layer);
    push(&server, &image, "faulty/image:1");
    let proxy = Proxy::before(&server.address).await;
    let storage = Proxy::before(&server.address).await;
    let blob = format!("/blobs/{digest}");
    let location = format!("http://{}/storage{blob}?signature=x", storage.address);
    let redirect = answer("307 Temporary Redirect", &[("Location", &location)], b"");
    proxy.fault("GET", &blob, 1, redirect);
    storage.fault("GET", &blob, 1, answer("200 OK", &[], &stored));
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

/// A made-up network: names stand for addresses, and those are all dialled on loopback.
struct Imagined;

impl Network for Imagined {
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
async fn a_token_realm_further_inside_than_the_registry_is_not_asked() {
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
        let challenge = answer("401 Unauthorized", &[("WWW-Authenticate", &realm)], b"");
        proxy.fault("HEAD", "/manifests/", 1, challenge);
        let mut settings = settings_for(&format!("registry.example:{registry_port}"));
        settings.plain_http.extend([host.to_owned()]);
        settings.network = Arc::new(Imagined);
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
async fn a_registry_whose_name_resolves_to_a_forbidden_address_is_not_dialled() {
    let mut settings = settings_for("metadata.example");
    settings.network = Arc::new(Imagined);
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
async fn loopback_is_not_dialled_unless_listed() {
    let bench = Bench::new().await;
    let mut settings = bench.settings.clone();
    settings.allowed.clear();
    let registry = Registry::new(settings).unwrap();
    let error = registry
        .base_config(&bench.reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "FetchBlocked");
    assert_eq!(bench.proxy.seen().len(), 0);
}

#[tokio::test]
async fn a_token_refused_after_it_worked_is_replaced_once() {
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
    let expired = answer("401 Unauthorized", &[("WWW-Authenticate", &realm)], b"");
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
async fn a_request_for_a_pause_is_honoured_or_passed_on() {
    let bench = Bench::new().await;
    let pause = |seconds| answer("429 Too Many Requests", &[("Retry-After", seconds)], b"");
    bench.proxy.fault("HEAD", "/manifests/", 1, pause("1"));
    let registry = Registry::new(bench.settings.clone()).unwrap();
    let begun = Instant::now();
    assert!(
        registry
            .base_config(&bench.reference, &Keyring::empty())
            .await
            .is_ok()
    );
    assert!(begun.elapsed() >= Duration::from_secs(1));

    // Longer than we wait: the caller's own schedule decides.
    let bench = Bench::new().await;
    bench.proxy.fault("HEAD", "/manifests/", 1, pause("3600"));
    let begun = Instant::now();
    let error = bench.fails_once_with("RateLimited").await;
    assert!(begun.elapsed() < Duration::from_secs(3));
    let BaseError::Registry(llsd_registry::Error::TooManyRequests { retry_after, .. }) = error
    else {
        panic!("{error}")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn a_failing_registry_is_tried_again_and_then_named() {
    for (status, times) in [
        ("500 Internal Server Error", 3),
        ("503 Service Unavailable", 3),
    ] {
        let bench = Bench::new().await;
        bench
            .proxy
            .fault("GET", "/manifests/", times, answer(status, &[], b"<html>"));
        bench.fails_once_with("RegistryFailed").await;
        let asked = bench
            .proxy
            .seen()
            .iter()
            .filter(|r| r.starts_with("GET /v2/faulty/image/manifests/"))
            .count();
        assert_eq!(asked, 4, "three failures and the success after them");
    }
}

#[tokio::test]
async fn a_dead_port_is_unreachable() {
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
async fn plain_http_is_not_spoken_to_a_host_that_is_not_listed() {
    let bench = Bench::new().await;
    let mut settings = bench.settings.clone();
    settings.timeouts.read = Duration::from_millis(200);
    settings.plain_http.clear();
    let registry = Registry::new(settings).unwrap();
    let error = registry
        .base_config(&bench.reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert!(error.is_transient(), "{}", chain(&error));
    assert!(
        bench.proxy.seen().is_empty(),
        "no request, only a TLS greeting that is not one"
    );
}

#[tokio::test]
async fn proxies_are_used_except_where_they_are_not_wanted() {
    let proxy = Proxy::before("127.0.0.1:1").await;
    proxy.fault("HEAD", "/manifests/", 9, answer("404 Not Found", &[], b""));
    let mut settings = settings_for("registry.example");
    settings.network = Arc::new(Imagined);
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
        let answer = registry.base_config(&reference, &Keyring::empty()).await;
        answer.unwrap_err().reason()
    };
    assert_eq!(reason("registry.example/x/y:1").await, "NotFound");
    // Only the proxy can resolve this name, which is what proxies are for.
    assert_eq!(reason("elsewhere.example/x/y:1").await, "NotFound");
    assert_eq!(
        proxy.seen(),
        [
            "HEAD http://registry.example/v2/x/y/manifests/1",
            "HEAD http://elsewhere.example/v2/x/y/manifests/1",
        ]
    );
    // What we can resolve and would not dial is not left to the proxy either.
    assert_eq!(reason("metadata.example/x/y:1").await, "FetchBlocked");
    assert_eq!(reason("direct.example/x/y:1").await, "RegistryUnreachable");
    assert_eq!(proxy.seen().len(), 2);
}

/// Layers that are what their digest says and still not what they should be.
async fn bad_layer(stored: Vec<u8>, limits: impl Fn(&mut Settings)) -> BaseError {
    let server = RegistryServer::plain();
    let layout = Layout::new();
    let layer = layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", &stored);
    let config = serde_json::json!({"architecture": "amd64", "os": "linux", "config": {"Labels": {
        labels::LAYER: Digest::of(&stored), labels::PATH: "run.yaml"}}});
    let config = layout.json("application/vnd.oci.image.config.v1+json", &config);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = serde_json::json!({"schemaVersion": 2, "mediaType": kind,
        "config": config, "layers": [layer]});
    let manifest = layout.json(kind, &manifest);
    let reference = layout.push(&server, &manifest, "bad/layer:1");
    let (cache, dir) = cache_folder();
    let mut settings = server.settings();
    settings.cache_dir = Some(dir);
    limits(&mut settings);
    let registry = Registry::new(settings).unwrap();
    let error = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap_err();
    assert_eq!(files_in(&cache.path().join("files")).len(), 0);
    assert_eq!(files_in(&cache.path().join("parts")).len(), 0);
    error
}

#[tokio::test]
async fn a_truncated_gzip_layer_is_damaged() {
    let noise: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
    let files: [(&str, &[u8]); 2] = [("run.yaml", YAML.as_bytes()), ("noise", &noise)];
    let mut stored = Layer::with(&files, Packing::Gzip).stored();
    stored.truncate(stored.len() / 2);
    let error = bad_layer(stored, |_| {}).await;
    assert_eq!(error.reason(), "BadConfigLayer");
    assert!(
        chain(&error).contains("cannot be unpacked"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_zip_bomb_stops_at_its_limit() {
    let zeros = vec![0; 32 << 20];
    let files: [(&str, &[u8]); 2] = [("zeros", &zeros), ("run.yaml", YAML.as_bytes())];
    let bomb = gzip(&Layer::with(&files, Packing::Plain).tar);
    assert!(bomb.len() < 1 << 20);
    let error = bad_layer(bomb, |settings| settings.limits.unpacked_bytes = 8 << 20).await;
    assert!(
        chain(&error).contains("unpacks to more than 8388608 bytes"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn tar_tricks_lead_nowhere() {
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..14].copy_from_slice(b"x/../run.yaml\0");
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(4);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, &b"evil"[..]).unwrap();
    let error = bad_layer(gzip(&builder.into_inner().unwrap()), |_| {}).await;
    assert!(
        chain(&error).contains("has no file \"run.yaml\""),
        "{}",
        chain(&error)
    );

    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder
        .append_link(&mut header, "run.yaml", "/etc/passwd")
        .unwrap();
    let error = bad_layer(gzip(&builder.into_inner().unwrap()), |_| {}).await;
    assert!(chain(&error).contains("symbolic link"), "{}", chain(&error));
}

#[tokio::test]
async fn a_layer_or_file_over_its_limit_is_not_read() {
    let noise: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
    let stored = Layer::with(&[("run.yaml", &noise[..])], Packing::Gzip).stored();
    let error = bad_layer(stored.clone(), |settings| {
        settings.limits.layer_bytes = 1000
    })
    .await;
    assert_eq!(error.reason(), "TooLarge");
    let error = bad_layer(stored, |settings| settings.limits.base_bytes = 1000).await;
    assert!(
        chain(&error).contains("larger than 1000 bytes"),
        "{}",
        chain(&error)
    );
}
