//! `llsd preview`: what the operator would change in the cluster, and nothing changed.

use std::path::PathBuf;

use anyhow::Context;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use llsd_api::{API_VERSION_V1ALPHA2, Distribution};
use llsd_controller::ObjectChange;
use llsd_render::yaml;
use serde_json::Value;

use crate::network::cluster::distribution;
use crate::network::outlook::OutlookOptions;
use crate::{Verdict, diff, files, talk};

/// Who asks what an edit would become; nothing is stored under this name.
const FIELD_MANAGER: &str = "llsd-preview";

/// Of which resource.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A resource of the cluster
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// A resource as it would be applied; `-` for standard input
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        conflicts_with = "name"
    )]
    file: Option<PathBuf>,
    #[command(flatten)]
    operator: OutlookOptions,
}

/// Prints a difference for each object that would change; exit 1 when there is one.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    arguments.operator.ask(async |client, outlook| {
        let resource = match (&arguments.name, &arguments.file) {
            (Some(name), _) => distribution(&client, name).await?,
            (None, Some(file)) => {
                let mut resources = files::distributions(file)?;
                anyhow::ensure!(
                    resources.len() == 1,
                    "{} holds {} resources; preview them one at a time",
                    file.display(),
                    resources.len()
                );
                as_applied(&client, resources.remove(0)).await?
            }
            (None, None) => anyhow::bail!("name a resource, or a file with --filename"),
        };
        let previewed = outlook.preview(&resource).await?;
        let changed: Vec<String> = previewed.objects.iter().filter_map(describe).collect();
        if changed.is_empty() {
            talk::remark(&format!(
                "{}: nothing would change in {} objects",
                resource.name_any(),
                previewed.objects.len()
            ));
            return Ok(Verdict::Done);
        }
        talk::data(&changed.join("\n"));
        Ok(Verdict::Refused)
    })
}

/// What the API server would store: defaults, admission and merging are its own.
async fn as_applied(client: &Client, object: Value) -> anyhow::Result<Distribution> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    anyhow::ensure!(
        version == API_VERSION_V1ALPHA2,
        "the file is written in {version:?}; turn it into {API_VERSION_V1ALPHA2} with `llsd convert` first"
    );
    let name = object["metadata"]["name"]
        .as_str()
        .context("metadata.name: is missing; name the resource")?
        .to_owned();
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => namespace.to_owned(),
        None => client.default_namespace().to_owned(),
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).dry_run().force();
    Api::<Distribution>::namespaced(client.clone(), &namespace)
        .patch(&name, &parameters, &Patch::Apply(&object))
        .await
        .context("the API server would not take the resource")
}

/// The difference that one object would see, if any.
fn describe(change: &ObjectChange) -> Option<String> {
    let ObjectChange {
        kind,
        name,
        before,
        after,
    } = change;
    let text = |object: &Option<Value>| object.as_ref().map(yaml::write).unwrap_or_default();
    let difference = diff::unified(&text(before), &text(after));
    let verb = match (before, after) {
        (None, _) => "would be created",
        (_, None) => "would be deleted",
        _ => "would change",
    };
    (!difference.is_empty()).then(|| format!("{kind} {name}: {verb}\n{difference}"))
}
