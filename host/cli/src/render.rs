//! `llsd render`: generates the server configuration of a resource.

use std::path::PathBuf;
use std::sync::Arc;

use llsd_adapter_sdk::documents::{ModelId, ReadAs};
use llsd_api::checked::Checked;
use llsd_render::{Generated, PodVariable, SchemaChoice, ValueSource, yaml};
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::generation::{self, Outcome, Report};
use crate::recording::Recorder;
use crate::{Exit, files, objects, output, plugin_loader, text_diff};

/// Arguments of `render`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File with the resource, or `-` for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// Output: the configuration, its diff against the base configuration, the Kubernetes objects as
    /// YAML, or everything about the configuration as JSON
    #[arg(long, short, value_enum, default_value_t = ConfigFormat::Config)]
    output: ConfigFormat,
    /// Write the receipt and every request to a plugin to this new directory, for `llsd plugin replay`
    #[arg(long, value_name = "FOLDER")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    generation: generation::BaseOptions,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ConfigFormat {
    Config,
    Diff,
    Objects,
    Json,
}

/// Rejects if the resource is invalid.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut resources = files::distributions(&arguments.file)?;
    anyhow::ensure!(
        resources.len() == 1,
        "{} contains {} resources; render them one at a time",
        arguments.file.display(),
        resources.len()
    );
    let recorder = Arc::new(Recorder::default());
    let host = plugin_loader::host_with(&Caches::of_user(), Some(recorder.clone()))?;
    let plugins = plugin_loader::load(&host, &arguments.generation.plugins)?;
    let base = arguments.generation.load_base()?;
    let resource = resources.remove(0);
    let report = generation::run(resource, base.as_ref(), &arguments.generation, &plugins)?;
    if !report.diagnostics.is_empty() {
        output::print_report(&arguments.file.display().to_string(), &report);
    }
    if let Some(folder) = &arguments.requests {
        let Outcome::Generated(generated) = &report.outcome else {
            anyhow::bail!("nothing was generated, so there are no requests to write");
        };
        recorder.write(folder, &generated.receipt, &generated.yaml)?;
    }
    if let (ConfigFormat::Objects, Some(checked)) = (arguments.output, &report.checked) {
        return print_objects(arguments, checked, &report.outcome);
    }
    let after = match &report.outcome {
        Outcome::Generated(generated) => generated.yaml.clone(),
        Outcome::Unchanged if report.base.is_null() => {
            if let ConfigFormat::Json = arguments.output {
                output::print(&serde_json::to_string_pretty(&as_json(&report))?);
            }
            output::print_note(
                "the server uses the configuration of its image; nothing is generated",
            );
            return Ok(Exit::Success);
        }
        Outcome::Unchanged => yaml::write(&report.base),
        Outcome::Override { config_map, .. } => {
            output::print_note(&format!(
                "the configuration is taken from ConfigMap {config_map:?}; nothing is generated"
            ));
            return Ok(Exit::Success);
        }
        Outcome::Rejected(_) => {
            if let ConfigFormat::Json = arguments.output {
                output::print(&serde_json::to_string_pretty(&as_json(&report))?);
            }
            return Ok(Exit::Rejected);
        }
    };
    match arguments.output {
        ConfigFormat::Config | ConfigFormat::Objects => output::print(&after),
        ConfigFormat::Diff => {
            output::print_styled(&text_diff::unified(&yaml::write(&report.base), &after));
        }
        ConfigFormat::Json => output::print(&serde_json::to_string_pretty(&as_json(&report))?),
    }
    Ok(Exit::Success)
}

/// Prints the Kubernetes objects of a valid resource.
fn print_objects(
    arguments: &Arguments,
    checked: &Checked,
    outcome: &Outcome,
) -> anyhow::Result<Exit> {
    let Some(plan) = outcome.plan() else {
        return Ok(Exit::Rejected);
    };
    let distributions = arguments.generation.settings.distributions()?;
    match objects::as_yaml(checked, &plan, &distributions) {
        Ok(yaml) => {
            output::print(&yaml);
            Ok(Exit::Success)
        }
        Err(problems) => {
            output::print_note(&problems.to_string());
            Ok(Exit::Rejected)
        }
    }
}

fn as_json(report: &Report) -> Value {
    let findings = || -> Value {
        let all = report.diagnostics.iter();
        all.map(output::diagnostic_json).collect()
    };
    let generated = match &report.outcome {
        Outcome::Generated(generated) => generated,
        Outcome::Rejected(schema) => {
            return json!({
                "name": report.name,
                "generated": false,
                "schema": schema.as_ref().map(|schema| &schema.id),
                "schemaSource": schema.as_ref().map(|schema| schema.source.as_str()),
                "findings": findings(),
            });
        }
        Outcome::Unchanged | Outcome::Override { .. } => {
            return json!({ "name": report.name, "generated": false, "config": report.base });
        }
    };
    let Generated {
        yaml: _,
        config,
        variables,
        startup,
        counts,
        models,
        warnings: _,
        schema: SchemaChoice { id, source },
        releases: _,
        receipt,
        packs: _,
        // Each is also a warning.
        skipped: _,
    } = &**generated;
    json!({
        "name": report.name,
        "generated": true,
        "schema": id,
        "schemaSource": source.as_str(),
        "config": config,
        "variables": variables.iter().map(variable).collect::<Vec<_>>(),
        "startup": startup,
        "counts": counts,
        "models": models.iter().map(|ModelId { name, id }| json!({ "name": name, "id": id })).collect::<Vec<_>>(),
        "warnings": findings(),
        "receipt": {
            "plugin": receipt.plugin,
            "version": receipt.version,
            "component": receipt.component,
            "input": receipt.input,
            "output": receipt.output,
            "fuel": receipt.fuel,
        },
    })
}

/// A variable of the pod as JSON.
pub(crate) fn variable(
    PodVariable {
        name,
        source,
        read_as,
    }: &PodVariable,
) -> Value {
    let read_as = match read_as {
        ReadAs::ConvertedText => "convertedText",
        ReadAs::Text => "text",
        ReadAs::Number => "number",
    };
    let mut json = match source {
        ValueSource::Secret(reference) => {
            json!({ "secret": reference.secret, "key": reference.key })
        }
        ValueSource::Part(reference, part) => {
            json!({ "secret": reference.secret, "key": reference.key, "part": part })
        }
        ValueSource::Literal(value) => json!({ "value": value }),
    };
    json["name"] = name.as_str().into();
    json["readAs"] = read_as.into();
    json
}
