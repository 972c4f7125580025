//! The layout that `cargo xtask image` writes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Writes the image of a binary, and returns what the task prints.
fn image(folder: &Path, binary: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask-artifacts"))
        .args(["image", "--target", "x86_64-unknown-linux-musl"])
        .arg("--binary")
        .arg(binary)
        .arg("--output")
        .arg(folder)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &Path, digest: &Value) -> Value {
    let name = digest.as_str().unwrap().replace(':', "/");
    let blob = std::fs::read(folder.join("blobs").join(name)).unwrap();
    serde_json::from_slice(&blob).unwrap()
}

#[test]
fn an_image_has_one_digest_three_files_an_unprivileged_user_and_two_referrers() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("llsd");
    std::fs::write(&binary, b"\x7fELF program").unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let reference = image(&first, &binary);
    assert_eq!(reference, image(&second, &binary));
    let index = std::fs::read_to_string(first.join("index.json")).unwrap();
    assert_eq!(
        index,
        std::fs::read_to_string(second.join("index.json")).unwrap()
    );

    let index: Value = serde_json::from_str(&index).unwrap();
    let [entry, sbom, provenance] = index["manifests"].as_array().unwrap().as_slice() else {
        panic!("{index}");
    };
    assert!(
        reference
            .trim()
            .ends_with(entry["digest"].as_str().unwrap())
    );
    assert_eq!(entry["platform"]["architecture"], "amd64");
    let manifest = json(&first, &entry["digest"]);
    let config = json(&first, &manifest["config"]["digest"]);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/llsd");
    let label = &config["config"]["Labels"]["org.opencontainers.image.licenses"];
    assert_eq!(label, "Apache-2.0");

    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = std::fs::File::open(first.join("blobs").join(layer.replace(':', "/"))).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(blob));
    let files: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(
        files,
        ["LICENSE", "etc/ssl/certs/ca-certificates.crt", "llsd"]
    );

    let of = |referrer: &Value| {
        let manifest = json(&first, &referrer["digest"]);
        assert_eq!(manifest["subject"]["digest"], entry["digest"]);
        json(&first, &manifest["layers"][0]["digest"])
    };
    assert_eq!(of(sbom)["bomFormat"], "CycloneDX");
    let subject = &of(provenance)["subject"][0]["digest"]["sha256"];
    assert!(
        entry["digest"]
            .as_str()
            .unwrap()
            .ends_with(subject.as_str().unwrap())
    );
}

#[test]
fn another_binary_gives_another_digest() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("llsd");
    std::fs::write(&binary, b"one").unwrap();
    let one = image(&folder.path().join("image"), &binary);
    std::fs::write(&binary, b"two").unwrap();
    assert_ne!(one, image(&folder.path().join("image"), &binary));
}
