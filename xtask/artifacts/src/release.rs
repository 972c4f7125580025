//! `cargo xtask release`: everything that a user installs.
//!
//! In: static binaries, components and the checkout. Out: files and an OCI layout in one folder, and the
//! same in a registry if one is given. The same commit gives the same digests: times are the time of the
//! commit, and archives have no time, owner or mode of this machine.

mod chart;
mod dist;
pub(crate) mod licenses;
mod manifests;
mod publish;
mod sdk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use llsd_oci_layout::{Descriptor, ImageLayout};
use serde_json::Value;

use xtask::shell;

use crate::image::provenance::{self, Provenance, Subject};
use crate::image::source::Source;
use crate::image::{self, OperatorImage};
use crate::package::{self, archive, sbom};
use crate::plugin_artifacts::PluginArtifacts;
use crate::{artifact_index, olm, plugins};
use dist::Dist;

/// Where releases are published, unless `--registry` names another registry.
pub(crate) const REGISTRY: &str = "ghcr.io/llsd-project";
/// The repository of the image, below the registry.
const IMAGE: &str = "llsd";
/// The repository of the chart. Helm derives the name of the chart from it.
const CHART: &str = "charts/llsd";
/// The repository of the bundle for OLM.
const OLM: &str = "llsd-bundle";
/// The task, as provenance names it.
const TASK: &str = "cargo xtask release";

/// What a release is made from, and where it goes.
#[derive(clap::Args)]
pub struct Options {
    /// A static llsd binary and its Rust target; repeatable
    #[arg(long = "binary", value_name = "TARGET=FILE", value_parser = parse_binary, required = true)]
    binaries: Vec<(String, PathBuf)>,
    /// An llsd binary that this machine can run
    #[arg(long, value_name = "FILE")]
    llsd: PathBuf,
    /// The folder of the components
    #[arg(long, value_name = "FOLDER")]
    plugins: PathBuf,
    /// kubectl
    #[arg(long, value_name = "FILE")]
    kubectl: PathBuf,
    /// The folder to write to
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// Fail unless this tag is that of the version, and the checkout is unchanged
    #[arg(long)]
    tag: Option<String>,
    /// The registry, with a path if it needs one, that the artifacts are pushed to
    #[arg(long, value_name = "REF", requires = "crane")]
    registry: Option<String>,
    /// crane, which pushes
    #[arg(long, value_name = "FILE")]
    crane: Option<PathBuf>,
    /// The private key of cosign to sign with
    #[arg(long, value_name = "KEY", requires = "cosign")]
    sign: Option<String>,
    /// cosign, which signs
    #[arg(long, value_name = "FILE")]
    cosign: Option<PathBuf>,
}

fn parse_binary(text: &str) -> anyhow::Result<(String, PathBuf)> {
    let (target, file) = text
        .split_once('=')
        .context("must have the form TARGET=FILE")?;
    Ok((target.to_owned(), file.into()))
}

/// What all artifacts of a release have in common.
struct Release<'a> {
    options: &'a Options,
    registry: &'a str,
    metadata: Value,
    version: String,
    source: Source,
    sbom: String,
}

/// Makes the release, and prints its artifacts with their sizes and digests.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let files = options.binaries.iter().map(|(_, file)| file);
    for file in files.chain([&options.llsd]) {
        ensure!(
            file.is_file(),
            "the binary {} was not found; build it, or leave out --binary",
            file.display()
        );
    }
    let metadata = sbom::metadata()?;
    let registry = options.registry.as_deref().unwrap_or(REGISTRY);
    let release = Release {
        options,
        registry: registry.trim_end_matches('/'),
        version: sbom::version(&metadata)?,
        sbom: sbom::cyclonedx(&metadata, sbom::LLSD)?,
        metadata,
        source: Source::of_checkout()?,
    };
    if let Some(tag) = &options.tag {
        check_tag(tag, &release.version, &release.source)?;
    }
    let mut dist = Dist::create(&options.output)?;
    let image = release.write_layout(&mut dist)?;
    release.write_files(&mut dist, &image)?;
    if let (Some(crane), Some(_)) = (&options.crane, &options.registry) {
        progress(&format!("push to {}", release.registry));
        publish::push(crane, &dist.layout(), release.registry)?;
    }
    if let (Some(cosign), Some(key)) = (&options.cosign, &options.sign) {
        progress("sign with cosign");
        let registry = options.registry.is_some().then_some(release.registry);
        publish::sign(cosign, key, registry, &dist)?;
    }
    print!("{}", dist.table());
    Ok(())
}

