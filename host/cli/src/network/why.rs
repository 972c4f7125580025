//! `llsd why`: everything that explains the state of one resource, on one screen.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use llsd_api::Distribution;
use llsd_controller::Preview;

use crate::network::cluster::distribution;
use crate::network::outlook::OutlookOptions;
use crate::{Verdict, diff, talk};

const TITLE: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
/// The newest events tell what is going on; older ones how it came to be.
const EVENTS: usize = 8;

/// Which resource.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The resource
    name: String,
    #[command(flatten)]
    operator: OutlookOptions,
}

/// Prints the screen.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    arguments.operator.ask(async |client, outlook| {
        let resource = distribution(&client, &arguments.name).await?;
        let events = events(&client, &resource).await?;
        let previewed = outlook.preview(&resource).await;
        let mut screen = overview(&resource);
        screen += &conditions(&resource);
        screen += &list_events(&events);
        screen += &match previewed {
            Ok(Preview { config, .. }) => config.map_or_else(
                || "\nthe server runs the distribution's own configuration\n".to_owned(),
                |config| {
                    let changed = diff::unified(&config.base, &config.result);
                    format!(
                        "\n{TITLE}configuration, against the distribution's own{TITLE:#}\n{changed}"
                    )
                },
            ),
            Err(error) => {
                let error = anyhow::Error::new(error);
                let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
                format!(
                    "\n{TITLE}configuration{TITLE:#}\n{BAD}{}{BAD:#}\n",
                    causes.join("\n  because ")
                )
            }
        };
        talk::data(&screen);
        Ok(Verdict::Done)
    })
}

fn overview(resource: &Distribution) -> String {
    let status = resource.status.clone().unwrap_or_default();
    let phase = status.phase.map_or_else(
        || "not seen by an operator yet".to_owned(),
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
            let _ = writeln!(text, "  {name:<10}{value}");
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
            Some("the last change has not been acted on yet".to_owned()),
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
        let style = if status == "True" { GOOD } else { BAD };
        let _ = writeln!(text, "  {style}{status:<8}{style:#}{type_:<20}{reason}");
        if status != "True" && !message.is_empty() {
            let _ = writeln!(text, "          {}", message.replace('\n', "\n          "));
        }
    }
    text
}

/// Events about the resource, the oldest first.
async fn events(client: &Client, resource: &Distribution) -> anyhow::Result<Vec<Event>> {
    let about = format!("involvedObject.uid={}", resource.uid().unwrap_or_default());
    let mut events = Api::<Event>::default_namespaced(client.clone())
        .list(&ListParams::default().fields(&about))
        .await
        .context("the cluster did not list events")?
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
    for event in events.iter().skip(events.len().saturating_sub(EVENTS)) {
        let style = if event.type_.as_deref() == Some("Warning") {
            BAD
        } else {
            GOOD
        };
        let reason = event.reason.as_deref().unwrap_or_default();
        let message = event.message.as_deref().unwrap_or_default();
        let _ = writeln!(text, "  {style}{reason:<20}{style:#} {message}");
    }
    if events.is_empty() {
        text += "  none\n";
    }
    text
}
