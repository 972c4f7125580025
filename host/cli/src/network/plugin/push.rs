//! `llsd plugin push`: a component becomes an artifact that every operator can load.
//!
//! The manifest goes up first without a tag. It is then pulled by its digest and loaded as the
//! operator loads it, and the conformance suite runs on what came back. Only after that does the
//! tag point to it: who follows a tag never meets a plugin that does not work.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use llsd_adapter_sdk::documents::Description as About;
use llsd_plugin::{Host, Inspection, Origin, World};
use llsd_registry::{Description, Reference};
use llsd_render::adapter::Adapter;

use super::artifact;
use crate::network::registry::{Client, RegistryOptions, SignatureOptions};
use crate::talk::{self, Output};
use crate::{Verdict, adapters, files};

/// What to push, and where to.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The reference to write: registry/repository:tag
    reference: Reference,
    /// The component
    file: PathBuf,
    /// Folder of the plugin's own recorded calls and answers, replayed with the conformance suite
    #[arg(long, value_name = "FOLDER")]
    fixtures: Option<PathBuf>,
    /// An annotation of the manifest beside those taken from the component; may be repeated
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = parse_annotation)]
    annotations: Vec<(String, String)>,
    /// How to say what was pushed
    #[arg(long, short, value_enum, default_value_t = Output::Human)]
    output: Output,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Exit 1 when the component breaks a load rule or fails a check; the tag is left alone then.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let Arguments {
        reference, file, ..
    } = arguments;
    let host = adapters::host()?;
    let bytes = files::bytes(file)?;
    let about = match host.load(&bytes, Origin::Outside) {
        Ok(plugin) => plugin.description().clone(),
        Err(error) => {
            let error = anyhow::Error::new(error);
            talk::failure(&error.context(format!("{} does not load", file.display())));
            return Ok(Verdict::Refused);
        }
    };
    let description = describe(&host.inspect(&bytes), &about, arguments)?;
    let client = Client::new(&arguments.registries, reference)?;
    let digest = description.manifest_digest(&bytes)?;
    let pinned = reference.at(&digest);
    talk::remark(&format!("pushing {pinned}"));
    let push = |target| {
        let (registry, keyring) = (&client.registry, &client.keyring);
        client.wait(registry.push_plugin(target, &bytes, &description, keyring))
    };
    let pushed = push(&pinned)?;
    if !loads_back(&client, &host, &pinned, arguments)? {
        talk::remark(&format!(
            "{pinned} fails the conformance suite; the tag is left alone"
        ));
        return Ok(Verdict::Refused);
    }
    push(reference)?;
    match arguments.output {
        Output::Human => talk::data(&format!("{reference}@{digest}")),
        Output::Json => talk::data(&serde_json::to_string_pretty(&serde_json::json!({
            "reference": reference.to_string(),
            "pinned": pinned.to_string(),
            "manifestDigest": pushed.manifest_digest.to_string(),
            "componentDigest": pushed.layer_digest.to_string(),
        }))?),
    }
    Ok(Verdict::Done)
}

/// Pulls what was pushed through the operator's own loader, and runs the conformance suite on it.
fn loads_back(
    client: &Client,
    host: &Host,
    pinned: &Reference,
    arguments: &Arguments,
) -> anyhow::Result<bool> {
    let loaded = artifact::fetch(client, host, pinned, &SignatureOptions::none())?;
    talk::remark("running the conformance suite");
    let report = llsd_conformance::run(&loaded.plugin, arguments.fixtures.as_deref());
    if !report.passed() {
        talk::remark(&report.to_string());
    }
    Ok(report.passed())
}

/// What is written around the component. Everything comes from the component and the options, so
/// that the same push gives the same manifest.
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

/// The time of the source, by which builds are made reproducible.
fn source_date() -> anyhow::Result<Option<String>> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let time = text.trim().parse().ok().map(Timestamp::from_second);
    let time = time.and_then(Result::ok);
    let time = time.context("SOURCE_DATE_EPOCH is no number of seconds since 1970")?;
    Ok(Some(time.to_string()))
}

fn parse_annotation(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').context("write it as KEY=VALUE")?;
    ensure!(!key.is_empty(), "write it as KEY=VALUE");
    Ok((key.to_owned(), value.to_owned()))
}
