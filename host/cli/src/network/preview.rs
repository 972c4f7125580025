//! `llsd preview`: shows what the operator would change in the cluster, without changing anything.

use std::path::PathBuf;

use anyhow::Context;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use llsd_api::{API_VERSION_V1ALPHA2, Distribution, escape_line};
use llsd_controller::ObjectChange;
use llsd_render::yaml;
use serde_json::Value;

use crate::network::cluster::distribution;
use crate::network::operator_settings::OperatorOptions;
use crate::{Exit, files, output, text_diff};

/// The field manager of dry-run requests; nothing is stored with this name.
const FIELD_MANAGER: &str = "llsd-preview";

/// Arguments of `preview`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of a resource in the cluster
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// File with the resource to preview, or `-` for standard input
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        conflicts_with = "name"
    )]
    file: Option<PathBuf>,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// Prints a diff for each object that would change. Rejects if there is one, like `kubectl diff`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    arguments.operator.run(async |client, previewer| {
        let resource = match (&arguments.name, &arguments.file) {
            (Some(name), _) => distribution(&client, name).await?,
            (None, Some(file)) => {
                let mut resources = files::distributions(file)?;
                anyhow::ensure!(
                    resources.len() == 1,
                    "{} contains {} resources; preview them one at a time",
                    file.display(),
                    resources.len()
                );
                as_applied(&client, resources.remove(0)).await?
            }
            (None, None) => anyhow::bail!("pass the name of a resource, or a file with --filename"),
        };
        let previewed = previewer.preview(&resource).await?;
        let changed: Vec<String> = previewed.objects.iter().filter_map(describe).collect();
        if changed.is_empty() {
            output::print_note(&format!(
                "{}: none of {} objects would change",
                resource.name_any(),
                previewed.objects.len()
            ));
            return Ok(Exit::Success);
        }
        output::print_styled(&changed.join("\n"));
        Ok(Exit::Rejected)
    })
}

/// The resource as the API server would store it, after merging, defaulting and admission.
async fn as_applied(client: &Client, object: Value) -> anyhow::Result<Distribution> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    anyhow::ensure!(
        version == API_VERSION_V1ALPHA2,
        "apiVersion: is {version:?}, must be {API_VERSION_V1ALPHA2:?}; convert the file with `llsd convert`"
    );
    let name = object["metadata"]["name"]
        .as_str()
        .context("metadata.name: is missing; set it")?
        .to_owned();
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => namespace.to_owned(),
        None => client.default_namespace().to_owned(),
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).dry_run().force();
    Api::<Distribution>::namespaced(client.clone(), &namespace)
        .patch(&name, &parameters, &Patch::Apply(&object))
        .await
        .context("the API server rejected the resource")
}

/// The change of one object as a diff, if there is one.
pub(super) fn describe(change: &ObjectChange) -> Option<String> {
    let ObjectChange {
        kind,
        name,
        before,
        after,
    } = change;
    let text = |object: &Option<Value>| object.as_ref().map(yaml::write).unwrap_or_default();
    let difference = text_diff::unified(&text(before), &text(after));
    let verb = match (before, after) {
        (None, _) => "would be created",
        (_, None) => "would be deleted",
        _ => "would change",
    };
    (!difference.is_empty()).then(|| {
        format!(
            "{} {}: {verb}\n{difference}",
            escape_line(kind),
            escape_line(name)
        )
    })
}
