//! `cargo xtask image`: the operator's container image, with its SBOM and provenance.
//!
//! In: a static `llsd`. Out: an OCI layout in `target/image`. The same commit gives the same digest: the
//! certificates come from a pinned crate, and times are the time of the commit.

mod provenance;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use data_encoding::BASE64;
use llsd_oci_layout::{
    Compression, Descriptor, ImageConfig, ImageLayout, LayerWriter, Platform, Referrer,
};

use xtask::shell;

use crate::package::sbom;
use provenance::Provenance;
use source::Source;

/// The repository that the manifests refer to.
const REPOSITORY: &str = "ghcr.io/llsd-project/llsd";
/// Not root, and not a name: the kubelet cannot tell that a name is not root.
const USER: &str = "65532:65532";
const SBOM: &str = "application/vnd.cyclonedx+json";

/// Writes the image of `binary`, which was built for the Rust target `target`, to `folder`.
pub fn run(binary: &Path, target: &str, folder: &Path) -> anyhow::Result<()> {
    ensure!(
        binary.is_file(),
        "the binary {} was not found; build it, or leave out --binary",
        binary.display()
    );
    let program = std::fs::read(binary)?;
    let metadata = sbom::metadata()?;
    let version = sbom::version(&metadata)?;
    let source = Source::of_checkout()?;
    let image = write(
        folder,
        &program,
        target,
        &version,
        &source,
        &sbom::cyclonedx(&metadata)?,
    )?;
    let size: u64 = std::fs::read_dir(folder.join("blobs/sha256"))?
        .map(|blob| Ok(blob?.metadata()?.len()))
        .sum::<anyhow::Result<u64>>()?;
    println!("{REPOSITORY}:{version}@{}", image.digest);
    eprintln!("    {}, {:.1} MB", folder.display(), size as f64 / 1e6);
    Ok(())
}

fn write(
    folder: &Path,
    program: &[u8],
    target: &str,
    version: &str,
    source: &Source,
    sbom: &str,
) -> anyhow::Result<Descriptor> {
    let mut layout = ImageLayout::create(folder, source.time)?;
    let layer = layout.layer(Compression::Gzip, |layer| write_files(layer, program))?;
    let architecture = target.split('-').next().unwrap_or_default();
    let mut config = ImageConfig::new(Platform::of_rust(architecture), &["/llsd"]);
    config.user = USER.to_owned();
    config.labels = labels(version, source);
    config.created = Some(source.created());
    let image = layout.image(&format!("{REPOSITORY}:{version}"), &config, &[layer])?;
    let annotations = BTreeMap::from([(
        "org.opencontainers.image.created".to_owned(),
        source.created(),
    )]);
    layout.referrer(
        &image,
        &Referrer {
            media_type: SBOM,
            content: sbom.as_bytes(),
            annotations: annotations.clone(),
        },
    )?;
    let provenance = Provenance {
        repository: REPOSITORY,
        target,
        source,
    };
    layout.referrer(
        &image,
        &Referrer {
            media_type: provenance::MEDIA_TYPE,
            content: provenance.statement(&image)?.to_string().as_bytes(),
            annotations,
        },
    )?;
    layout.finish()?;
    Ok(image)
}

/// The three files of the image.
fn write_files(layer: &mut LayerWriter<'_>, program: &[u8]) -> anyhow::Result<()> {
    let license = std::fs::read(shell::root().join("LICENSE")).context("failed to read LICENSE")?;
    layer.file("LICENSE", &license, 0o644)?;
    layer.file(
        "etc/ssl/certs/ca-certificates.crt",
        certificates().as_bytes(),
        0o644,
    )?;
    layer.file("llsd", program, 0o755)
}

/// The certificates of public authorities in PEM. They come from a crate instead of this machine, so that
/// every machine writes the same image.
fn certificates() -> String {
    let mut pem = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        pem += "-----BEGIN CERTIFICATE-----\n";
        let text = BASE64.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem += "-----END CERTIFICATE-----\n";
    }
    pem
}

fn labels(version: &str, source: &Source) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("title", "llsd".to_owned()),
        (
            "description",
            "Runs LlamaStack servers on Kubernetes from a short resource".to_owned(),
        ),
        ("source", source::URL.to_owned()),
        ("licenses", "Apache-2.0".to_owned()),
        ("version", version.to_owned()),
        ("created", source.created()),
    ]);
    if let Some(revision) = &source.revision {
        labels.insert("revision", revision.clone());
    }
    let name = |key: &str| format!("org.opencontainers.image.{key}");
    labels
        .into_iter()
        .map(|(key, value)| (name(key), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;

    #[test]
    fn the_certificates_are_those_of_public_authorities() {
        let pem = certificates();
        let parsed: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(parsed.len() > 100, "{}", parsed.len());
        assert_eq!(parsed, webpki_root_certs::TLS_SERVER_ROOT_CERTS);
    }
}
