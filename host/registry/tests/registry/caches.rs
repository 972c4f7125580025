//! What is asked of a registry, counted at the registry.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use llsd_registry::{Keyring, Registry, labels};

use crate::support::layout::{Image, Layer, Packing, push};
use crate::support::proxy::{Proxy, answer};
use crate::support::{RegistryServer, cache_folder, files_in, settings_for};

fn image(yaml: &str) -> Image {
    Image::labelled([(labels::BASE64, STANDARD.encode(yaml))])
}

/// What a client asked after some point, without crane's own requests before it.
async fn asked_since(server: &RegistryServer, count: usize) -> Vec<String> {
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
    // In one task all of them have asked before the first answer can arrive.
    let all = (0..500).map(|_| registry.base_config(&reference, &keyring));
    for answer in futures::future::join_all(all).await {
        assert_eq!(answer.unwrap().yaml, "a: 1\n");
    }
    let expected = ["HEAD manifests", "GET manifests", "GET blobs"];
    assert_eq!(asked_since(&server, before).await, expected);
}

#[tokio::test]
async fn a_second_reading_of_a_digest_asks_nothing_not_even_after_a_restart() {
    let server = RegistryServer::plain();
    let layer = Layer::with(&[("run.yaml", b"a: 1\n")], Packing::Gzip);
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
    assert_eq!(asked_since(&server, before).await, [""; 0]);

    // Damage on disk costs a fetch and nothing else.
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
    assert_eq!(asked_since(&server, before).await, expected);
}

#[tokio::test]
async fn where_tenants_share_a_cache_each_is_let_in_by_the_registry_once() {
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
    assert_eq!(asked_since(&server, before).await, ["HEAD manifests"]);
}

#[tokio::test]
async fn a_registry_that_vouches_for_a_digest_it_does_not_have_gets_nothing_from_the_cache() {
    let server = RegistryServer::plain();
    let reference = push(&server, &image("secret: 1\n"), "private/image:1");
    let (_folder, dir) = cache_folder();
    let liar = Proxy::before("127.0.0.1:1").await;
    let mut settings = server.settings();
    settings.cache_dir = Some(dir);
    settings.plain_http.push(liar.address.clone());
    let registry = Registry::new(settings).unwrap();
    let kept = registry
        .base_config(&reference, &Keyring::empty())
        .await
        .unwrap();

    let digest = kept.image_digest.to_string();
    let yes = answer("200 OK", &[("Docker-Content-Digest", &digest)], b"");
    liar.fault("HEAD", "/manifests/", 9, yes);
    liar.fault("GET", "/manifests/", 9, answer("404 Not Found", &[], b""));
    for claim in [format!("liar/image@{digest}"), "liar/image:1".to_owned()] {
        let claimed = format!("{}/{claim}", liar.address).parse().unwrap();
        let answer = registry.base_config(&claimed, &Keyring::empty()).await;
        assert_eq!(answer.unwrap_err().reason(), "NotFound");
    }
}

#[tokio::test]
async fn a_tag_is_asked_for_again_on_schedule_and_only_its_head() {
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
    assert_eq!(asked_since(&server, before).await, ["HEAD manifests"]);
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
    assert_eq!(asked_since(&server, before).await, [""; 0]);
}

#[tokio::test]
async fn a_tag_keeps_its_digest_while_the_registry_is_down() {
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
    let down = answer("503 Service Unavailable", &[], b"");
    proxy.fault("HEAD", "/manifests/1", 3, down);
    assert_eq!(
        registry
            .base_config(&reference, &Keyring::empty())
            .await
            .unwrap(),
        first
    );
}
