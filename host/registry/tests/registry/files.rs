//! Single files out of real images in a real registry.

use llsd_registry::{FileError, Keyring, Registry};

use crate::support::layout::{Image, Layer, Packing, push};
use crate::support::{RegistryServer, chain};

const PATH: &str = "/lls-provider/spec.yaml";

/// An image with a layer for each text, the lowest first; each holds it under the same path.
fn stacked(texts: &[&str]) -> Image {
    let mut image = Image::labelled([]);
    for (text, packing) in texts
        .iter()
        .zip([Packing::Zstd, Packing::Gzip, Packing::Plain])
    {
        let files = [("lls-provider/spec.yaml", text.as_bytes())];
        image.layers.push(Layer::with(&files, packing));
    }
    let other = Layer::with(&[("usr/bin/x", b"x")], Packing::Gzip);
    image.layers.push(other);
    image
}

#[tokio::test]
async fn the_topmost_layer_that_holds_a_file_counts_and_it_is_fetched_once() {
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
    let asked = server.requests().await.len();
    let all = (0..50).map(|_| registry.image_file(&reference, PATH, &keyring));
    for file in futures::future::join_all(all).await {
        assert_eq!(&*file.unwrap(), b"high");
    }
    let all = server.requests().await;
    let blobs = all[asked..].iter().filter(|one| one.contains("/blobs/"));
    assert_eq!(blobs.count(), 0, "{:?}", &all[asked..]);
}

#[tokio::test]
async fn a_file_that_no_layer_holds_is_named_and_so_are_layers_that_nobody_searched() {
    let server = RegistryServer::plain();
    let reference = push(&server, &stacked(&["text"]), "acme/provider:1");
    let registry = Registry::new(server.settings()).unwrap();
    let keyring = Keyring::empty();
    let missing = registry.image_file(&reference, "/etc/other.yaml", &keyring);
    let error = missing.await.unwrap_err();
    assert!(!error.is_transient());
    assert_eq!(
        chain(&error),
        format!("{reference} has no file /etc/other.yaml")
    );
    for path in ["/lls-provider/../../etc/passwd", "", "/lls-provider"] {
        let answer = registry.image_file(&reference, path, &keyring).await;
        assert!(
            matches!(answer, Err(FileError::Absent { .. })),
            "{path:?}: {answer:?}"
        );
    }

    let mut settings = server.settings();
    settings.limits.layer_bytes = 1;
    let registry = Registry::new(settings).unwrap();
    let answer = registry.image_file(&reference, PATH, &keyring).await;
    match answer {
        Err(FileError::Absent { unsearched, .. }) => assert!(unsearched > 0),
        other => panic!("{other:?}"),
    }
}
