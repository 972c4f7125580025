//! Layers that match their digest and are invalid: damaged, too large, or with forbidden entries.

use llsd_registry::{BaseError, Digest, Keyring, Registry, Settings, labels};

use crate::support::layout::{Compression, Layer, Layout, gzip};
use crate::support::{RegistryServer, cache_folder, chain, files_in};

const YAML: &str = "version: 2\n";

/// The error for an image whose layer matches its digest and is invalid.
async fn bad_layer(compressed: Vec<u8>, limits: impl Fn(&mut Settings)) -> BaseError {
    let server = RegistryServer::plain();
    let layout = Layout::new();
    let layer = layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", &compressed);
    let config = serde_json::json!({"architecture": "amd64", "os": "linux", "config": {"Labels": {
        labels::LAYER: Digest::of(&compressed), labels::PATH: "run.yaml"}}});
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
    let mut compressed = Layer::with(&files, Compression::Gzip).compressed();
    compressed.truncate(compressed.len() / 2);
    let error = bad_layer(compressed, |_| {}).await;
    assert_eq!(error.reason(), "BadConfigLayer");
    assert!(
        chain(&error).contains("failed to unpack"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_decompression_bomb_stops_at_the_limit() {
    let zeros = vec![0; 32 << 20];
    let files: [(&str, &[u8]); 2] = [("zeros", &zeros), ("run.yaml", YAML.as_bytes())];
    let bomb = gzip(&Layer::with(&files, Compression::Plain).tar);
    assert!(bomb.len() < 1 << 20);
    let error = bad_layer(bomb, |settings| settings.limits.unpacked_bytes = 8 << 20).await;
    assert!(
        chain(&error).contains("unpacks to more than 8388608 bytes"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn parent_paths_and_symbolic_links_in_a_layer_are_refused() {
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
    let compressed = Layer::with(&[("run.yaml", &noise[..])], Compression::Gzip).compressed();
    let error = bad_layer(compressed.clone(), |settings| {
        settings.limits.layer_bytes = 1000
    })
    .await;
    assert_eq!(error.reason(), "TooLarge");
    let error = bad_layer(compressed, |settings| settings.limits.base_bytes = 1000).await;
    assert!(
        chain(&error).contains("larger than 1000 bytes"),
        "{}",
        chain(&error)
    );
}
