//! `llsd plugin push`: publishes a component as an OCI artifact.
//!
//! The manifest is first pushed without a tag. It is then pulled by digest, loaded as the operator
//! loads it, and tested with the conformance suite. The report, the provenance and the SBOM are attached
//! to it. The tag is written last, so that it never points to a broken plugin.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use llsd_adapter_sdk::documents::Description as About;
use llsd_conformance::Report;
use llsd_plugin::{Inspection, Origin, Plugin, World};
use llsd_registry::{Description, Digest, Reference};
use llsd_render::adapter::Adapter;

use super::artifact;
use super::documents::Documents;
use crate::network::registry::{Client, RegistryOptions, SignatureOptions};
use crate::output::{self, OutputFormat};
use crate::progress::Progress;
use crate::{Exit, files, plugin_loader};

/// Arguments of `plugin push`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Reference to push to: registry/repository:tag
    reference: Reference,
    /// File with the component
    file: PathBuf,
    /// Directory with the plugin's own recorded requests and responses, for the conformance suite
    #[arg(long, value_name = "FOLDER")]
    fixtures: Option<PathBuf>,
    /// Annotation of the manifest, in addition to those derived from the component; repeatable
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = parse_annotation)]
    annotations: Vec<(String, String)>,
    /// Where the source is, such as git+https://example.com/acme.git@COMMIT, for the provenance
    #[arg(long, value_name = "URI")]
    source: Option<String>,
    /// Who built the component, such as the URL of a CI run, for the provenance
    #[arg(long, value_name = "URI", requires = "source")]
    builder: Option<String>,
    /// File with the SBOM of the component, in the JSON form of CycloneDX
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
    /// Also write the predicates of the attached statements to this folder, to sign them with cosign attest
    #[arg(long, value_name = "FOLDER")]
    predicates: Option<PathBuf>,
    /// Move the tag even if it is a version that exists, or another version than the plugin's
    #[arg(long)]
    force: bool,
    /// Write the artifact and what is attached to it to this directory as an OCI layout instead of pushing
    #[arg(long, value_name = "FOLDER")]
    layout: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Human)]
    output: OutputFormat,
    #[command(flatten)]
    limits: plugin_loader::LimitOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Rejects, without writing the tag, if the component violates a load rule or fails the suite.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments {
        reference, file, ..
    } = arguments;
    let host = arguments.limits.host()?;
    let bytes = files::bytes(file)?;
    let loading = Progress::new("loading the plugin");
    let loaded = host.load(&bytes, Origin::External);
    drop(loading);
    let plugin = match loaded {
        Ok(plugin) => plugin,
        Err(error) => {
            let error = anyhow::Error::new(error);
            output::print_error(
                &error.context(format!("failed to load the plugin {}", file.display())),
            );
            return Ok(Exit::Rejected);
        }
    };
    let description = describe(&host.inspect(&bytes), plugin.description(), arguments)?;
    if let Some(folder) = &arguments.layout {
        let report = conformance(&plugin, arguments);
        if !report.passed() {
            output::print_note("the conformance suite failed; nothing was written");
            return Ok(Exit::Rejected);
        }
        let tag = reference.tag().unwrap_or("latest");
        let digest = description.manifest_digest(&bytes)?;
        let documents = documents(&report, arguments)?;
        let attached = documents.attachments(&reference.name(), &digest)?;
        llsd_registry::write_layout(folder, tag, &bytes, &description, &attached)?;
        print(arguments, &digest, &host.inspect(&bytes).digest)?;
        return Ok(Exit::Success);
    }
    let client = Client::new(&arguments.registries, reference)?;
    let digest = description.manifest_digest(&bytes)?;
    let pinned = reference.at(&digest);
    if !arguments.force
        && let Some(tag) = reference.tag()
        && let Some(problem) = tag_problem(
            tag,
            &plugin.description().version,
            || client.block_on(client.registry.tagged_digest(reference, &client.keyring)),
            &digest,
        )?
    {
        output::print_note(&problem);
        return Ok(Exit::Rejected);
    }
    let push = |target| {
        let _progress = Progress::new(&format!("pushing {target}"));
        let (registry, keyring) = (&client.registry, &client.keyring);
        client.block_on(registry.push_plugin(target, &bytes, &description, keyring))
    };
    let pushed = push(&pinned)?;
    let loaded = artifact::pull_and_load(
        &client,
        &host,
        &pinned,
        &SignatureOptions::none(),
        &arguments.limits.read()?,
    )?;
    let report = conformance(&loaded.plugin, arguments);
    if !report.passed() {
        output::print_note(&format!(
            "{pinned} failed the conformance suite; the tag was not written"
        ));
        return Ok(Exit::Rejected);
    }
    let documents = documents(&report, arguments)?;
    for document in documents.attachments(&reference.name(), &digest)? {
        let (registry, keyring) = (&client.registry, &client.keyring);
        client.block_on(registry.attach(&pinned, &document, keyring))?;
    }
    push(reference)?;
    print(arguments, &digest, &pushed.layer_digest.to_string())?;
    Ok(Exit::Success)
}

/// What is said about the artifact. Also writes the predicates, if asked for.
fn documents<'a>(report: &'a Report, arguments: &'a Arguments) -> anyhow::Result<Documents<'a>> {
    let documents = Documents {
        report,
        source: arguments.source.as_deref(),
        builder: arguments.builder.as_deref(),
        sbom: arguments.sbom.as_deref().map(files::bytes).transpose()?,
    };
    if let Some(folder) = &arguments.predicates {
        documents.write_predicates(folder)?;
    }
    Ok(documents)
}

