//! Layouts are reproducible, and consist of what the OCI image specification asks for.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use data_encoding::HEXLOWER;
use llsd_oci_layout::{
    Artifact, Compression, Descriptor, ImageConfig, ImageLayout, Platform, Referrer, export,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const NAME: &str = "example.test/program:1.2.3";

/// Writes an image with one document about it.
fn write(folder: &Path, compression: Compression) -> Descriptor {
    let mut layout = ImageLayout::create(folder, 1_700_000_000).unwrap();
    let layer = layout
        .layer(compression, |layer| {
            layer.folder("etc", 0o755)?;
            layer.file("etc/motd", b"welcome", 0o644)?;
            layer.file("program", b"\x7fELF", 0o755)?;
            layer.link("bin", "usr/bin")
        })
        .unwrap();
    let mut config = ImageConfig::new(Platform::of_rust("x86_64"), &["/program"]);
    config.user = "65532:65532".to_owned();
    config.labels = BTreeMap::from([("org.opencontainers.image.title".into(), "program".into())]);
    let image = layout.image(NAME, &config, &[layer]).unwrap();
    let document = Referrer {
        media_type: "application/vnd.cyclonedx+json",
        content: b"{}",
        annotations: BTreeMap::new(),
    };
    layout.referrer(&image, &document).unwrap();
    layout.finish().unwrap();
    image
}

fn json(folder: &Path, digest: &str) -> Value {
    let file = folder.join("blobs").join(digest.replace(':', "/"));
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn index(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap()
}

#[test]
fn two_builds_give_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let files = |name: &str| {
        let folder = folder.path().join(name);
        write(&folder, Compression::Gzip);
        let blobs = fs::read_dir(folder.join("blobs/sha256")).unwrap();
        let mut files: Vec<(String, Vec<u8>)> = blobs
            .map(|file| file.unwrap().path())
            .chain([folder.join("index.json"), folder.join("oci-layout")])
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs::read(path).unwrap())
            })
            .collect();
        files.sort();
        files
    };
    assert_eq!(files("first"), files("second"));
}

#[test]
fn every_blob_has_the_name_of_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), Compression::Gzip);
    for blob in fs::read_dir(folder.path().join("blobs/sha256")).unwrap() {
        let blob = blob.unwrap();
        let digest = HEXLOWER.encode(&Sha256::digest(fs::read(blob.path()).unwrap()));
        assert_eq!(blob.file_name().to_string_lossy(), digest);
    }
}

#[test]
fn the_configuration_names_the_user_and_the_digests_of_the_uncompressed_layers() {
    let folder = tempfile::tempdir().unwrap();
    let image = write(folder.path(), Compression::Gzip);
    let manifest = json(folder.path(), &image.digest);
    let config = json(
        folder.path(),
        manifest["config"]["digest"].as_str().unwrap(),
    );
    assert_eq!(config["architecture"], "amd64");
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(
        config["config"]["Labels"]["org.opencontainers.image.title"],
        "program"
    );

    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = fs::read(folder.path().join("blobs").join(layer.replace(':', "/"))).unwrap();
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(blob.as_slice())
        .read_to_end(&mut tar)
        .unwrap();
    let diff_id = format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(&tar)));
    assert_eq!(config["rootfs"]["diff_ids"][0], diff_id.as_str());
}

#[test]
fn entries_belong_to_root_and_have_the_given_time() {
    let folder = tempfile::tempdir().unwrap();
    let image = write(folder.path(), Compression::None);
    let manifest = json(folder.path(), &image.digest);
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = fs::File::open(folder.path().join("blobs").join(layer.replace(':', "/"))).unwrap();
    let mut archive = tar::Archive::new(blob);
    let seen: Vec<(String, u32, u64, u64)> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            (
                entry.path().unwrap().display().to_string(),
                header.mode().unwrap(),
                header.uid().unwrap() + header.gid().unwrap(),
                header.mtime().unwrap(),
            )
        })
        .collect();
    let entry = |path: &str, mode| (path.to_owned(), mode, 0, 1_700_000_000);
    assert_eq!(
        seen,
        [
            entry("etc/", 0o755),
            entry("etc/motd", 0o644),
            entry("program", 0o755),
            entry("bin", 0o777),
        ]
    );
}

#[test]
fn a_document_refers_to_its_image_and_is_listed_with_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let image = write(folder.path(), Compression::Gzip);
    let index = index(folder.path());
    let [first, second] = index["manifests"].as_array().unwrap().as_slice() else {
        panic!("{index}");
    };
    assert_eq!(first["digest"], image.digest.as_str());
    assert_eq!(first["annotations"]["io.containerd.image.name"], NAME);
    assert_eq!(
        first["annotations"]["org.opencontainers.image.ref.name"],
        "1.2.3"
    );
    assert_eq!(second["artifactType"], "application/vnd.cyclonedx+json");
    let document = json(folder.path(), second["digest"].as_str().unwrap());
    assert_eq!(document["subject"]["digest"], image.digest.as_str());
}

#[test]
fn an_exported_layout_holds_the_index_and_every_blob() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), Compression::None);
    let mut tar = Vec::new();
    export(folder.path(), &mut tar).unwrap();
    let mut archive = tar::Archive::new(tar.as_slice());
    let paths: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(paths[..2], ["oci-layout", "index.json"]);
    let blobs = fs::read_dir(folder.path().join("blobs/sha256"))
        .unwrap()
        .count();
    assert_eq!(paths.len(), 2 + blobs);
}

#[test]
fn an_image_index_refers_to_one_image_for_each_platform() {
    let folder = tempfile::tempdir().unwrap();
    let mut layout = ImageLayout::create(folder.path(), 0).unwrap();
    let image = |architecture: &str| {
        let platform = Platform::of_rust(architecture);
        let config = ImageConfig::new(platform.clone(), &["/program"]);
        (platform, layout.image_manifest(&config, &[]).unwrap())
    };
    let images = [image("x86_64"), image("aarch64")];
    let annotations = BTreeMap::from([("org.opencontainers.image.version".into(), "1.2.3".into())]);
    let written = layout
        .image_index("program:1.2.3", &images, &annotations)
        .unwrap();
    layout.finish().unwrap();

    let listed = index(folder.path());
    let [entry] = listed["manifests"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    assert_eq!(entry["digest"], written.digest.as_str());
    assert_eq!(
        entry["annotations"]["org.opencontainers.image.ref.name"],
        "program:1.2.3"
    );
    let index = json(folder.path(), &written.digest);
    let platforms: Vec<&Value> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| &image["platform"]["architecture"])
        .collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
}

#[test]
fn an_artifact_can_be_imported_from_another_layout() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let artifact = Artifact {
        config_type: "application/vnd.cncf.helm.config.v1+json",
        config: b"{}",
        content_type: "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
        content: b"archive",
        annotations: BTreeMap::new(),
    };
    let mut layout = ImageLayout::create(first.path(), 0).unwrap();
    let written = layout.artifact("charts/program:1.2.3", &artifact).unwrap();
    layout.finish().unwrap();
    let mut layout = ImageLayout::create(second.path(), 0).unwrap();
    assert_eq!(layout.import(first.path(), "other:1").unwrap(), written);
    layout.finish().unwrap();

    let manifest = json(second.path(), &written.digest);
    let content = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = second.path().join("blobs").join(content.replace(':', "/"));
    assert_eq!(fs::read(blob).unwrap(), b"archive");
    let name = &index(second.path())["manifests"][0]["annotations"];
    assert_eq!(name["org.opencontainers.image.ref.name"], "other:1");
}
