//! `llsd why`: explains the state of one resource.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use llsd_api::{Distribution, escape_line, escape_lines};
use llsd_controller::{Change, Preview, Previewer};
use llsd_plugin::Observer;

use crate::network::cluster::distribution;
use crate::network::operator_settings::OperatorOptions;
use crate::recording::Recorder;
use crate::{Exit, output, text_diff};

const TITLE: Style = Style::new().bold();
const OK: Style = AnsiColor::Green.on_default();
const ERROR: Style = AnsiColor::Red.on_default();
/// How many events are shown, the newest ones.
const MAX_EVENTS: usize = 8;

/// Arguments of `why`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the resource
    name: String,
    /// Write the receipt and every request to a plugin to this new directory, for `llsd plugin replay`
    #[arg(long, value_name = "FOLDER")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// Prints status, conditions, events and the configuration as a diff against its base.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let recorder = Arc::new(Recorder::default());
    let observer: Arc<dyn Observer> = recorder.clone();
    let observer = Some(observer);
    arguments.operator.run_observed(observer, async |client, previewer| {
        let resource = distribution(&client, &arguments.name).await?;
        let events = events(&client, &resource).await?;
        let previewed = previewer.preview(&resource).await;
        let mut report = overview(&resource);
        report += &conditions(&resource);
        report += &list_events(&events);
        report += &match previewed {
            Ok(Preview { config, .. }) => config.map_or_else(
                || "\nthe server uses the configuration of the distribution unchanged\n".to_owned(),
                |config| {
                    let changed = text_diff::unified(&config.base, &config.result);
                    format!(
                        "\n{TITLE}configuration, compared with the base configuration{TITLE:#}\n{changed}"
                    )
                },
            ),
            Err(error) => {
                let error = anyhow::Error::new(error);
                let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
                format!(
                    "\n{TITLE}configuration{TITLE:#}\n{ERROR}{}{ERROR:#}\n",
                    escape_lines(&causes.join("\n  caused by: "))
                )
            }
        };
        output::print_styled(&report);
        if let Some(folder) = &arguments.requests {
            write_requests(&resource, &previewer, &recorder, folder).await?;
        }
        Ok(Exit::Success)
    })
}

/// Generates the configuration again, and writes the requests to its plugins.
async fn write_requests(
    resource: &Distribution,
    previewer: &Previewer,
    recorder: &Recorder,
    folder: &Path,
) -> anyhow::Result<()> {
    recorder.clear();
    let again = previewer.preview_change(resource, Change::Regeneration);
    let Some(config) = again.await?.config else {
        bail!("nothing is generated for this resource, so there are no requests to write");
    };
    recorder.write(folder, &config.receipt, &config.result)?;
    let status = resource.status.as_ref();
    let running =
        status.and_then(|status| status.config_generation.as_ref()?.output_digest.as_ref());
    if running.is_some_and(|running| *running != config.receipt.output) {
        output::print_warning(
            "the file of these requests is not the one in use: the resource, the plugin or the operator has changed since",
        );
    }
    Ok(())
}

fn overview(resource: &Distribution) -> String {
    let status = resource.status.clone().unwrap_or_default();
    let phase = status.phase.map_or_else(
        || "not reconciled yet".to_owned(),
        |phase| format!("{phase:?}"),
    );
    let mut text = format!(
        "{TITLE}{}/{}{TITLE:#} {phase}\n",
        resource.namespace().unwrap_or_default(),
        resource.name_any()
    );
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<10}{}", escape_line(&value));
        }
    };
    line("address", status.route_url.or(status.service_url));
    let resolved = status.resolved_distribution.unwrap_or_default();
    line("image", resolved.image);
    line(
        "base",
        resolved.config_source.map(|source| format!("{source:?}")),
    );
    let generation = status.config_generation.unwrap_or_default();
    line(
        "dialect",
        generation
            .schema
            .map(|schema| match generation.schema_reason {
                Some(reason) => format!("{schema} ({reason})"),
                None => schema,
            }),
    );
    line(
        "plugin",
        generation.plugin.map(|plugin| {
            let version = plugin.version.unwrap_or_default();
            format!("{} {version} ({})", plugin.name, plugin.digest)
        }),
    );
    line(
        "file",
        generation
            .config_map_name
            .map(|name| format!("ConfigMap {name}")),
    );
    if resource.metadata.generation != status.observed_generation {
        line(
            "note",
            Some("the last change is not reconciled yet".to_owned()),
        );
    }
    text
}

fn conditions(resource: &Distribution) -> String {
    let conditions = resource.status.iter().flat_map(|status| &status.conditions);
    let mut text = format!("\n{TITLE}conditions{TITLE:#}\n");
    for Condition {
        type_,
        status,
        reason,
        message,
        ..
    } in conditions
    {
        let style = if status == "True" { OK } else { ERROR };
        let _ = writeln!(text, "  {style}{status:<8}{style:#}{type_:<20}{reason}");
        if status != "True" && !message.is_empty() {
            let message = escape_lines(message).replace('\n', "\n          ");
            let _ = writeln!(text, "          {message}");
        }
    }
    text
}

/// Events of the resource, oldest first.
async fn events(client: &Client, resource: &Distribution) -> anyhow::Result<Vec<Event>> {
    let about = format!("involvedObject.uid={}", resource.uid().unwrap_or_default());
    let mut events = Api::<Event>::default_namespaced(client.clone())
        .list(&ListParams::default().fields(&about))
        .await
        .context("failed to list events")?
        .items;
    events.sort_by_key(|event| {
        let series = event
            .series
            .as_ref()
            .and_then(|series| series.last_observed_time.clone());
        series
            .or_else(|| event.event_time.clone())
            .map(|time| time.0)
    });
    Ok(events)
}

fn list_events(events: &[Event]) -> String {
    let mut text = format!("\n{TITLE}events{TITLE:#}\n");
    for event in events.iter().skip(events.len().saturating_sub(MAX_EVENTS)) {
        let style = if event.type_.as_deref() == Some("Warning") {
            ERROR
        } else {
            OK
        };
        let reason = escape_line(event.reason.as_deref().unwrap_or_default());
        let message = escape_lines(event.message.as_deref().unwrap_or_default());
        let _ = writeln!(text, "  {style}{reason:<20}{style:#} {message}");
    }
    if events.is_empty() {
        text += "  none\n";
    }
    text
}