/// Prints the digests of the artifact.
fn print(arguments: &Arguments, digest: &Digest, component: &str) -> anyhow::Result<()> {
    let reference = &arguments.reference;
    match arguments.output {
        OutputFormat::Human => output::print(&format!("{reference}@{digest}")),
        OutputFormat::Json => output::print(&serde_json::to_string_pretty(&serde_json::json!({
            "reference": reference.to_string(),
            "pinned": reference.at(digest).to_string(),
            "manifestDigest": digest.to_string(),
            "componentDigest": component,
        }))?),
    }
    Ok(())
}

/// Runs the conformance suite, and prints its report if the plugin fails.
fn conformance(plugin: &Plugin, arguments: &Arguments) -> Report {
    let _progress = Progress::new("running the conformance suite");
    let report = llsd_conformance::run(plugin, arguments.fixtures.as_deref());
    if !report.passed() {
        output::print_note(&report.to_string());
    }
    report
}

/// Why a tag must not be written without `--force`: it is a version, and either not that of the plugin
/// or already in use for another manifest. Users pin versions, so one that moves changes what they run.
fn tag_problem<E>(
    tag: &str,
    version: &str,
    current: impl FnOnce() -> Result<Option<Digest>, E>,
    digest: &Digest,
) -> Result<Option<String>, E> {
    let Some(stated) = version_of_tag(tag) else {
        return Ok(None);
    };
    // A tag cannot contain `+`.
    if stated != version.replace('+', "_") {
        return Ok(Some(format!(
            "the tag {tag} is not the plugin's version {version}; use the version as the tag, change the version in `describe`, or pass --force"
        )));
    }
    Ok(current()?.filter(|current| current != digest).map(|current| {
        format!(
            "the version {tag} is already published as {current}, with other content ({digest}); increase the version, or pass --force to move the tag"
        )
    }))
}

/// The version that a tag states: `1.2.3` or `v1.2.3`, with any suffix. Other tags, such as `latest` or
/// `1.2`, may move.
fn version_of_tag(tag: &str) -> Option<&str> {
    let version = tag.strip_prefix('v').unwrap_or(tag);
    let numbers = version.split(['-', '_']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = numbers.split('.').collect();
    (parts.len() == 3 && parts.into_iter().all(is_number)).then_some(version)
}

/// The metadata of the artifact. It depends only on the component and the options, so that pushing
/// twice writes the same manifest.
fn describe(
    inspection: &Inspection,
    about: &About,
    arguments: &Arguments,
) -> anyhow::Result<Description> {
    let contract = inspection.contract.as_deref().unwrap_or_default();
    let world = inspection.world.map(World::name);
    let target = world.map(|world| format!("llamastack:config-adapter/{world}@{contract}"));
    let ids = about.schemas.iter().map(|schema| schema.id.as_str());
    let mut annotations: BTreeMap<String, String> = [
        ("org.opencontainers.image.title", about.name.clone()),
        ("org.opencontainers.image.version", about.version.clone()),
        ("org.opencontainers.image.vendor", about.vendor.clone()),
        (
            "io.llamastack.plugin.world",
            target.clone().unwrap_or_default(),
        ),
        (
            "io.llamastack.plugin.schemas",
            ids.collect::<Vec<_>>().join(","),
        ),
        (
            "io.llamastack.plugin.component-digest",
            inspection.digest.clone(),
        ),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    annotations.extend(arguments.annotations.iter().cloned());
    Ok(Description {
        title: format!("{}.wasm", about.name),
        exports: inspection.exports.clone(),
        imports: inspection.imports.clone(),
        target,
        annotations,
        created: source_date()?,
    })
}

/// The creation time, from `SOURCE_DATE_EPOCH`. Unset, there is none, so that the push is reproducible.
fn source_date() -> anyhow::Result<Option<String>> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let time = text.trim().parse().ok().map(Timestamp::from_second);
    let time = time.and_then(Result::ok);
    let time = time.context("SOURCE_DATE_EPOCH must be the number of seconds since 1970")?;
    Ok(Some(time.to_string()))
}

fn parse_annotation(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text
        .split_once('=')
        .context("must have the form KEY=VALUE")?;
    ensure!(!key.is_empty(), "must have the form KEY=VALUE");
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn problem(tag: &str, version: &str, current: Option<&str>) -> Option<String> {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let Ok(problem) =
            tag_problem::<Infallible>(tag, version, || Ok(current.map(digest)), &digest("new"));
        problem
    }

    #[test]
    fn a_version_tag_is_the_version_of_the_plugin_and_does_not_move() {
        assert_eq!(problem("1.0.0", "1.0.0", None), None);
        assert_eq!(problem("v1.0.0", "1.0.0", None), None);
        assert_eq!(problem("1.0.0", "1.0.0", Some("new")), None);
        assert_eq!(problem("1.0.0_build.5", "1.0.0+build.5", None), None);
        let moved = problem("1.0.0", "1.0.0", Some("old")).unwrap();
        assert!(
            moved.contains("already published") && moved.contains("--force"),
            "{moved}"
        );
        let other = problem("1.0.1", "1.0.0", None).unwrap();
        assert!(
            other.contains("is not the plugin's version 1.0.0"),
            "{other}"
        );
        assert!(problem("1.0.0-rc.1", "1.0.0", None).is_some());
    }

    #[test]
    fn other_tags_may_move() {
        for tag in ["latest", "1", "1.0", "main-1.0.0", "1.0.x"] {
            assert_eq!(problem(tag, "2.0.0", Some("old")), None, "{tag}");
        }
    }
}