/// A tag promises that the sources are those of the commit.
fn check_tag(tag: &str, version: &str, source: &Source) -> anyhow::Result<()> {
    ensure!(
        tag == format!("v{version}"),
        "the tag \"{tag}\" is not v{version}, the version in Cargo.toml; correct one of them"
    );
    ensure!(
        source.revision.is_some(),
        "the checkout has uncommitted changes, or is not a git repository; commit or remove them"
    );
    Ok(())
}

impl Release<'_> {
    /// Writes the OCI layout, and returns the image.
    fn write_layout(&self, dist: &mut Dist) -> anyhow::Result<Descriptor> {
        let mut layout = ImageLayout::create(&dist.layout(), self.source.time)?;
        progress("image of the operator");
        let image = self.write_image(&mut layout)?;
        dist.add_artifact(&self.name(IMAGE), &image)?;
        progress("chart");
        let chart = chart::archive(&format!("{}/{IMAGE}", self.registry), &image.digest)?;
        let written = chart::write(&mut layout, &self.name(CHART), &chart, &self.source)?;
        self.add_provenance(&mut layout, CHART, &written)?;
        dist.add_artifact(&self.name(CHART), &written)?;
        dist.add_file(&format!("llsd-chart-{}.tgz", self.version), chart)?;
        progress("bundle for OLM");
        let operator = format!("{}/{IMAGE}@{}", self.registry, image.digest);
        let bundle = olm::write(&mut layout, &self.name(OLM), &operator, &self.source)?;
        self.add_provenance(&mut layout, OLM, &bundle)?;
        dist.add_artifact(&self.name(OLM), &bundle)?;
        let artifacts = PluginArtifacts {
            llsd: &self.options.llsd,
            components: &self.options.plugins,
            registry: self.registry,
            version: &self.version,
            metadata: &self.metadata,
            source: &self.source,
            task: TASK,
        };
        for plugin in plugins::all()? {
            progress(&format!("plugin {}", plugin.name));
            let written = artifacts.write(&mut layout, &plugin)?;
            dist.add_artifact(&self.name(&plugin.repository()), &written)?;
        }
        layout.finish()?;
        let index = artifact_index::write(&dist.layout(), "oci")?;
        dist.add_file(artifact_index::FILE, index)?;
        Ok(image)
    }

    /// Writes the image for every target, and the index of them.
    fn write_image(&self, layout: &mut ImageLayout) -> anyhow::Result<Descriptor> {
        let mut images = Vec::new();
        for (target, binary) in &self.options.binaries {
            let image = OperatorImage {
                program: &std::fs::read(binary)?,
                target,
                version: &self.version,
                source: &self.source,
                sbom: &self.sbom,
                repository: &format!("{}/{IMAGE}", self.registry),
            };
            let (config, layer) = image.content(layout)?;
            let written = layout.image_manifest(&config, &[layer])?;
            image.add_documents(layout, &written)?;
            images.push((image.platform(), written));
        }
        let annotations = image::labels(&self.version, &self.source);
        let index = layout.image_index(&self.name(IMAGE), &images, &annotations)?;
        image::add_referrer(layout, &index, image::SBOM, &self.sbom, &self.source)?;
        self.add_provenance(layout, IMAGE, &index)?;
        Ok(index)
    }

    fn add_provenance(
        &self,
        layout: &mut ImageLayout,
        repository: &str,
        subject: &Descriptor,
    ) -> anyhow::Result<()> {
        let name = format!("{}/{repository}", self.registry);
        let statement = self.provenance(&[Subject::new(&name, &subject.digest)])?;
        image::add_referrer(
            layout,
            subject,
            provenance::MEDIA_TYPE,
            &statement,
            &self.source,
        )
    }

    /// Writes the archives and documents, and their checksums last.
    fn write_files(&self, dist: &mut Dist, image: &Descriptor) -> anyhow::Result<()> {
        let version = &self.version;
        progress("install.yaml");
        let name = format!("{}/{IMAGE}", self.registry);
        let install = manifests::install(&self.options.kubectl, &name, &image.digest)?;
        dist.add_file("install.yaml", install.into_bytes())?;
        let notes = notes(&read("CHANGELOG.md")?, version)?;
        dist.add_file("NOTES.md", notes.into_bytes())?;
        let licenses = licenses::text(&self.metadata)?;
        for (target, binary) in &self.options.binaries {
            let name = format!("llsd-{version}-{target}");
            progress(&name);
            let contents = package::Contents {
                binary,
                runnable: &self.options.llsd,
                components: &self.options.plugins,
                sbom: &self.sbom,
                licenses: &licenses,
            };
            let bytes = archive::write(&archive::below(&name, contents.entries()?))?;
            dist.add_file(&format!("{name}.tar.gz"), bytes)?;
        }
        progress("SDK");
        let name = format!("llsd-sdk-{version}");
        let bytes = archive::write(&archive::below(&name, sdk::entries()?))?;
        dist.add_file(&format!("{name}.tar.gz"), bytes)?;
        let sbom = self.sbom.clone().into_bytes();
        dist.add_file(&format!("llsd-{version}.cdx.json"), sbom)?;
        let subjects: Vec<Subject> = dist
            .files()
            .map(|(name, digest)| Subject::new(name, digest))
            .collect();
        let statement = self.provenance(&subjects)?.into_bytes();
        dist.add_file(&format!("llsd-{version}.intoto.json"), statement)?;
        dist.add_checksums()
    }

    fn provenance(&self, subjects: &[Subject]) -> anyhow::Result<String> {
        let provenance = Provenance {
            task: TASK,
            target: None,
            source: &self.source,
        };
        provenance.statement(subjects)
    }

    /// Repository and tag, below the registry.
    fn name(&self, repository: &str) -> String {
        format!("{repository}:{}", self.version)
    }
}

