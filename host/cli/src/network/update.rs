//! `llsd update` and `llsd undo`: ask the operator, with an annotation, to take what is available or to
//! go back.

use anyhow::Context;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use llsd_api::{Distribution, labels};
use llsd_controller::{Change, Preview, Previewer};
use serde_json::json;

use crate::network::cluster::distribution;
use crate::network::operator_settings::OperatorOptions;
use crate::network::preview::describe;
use crate::progress::Progress;
use crate::{Exit, output};

/// The field manager of the annotation.
const FIELD_MANAGER: &str = "llsd-cli";

/// Arguments of `update`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of the resources
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// Every resource of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Only show what would change. Exits with 1 if something would
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// Arguments of `undo`.
#[derive(clap::Args)]
pub(crate) struct UndoArguments {
    /// Name of the resource
    name: String,
    /// Only show what would change. Exits with 1 if something would
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// Shows what would change for each resource, and asks the operator for it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    arguments.operator.run(async |client, previewer| {
        let resources = match arguments.all {
            true => all(&client).await?,
            false => {
                let mut resources = Vec::new();
                for name in &arguments.names {
                    resources.push(distribution(&client, name).await?);
                }
                resources
            }
        };
        let request = Request {
            client: &client,
            previewer: &previewer,
            change: Change::Update,
            annotation: labels::UPDATE,
            is_dry_run: arguments.dry_run,
        };
        let mut exit = Exit::Success;
        let progress = Progress::of_items("updating", resources.len());
        for resource in resources {
            if request.send(&resource).await? && arguments.dry_run {
                exit = Exit::Rejected;
            }
            progress.advance();
        }
        Ok(exit)
    })
}

/// Shows what would change, and asks the operator to go back.
pub(crate) fn undo(arguments: &UndoArguments) -> anyhow::Result<Exit> {
    arguments.operator.run(async |client, previewer| {
        let resource = distribution(&client, &arguments.name).await?;
        let request = Request {
            client: &client,
            previewer: &previewer,
            change: Change::Undo,
            annotation: labels::UNDO,
            is_dry_run: arguments.dry_run,
        };
        let changes = request.send(&resource).await?;
        Ok(match changes && arguments.dry_run {
            true => Exit::Rejected,
            false => Exit::Success,
        })
    })
}

/// What the operator is asked for.
struct Request<'a> {
    client: &'a Client,
    previewer: &'a Previewer,
    change: Change,
    annotation: &'a str,
    is_dry_run: bool,
}

impl Request<'_> {
    /// Prints what would change, and annotates the resource. Returns whether something would change.
    async fn send(&self, resource: &Distribution) -> anyhow::Result<bool> {
        let name = resource.name_any();
        let before = self.previewer.preview(resource).await?;
        let previewed = self.previewer.preview_change(resource, self.change).await?;
        let changed: Vec<String> = previewed.objects.iter().filter_map(describe).collect();
        if changed.is_empty() {
            output::print_note(&format!("{name}: nothing would change"));
            return Ok(false);
        }
        if self.change == Change::Update {
            print_updates(&name, &before);
        }
        output::print(&changed.join("\n"));
        if !self.is_dry_run {
            let token = jiff::Timestamp::now().to_string();
            let change = json!({"metadata": {"annotations": {self.annotation: token}}});
            let parameters = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            Api::<Distribution>::namespaced(
                self.client.clone(),
                &resource.namespace().unwrap_or_default(),
            )
            .patch_metadata(&name, &parameters, &Patch::Merge(change))
            .await
            .with_context(|| format!("failed to annotate {name:?}"))?;
            output::print_note(&format!("{name}: requested"));
        }
        Ok(true)
    }
}

fn print_updates(name: &str, Preview { updates, .. }: &Preview) {
    for update in updates {
        output::print_note(&format!("{name}: {update}"));
    }
}

/// Every resource of the namespace.
async fn all(client: &Client) -> anyhow::Result<Vec<Distribution>> {
    let api = Api::<Distribution>::default_namespaced(client.clone());
    let listed = api
        .list(&ListParams::default())
        .await
        .context("failed to list the LlamaStackDistributions")?;
    Ok(listed.items)
}
