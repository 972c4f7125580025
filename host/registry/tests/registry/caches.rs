//! The caches of the client, checked by the requests that the registry receives.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use llsd_registry::{Keyring, Registry, labels};

use crate::support::layout::{Compression, Image, Layer, push};
use crate::support::proxy::{Proxy, response};
use crate::support::{RegistryServer, cache_folder, files_in, settings_for};

fn image(yaml: &str) -> Image {
    Image::labelled([(labels::BASE64, STANDARD.encode(yaml))])
}

/// The requests after the first `count`.
async fn requests_since(server: &RegistryServer, count: usize) -> Vec<String> {
    let all = server.requests().await;
    let short = |request: &String| {
        let (method, path) = request.split_once(' ').unwrap();
        let kind = path.split('/').rev().nth(1).unwrap();
        format!("{method} {kind}")
    };
    all[count..].iter().map(short).collect()
}

#[tokio::test]
async fn five_hundred_resources_on_one_image_cause_one_fetch() {
    let server = RegistryServer::plain();
    let reference = push(&server, &image("a: 1\n"), "one/image:1");
    let before = server.requests().await.len();
    let registry = Registry::new(server.settings()).unwrap();
    let keyring = Keyring::empty();
    // One task polls all of them before the first response can arrive.
    let all = (0..500).map(|_| registry.base_config(&reference, &keyring));
    for result in futures::future::join_all(all).await {
        assert_eq!(result.unwrap().yaml, "a: 1\n");
    }
    let expected = ["HEAD manifests", "GET manifests", "GET blobs"];
    assert_eq!(requests_since(&server, before).await, expected);
}

#[tokio::test]
async fn a_second_read_of_a_digest_sends_no_request_even_after_a_restart() {
    let server = RegistryServer::plain();
    let layer = Layer::with(&[("run.yaml", b"a: 1\n")], Compression::Gzip);
    let mut image = Image::labelled([
        (labels::LAYER, layer.digest().to_string()),
        (labels::PATH, "run.yaml".to_owned()),
    ]);
    image.layers.push(layer);
    let reference = push(&server, &image, "one/image:1");
    let (folder, dir) = cache_folder();
    let mut settings = server.settings();
    settings.cache_dir = Some(dir);
    settings.check_access = false;
    let registry = Registry::new(settings.clone()).unwrap();
    let first = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();
    let pinned = reference.at(&first.image_digest);

    let before = server.requests().await.len();
    assert_eq!(
        *registry
            .base_config(&pinned, &Keyring::empty())
            .await
            .unwrap(),
        *first
    );
    let restarted = Registry::new(settings.clone()).unwrap();
    assert_eq!(
        *restarted
            .base_config(&pinned, &Keyring::empty())
            .await
            .unwrap(),
        *first
    );
    assert_eq!(requests_since(&server, before).await, [""; 0]);

    // Damaged files are fetched again.
    for file in files_in(folder.path()) {
        std::fs::write(file, b"damaged").unwrap();
    }
    let restarted = Registry::new(settings).unwrap();
    assert_eq!(
        *restarted
            .base_config(&pinned, &Keyring::empty())
            .await
            .unwrap(),
        *first
    );
    let expected = ["GET manifests", "GET blobs", "GET blobs"];
    assert_eq!(requests_since(&server, before).await, expected);
}

#[tokio::test]
async fn tenants_that_share_a_cache_are_each_authorized_once_by_the_registry() {
    let server = RegistryServer::plain();
    let reference = push(&server, &image("a: 1\n"), "one/image:1");
    let (_folder, dir) = cache_folder();
    let mut settings = server.settings();
    settings.cache_dir = Some(dir);
    let registry = Registry::new(settings.clone()).unwrap();
    let first = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();
    let pinned = reference.at(&first.image_digest);
    let before = server.requests().await.len();
    let restarted = Registry::new(settings).unwrap();
    for _ in 0..3 {
        restarted
            .base_config(&pinned, &Keyring::empty())
            .await
            .unwrap();
    }
    assert_eq!(requests_since(&server, before).await, ["HEAD manifests"]);
}

#[tokio::test]
async fn a_registry_that_claims_to_have_a_digest_gets_nothing_from_the_cache() {
    let server = RegistryServer::plain();
    let reference = push(&server, &image("secret: 1\n"), "private/image:1");
    let (_folder, dir) = cache_folder();
    let liar = Proxy::before("127.0.0.1:1").await;
    let mut settings = server.settings();
    settings.cache_dir = Some(dir);
    settings.plain_http.push(liar.address.clone());
    let registry = Registry::new(settings).unwrap();
    let cached = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();

    let digest = cached.image_digest.to_string();
    let confirmation = response("200 OK", &[("Docker-Content-Digest", &digest)], b"");
    liar.fault("HEAD", "/manifests/", 9, confirmation);
    liar.fault("GET", "/manifests/", 9, response("404 Not Found", &[], b""));
    for claim in [format!("liar/image@{digest}"), "liar/image:1".to_owned()] {
        let claimed = format!("{}/{claim}", liar.address).parse().unwrap();
        let result = registry.base_config(&claimed, &Keyring::empty()).await;
        assert_eq!(result.unwrap_err().reason(), "NotFound");
    }
}

#[tokio::test]
async fn a_tag_is_resolved_again_after_its_ttl_with_a_head_request() {
    let server = RegistryServer::plain();
    let reference = push(&server, &image("a: 1\n"), "one/image:1");
    let mut settings = server.settings();
    settings.tag_ttl = Duration::ZERO;
    let registry = Registry::new(settings).unwrap();
    let read = async || {
        registry
            .base_config(&reference, &Keyring::empty())
            .await
            .unwrap()
    };
    let first = read().await;
    let before = server.requests().await.len();
    assert_eq!(read().await, first);
    assert_eq!(requests_since(&server, before).await, ["HEAD manifests"]);
    push(&server, &image("b: 2\n"), "one/image:1");
    assert_eq!(read().await.yaml, "b: 2\n");

    let scheduled = Registry::new(server.settings()).unwrap();
    scheduled
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();
    let before = server.requests().await.len();
    scheduled
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();
    assert_eq!(requests_since(&server, before).await, [""; 0]);
}

#[tokio::test]
async fn the_last_digest_of_a_tag_is_used_while_the_registry_is_down() {
    let server = RegistryServer::plain();
    push(&server, &image("a: 1\n"), "one/image:1");
    let proxy = Proxy::before(&server.address).await;
    let mut settings = settings_for(&proxy.address);
    settings.tag_ttl = Duration::ZERO;
    let registry = Registry::new(settings).unwrap();
    let reference = format!("{}/one/image:1", proxy.address).parse().unwrap();
    let first = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();
    let down = response("503 Service Unavailable", &[], b"");
    proxy.fault("HEAD", "/manifests/1", 3, down);
    assert_eq!(
        registry
            .base_config(&reference, &Keyring::empty())
            .await
            .unwrap(),
        first
    );
}