fn progress(what: &str) {
    eprintln!("==> {what}");
}

/// The section of the changelog about `version`, or about what is not released yet.
fn notes(changelog: &str, version: &str) -> anyhow::Result<String> {
    let section = |title: &str| {
        let (_, rest) = changelog.split_once(&format!("\n## [{title}]"))?;
        let (_, body) = rest.split_once('\n')?;
        let body = body.split_once("\n## [").map_or(body, |(body, _)| body);
        Some(format!("{}\n", body.trim()))
    };
    section(version)
        .or_else(|| section("Unreleased"))
        .with_context(|| format!("CHANGELOG.md has no section [{version}] or [Unreleased]"))
}

/// A file of the checkout as text.
fn read(path: impl AsRef<Path>) -> anyhow::Result<String> {
    let path = shell::root().join(path);
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

/// Annotations of an artifact of this project.
fn annotations(source: &Source, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let created = source.created();
    let own = [
        ("source", image::source::URL),
        ("licenses", "Apache-2.0"),
        ("created", created.as_str()),
    ];
    let all = own.iter().chain(more);
    all.map(|(key, value)| {
        (
            format!("org.opencontainers.image.{key}"),
            (*value).to_owned(),
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_are_the_section_of_the_version() {
        let changelog =
            "# Changelog\n\n## [Unreleased]\n\n- next\n\n## [1.0.0] - 2026-01-01\n\n- first\n";
        assert_eq!(notes(changelog, "1.0.0").unwrap(), "- first\n");
        assert_eq!(notes(changelog, "1.1.0").unwrap(), "- next\n");
        assert!(notes("# Changelog\n", "1.0.0").is_err());
    }

    #[test]
    fn a_tag_must_be_that_of_an_unchanged_checkout() {
        let source = |revision: Option<&str>| Source {
            revision: revision.map(str::to_owned),
            time: 0,
        };
        assert!(check_tag("v1.2.3", "1.2.3", &source(Some("abc"))).is_ok());
        let error = check_tag("v1.2.4", "1.2.3", &source(Some("abc"))).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the tag \"v1.2.4\" is not v1.2.3")
        );
        assert!(check_tag("v1.2.3", "1.2.3", &source(None)).is_err());
    }
}
