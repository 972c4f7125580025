//! `llsd render`: a resource becomes the server's configuration.

use std::path::PathBuf;

use llsd_adapter_sdk::documents::{ModelId, ReadAs};
use llsd_render::{Generated, PodVariable, ValueSource, yaml};
use serde_json::{Value, json};

use crate::generation::{self, Outcome, Report};
use crate::{Verdict, adapters, diff, files, talk};

/// What to render.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The resource; `-` for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// What to print: the configuration, its difference from the base, or everything as JSON
    #[arg(long, short, value_enum, default_value_t = Output::Config)]
    output: Output,
    #[command(flatten)]
    generation: generation::BaseOptions,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    Config,
    Diff,
    Json,
}

/// Exit 1 when the resource is refused.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let mut resources = files::distributions(&arguments.file)?;
    anyhow::ensure!(
        resources.len() == 1,
        "{} holds {} resources; render them one at a time",
        arguments.file.display(),
        resources.len()
    );
    let plugins = adapters::load(&adapters::host()?, &arguments.generation.adapters)?;
    let base = arguments.generation.given_base()?;
    let resource = resources.remove(0);
    let report = generation::run(resource, base.as_ref(), &arguments.generation, &plugins)?;
    if !report.found.is_empty() {
        talk::findings(&arguments.file.display().to_string(), &report.found);
    }
    let after = match &report.outcome {
        Outcome::Generated(generated) => generated.yaml.clone(),
        Outcome::Unchanged => yaml::write(&report.base),
        Outcome::Override(config_map) => {
            talk::remark(&format!(
                "the configuration is what the ConfigMap {config_map:?} holds; nothing is generated"
            ));
            return Ok(Verdict::Done);
        }
        Outcome::Refused => return Ok(Verdict::Refused),
    };
    talk::data(&match arguments.output {
        Output::Config => after,
        Output::Diff => diff::unified(&yaml::write(&report.base), &after),
        Output::Json => serde_json::to_string_pretty(&as_json(&report))?,
    });
    Ok(Verdict::Done)
}

fn as_json(report: &Report) -> Value {
    let Outcome::Generated(generated) = &report.outcome else {
        return json!({ "name": report.name, "generated": false, "config": report.base });
    };
    let Generated {
        yaml: _,
        config,
        variables,
        startup,
        counts,
        models,
        warnings: _,
        schema,
        reason: _,
        receipt,
    } = &**generated;
    json!({
        "name": report.name,
        "generated": true,
        "schema": schema,
        "config": config,
        "variables": variables.iter().map(variable).collect::<Vec<_>>(),
        "startup": startup,
        "counts": counts,
        "models": models.iter().map(|ModelId { name, id }| json!({ "name": name, "id": id })).collect::<Vec<_>>(),
        "warnings": report.found.iter().map(talk::as_json).collect::<Vec<_>>(),
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

fn variable(
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
