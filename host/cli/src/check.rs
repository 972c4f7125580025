//! `llsd check`: validates resources and reports every problem.

use std::path::PathBuf;

use serde_json::json;

use crate::generation::{self, Outcome};
use crate::output::{self, OutputFormat};
use crate::{Exit, files, plugin_loader};

/// Arguments of `check`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File with resources, or `-` for standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Human)]
    output: OutputFormat,
    #[command(flatten)]
    generation: generation::BaseOptions,
}

/// Rejects if a resource is invalid.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let plugins = plugin_loader::load(&plugin_loader::host()?, &arguments.generation.plugins)?;
    let base = arguments.generation.load_base()?;
    let mut exit = Exit::Success;
    let mut all = Vec::new();
    for path in &arguments.files {
        for resource in files::distributions(path)? {
            let report = generation::run(resource, base.as_ref(), &arguments.generation, &plugins)?;
            let is_rejected = matches!(report.outcome, Outcome::Rejected(_));
            if is_rejected {
                exit = Exit::Rejected;
            }
            match arguments.output {
                OutputFormat::Human => {
                    let subject = format!("{} ({})", path.display(), report.name);
                    output::print_report(&subject, &report);
                }
                OutputFormat::Json => all.push(json!({
                    "file": path,
                    "name": report.name,
                    "accepted": !is_rejected,
                    "schema": report.outcome.schema().map(|schema| &schema.id),
                    "schemaSource": report.outcome.schema().map(|schema| schema.source.as_str()),
                    "findings": report.diagnostics.iter().map(output::diagnostic_json).collect::<Vec<_>>(),
                })),
            }
        }
    }
    if let OutputFormat::Json = arguments.output {
        output::print(&serde_json::to_string_pretty(&all)?);
    }
    Ok(exit)
}
