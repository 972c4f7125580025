//! `cargo xtask image`: the operator's container image, with its SBOM and provenance.
//!
//! In: a static `llsd`. Out: an OCI layout in `target/image`. The same commit gives the same digest: the
//! certificates come from a pinned crate, and times are the time of the commit.

pub mod provenance;
pub mod source;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use data_encoding::BASE64;
use llsd_oci_layout::{
    Compression, Descriptor, ImageConfig, ImageLayout, Layer, LayerWriter, Platform, Referrer,
};

use xtask::shell;

use crate::package::sbom;
use provenance::{Provenance, Subject};
use source::Source;

/// The repository that the manifests refer to.
pub const REPOSITORY: &str = "ghcr.io/llsd-project/llsd";
/// Not root, and not a name: the kubelet cannot tell that a name is not root.
const USER: &str = "65532:65532";
/// The type of an SBOM in CycloneDX.
pub const SBOM: &str = "application/vnd.cyclonedx+json";

/// Writes the image of `binary`, which was built for the Rust target `target`, to `folder`.
pub fn run(binary: &Path, target: &str, folder: &Path) -> anyhow::Result<()> {
    ensure!(
        binary.is_file(),
        "the binary {} was not found; build it, or leave out --binary",
        binary.display()
    );
    let metadata = sbom::metadata()?;
    let image = OperatorImage {
        program: &std::fs::read(binary)?,
        target,
        version: &sbom::version(&metadata)?,
        source: &Source::of_checkout()?,
        sbom: &sbom::cyclonedx(&metadata, sbom::LLSD)?,
        repository: REPOSITORY,
    };
    let name = format!("{REPOSITORY}:{}", image.version);
    let mut layout = ImageLayout::create(folder, image.source.time)?;
    let (config, layer) = image.content(&layout)?;
    let written = layout.image(&name, &config, &[layer])?;
    image.add_documents(&mut layout, &written)?;
    layout.finish()?;
    let size: u64 = std::fs::read_dir(folder.join("blobs/sha256"))?
        .map(|blob| Ok(blob?.metadata()?.len()))
        .sum::<anyhow::Result<u64>>()?;
    println!("{name}@{}", written.digest);
    eprintln!("    {}, {:.1} MB", folder.display(), size as f64 / 1e6);
    Ok(())
}

/// The operator's image for one platform.
pub struct OperatorImage<'a> {
    /// The static `llsd`.
    pub program: &'a [u8],
    /// The Rust target of the program.
    pub target: &'a str,
    /// The version of `llsd`.
    pub version: &'a str,
    /// The commit.
    pub source: &'a Source,
    /// The SBOM of the program.
    pub sbom: &'a str,
    /// The repository that the image is published to.
    pub repository: &'a str,
}

impl OperatorImage<'_> {
    /// The platform of the program.
    pub fn platform(&self) -> Platform {
        Platform::of_rust(self.target.split('-').next().unwrap_or_default())
    }

    /// Writes the layer, and returns it with the configuration.
    pub fn content(&self, layout: &ImageLayout) -> anyhow::Result<(ImageConfig, Layer)> {
        let layer = layout.layer(Compression::Gzip, |layer| write_files(layer, self.program))?;
        let mut config = ImageConfig::new(self.platform(), &["/llsd"]);
        config.user = USER.to_owned();
        config.labels = labels(self.version, self.source);
        config.created = Some(self.source.created());
        Ok((config, layer))
    }

    /// Writes the SBOM and the provenance of `image`, as referrers.
    pub fn add_documents(
        &self,
        layout: &mut ImageLayout,
        image: &Descriptor,
    ) -> anyhow::Result<()> {
        let provenance = Provenance {
            task: "cargo xtask image",
            target: Some(self.target),
            source: self.source,
        };
        let subject = Subject::new(self.repository, &image.digest);
        let statement = provenance.statement(&[subject])?;
        add_referrer(layout, image, SBOM, self.sbom, self.source)?;
        add_referrer(
            layout,
            image,
            provenance::MEDIA_TYPE,
            &statement,
            self.source,
        )
    }
}

/// Writes a document about `subject` as a referrer.
pub fn add_referrer(
    layout: &mut ImageLayout,
    subject: &Descriptor,
    media_type: &str,
    content: &str,
    source: &Source,
) -> anyhow::Result<()> {
    let created = ("org.opencontainers.image.created", source.created());
    let referrer = Referrer {
        media_type,
        content: content.as_bytes(),
        annotations: BTreeMap::from([(created.0.to_owned(), created.1)]),
    };
    layout.referrer(subject, &referrer)?;
    Ok(())
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

/// The labels of an image, which are also the annotations of its manifest.
pub fn labels(version: &str, source: &Source) -> BTreeMap<String, String> {
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
