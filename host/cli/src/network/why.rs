//! `llsd why`: answers why a resource is not ready and what to do, then shows the evidence.

mod answer;

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
use llsd_controller::{Change, Preview, PreviewError, Previewer};
use llsd_plugin::Observer;

use crate::network::cluster::distribution;
use crate::network::operator_settings::OperatorOptions;
use crate::page::Html;
use crate::recording::Recorder;
use crate::{Exit, files, output, text_diff};
use answer::{Answer, State};

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
    /// Also write the answer and the evidence as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
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
        let answer = answer_for(&resource);
        if let Some(path) = &arguments.html {
            let page = page(&resource, &answer, &events, &previewed);
            files::write(path, page)?;
            output::print_note(&format!("wrote {}", path.display()));
        }
        let mut report = headline(&resource, &answer);
        report += &overview(&resource);
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

/// The answer for a resource, from its status.
fn answer_for(resource: &Distribution) -> Answer {
    let status = resource.status.as_ref();
    let conditions = status.map_or(&[][..], |status| status.conditions.as_slice());
    let observed = status.and_then(|status| status.observed_generation);
    answer::answer(
        &resource.name_any(),
        conditions,
        resource.metadata.generation == observed,
    )
}

/// The answer on one line.
fn headline(resource: &Distribution, answer: &Answer) -> String {
    let (style, state) = match answer.state {
        State::Ready => (OK, "ready"),
        State::Waiting => (Style::new().bold(), "not ready yet"),
        State::Failed => (ERROR, "not ready"),
    };
    let mut line = format!(
        "{} is {style}{state}{style:#}: {}",
        escape_line(&resource.name_any()),
        escape_line(&answer.why)
    );
    if !answer.action.is_empty() {
        let _ = write!(line, " -> {}", escape_line(&answer.action));
    }
    line + "\n\n"
}

/// The same as a page.
fn page(
    resource: &Distribution,
    answer: &Answer,
    events: &[Event],
    previewed: &Result<Preview, PreviewError>,
) -> String {
    let name = format!(
        "{}/{}",
        resource.namespace().unwrap_or_default(),
        resource.name_any()
    );
    let (class, state) = match answer.state {
        State::Ready => ("good", "ready"),
        State::Waiting => ("warn", "not ready yet"),
        State::Failed => ("bad", "not ready"),
    };
    let mut html = Html::default();
    html.open("h1", "").text(&name).text(" is ");
    html.classed("span", class, state).close("h1");
    html.classed("p", "lead", &answer.why);
    if !answer.action.is_empty() {
        html.open("p", "lead")
            .text("What to do: ")
            .text(&answer.action)
            .close("p");
    }
    html.element("h2", "Conditions")
        .open("div", "scroll")
        .open("table", "");
    html.markup("<tr><th>condition</th><th>status</th><th>reason</th><th>message</th></tr>");
    for one in resource.status.iter().flat_map(|status| &status.conditions) {
        html.open("tr", "").element("td", &one.type_);
        html.classed(
            "td",
            if one.status == "True" { "good" } else { "bad" },
            &one.status,
        );
        html.element("td", &one.reason)
            .element("td", &one.message)
            .close("tr");
    }
    html.close("table").close("div").element("h2", "Events");
    html.open("div", "scroll").open("table", "");
    for event in events.iter().skip(events.len().saturating_sub(MAX_EVENTS)) {
        let is_warning = event.type_.as_deref() == Some("Warning");
        html.open("tr", "").classed(
            "td",
            if is_warning { "bad" } else { "good" },
            event.reason.as_deref().unwrap_or_default(),
        );
        html.element("td", event.message.as_deref().unwrap_or_default())
            .close("tr");
    }
    html.close("table")
        .close("div")
        .element("h2", "Configuration");
    match previewed {
        Ok(Preview {
            config: Some(config),
            ..
        }) => {
            html.classed("p", "muted", "Compared with the base configuration.");
            html.diff(&config.base, &config.result);
        }
        Ok(Preview { config: None, .. }) => {
            html.element(
                "p",
                "The server uses the configuration of the distribution unchanged.",
            );
        }
        Err(error) => {
            html.classed("p", "bad", &error.to_string());
        }
    }
    html.into_page(&format!("Why is {name} {state}?"))
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
