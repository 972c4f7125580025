//! Files of images in a real registry.

use llsd_registry::{FileError, Keyring, Registry};

use crate::support::layout::{Compression, Image, Layer, push};
use crate::support::{RegistryServer, chain};

const PATH: &str = "/lls-provider/spec.yaml";

/// An image with one layer per string, the lowest first. All have the same path.
fn stacked(texts: &[&str]) -> Image {
    let mut image = Image::labelled([]);
    for (text, compression) in
        texts
            .iter()
            .zip([Compression::Zstd, Compression::Gzip, Compression::Plain])
    {
        let files = [("lls-provider/spec.yaml", text.as_bytes())];
        image.layers.push(Layer::with(&files, compression));
    }
    let other = Layer::with(&[("usr/bin/x", b"x")], Compression::Gzip);
    image.layers.push(other);
    image
}

#[tokio::test]
async fn the_file_of_the_topmost_layer_is_read_and_fetched_once() {
    let server = RegistryServer::plain();
    let reference = push(
        &server,
        &stacked(&["low", "middle", "high"]),
        "acme/provider:1",
    );
    let registry = Registry::new(server.settings()).unwrap();
    let keyring = Keyring::empty();
    let file = registry
        .image_file(&reference, PATH, &keyring)
        .await
        .unwrap();
    assert_eq!(&*file, b"high");
    let before = server.requests().await.len();
    let all = (0..50).map(|_| registry.image_file(&reference, PATH, &keyring));
    for file in futures::future::join_all(all).await {
        assert_eq!(&*file.unwrap(), b"high");
    }
    let all = server.requests().await;
    let blobs = all[before..].iter().filter(|one| one.contains("/blobs/"));
    assert_eq!(blobs.count(), 0, "{:?}", &all[before..]);
}

#[tokio::test]
async fn the_error_for_a_missing_file_names_it_and_counts_skipped_layers() {
    let server = RegistryServer::plain();
    let reference = push(&server, &stacked(&["text"]), "acme/provider:1");
    let registry = Registry::new(server.settings()).unwrap();
    let keyring = Keyring::empty();
    let missing = registry.image_file(&reference, "/etc/other.yaml", &keyring);
    let error = missing.await.unwrap_err();
    assert!(!error.is_transient());
    assert_eq!(
        chain(&error),
        format!("image {reference} has no file \"/etc/other.yaml\"")
    );
    for path in ["/lls-provider/../../etc/passwd", "", "/lls-provider"] {
        let result = registry.image_file(&reference, path, &keyring).await;
        assert!(
            matches!(result, Err(FileError::Absent { .. })),
            "{path:?}: {result:?}"
        );
    }

    let mut settings = server.settings();
    settings.limits.layer_bytes = 1;
    let registry = Registry::new(settings).unwrap();
    let result = registry.image_file(&reference, PATH, &keyring).await;
    match result {
        Err(FileError::Absent { unsearched, .. }) => assert!(unsearched > 0),
        other => panic!("{other:?}"),
    }
}
