//! `llsd check`: everything that is wrong with resources, and what to look at.

use std::path::PathBuf;

use serde_json::json;

use crate::generation::{self, Outcome};
use crate::talk::{self, Output};
use crate::{Verdict, adapters, files};

/// What to check.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files with resources, `-` for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// How to say it
    #[arg(long, short, value_enum, default_value_t = Output::Human)]
    output: Output,
    #[command(flatten)]
    generation: generation::BaseOptions,
}

/// Exit 1 when a resource is refused.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let plugins = adapters::load(&adapters::host()?, &arguments.generation.adapters)?;
    let base = arguments.generation.given_base()?;
    let mut verdict = Verdict::Done;
    let mut all = Vec::new();
    for path in &arguments.files {
        for resource in files::distributions(path)? {
            let report = generation::run(resource, base.as_ref(), &arguments.generation, &plugins)?;
            let is_refused = matches!(report.outcome, Outcome::Refused);
            if is_refused {
                verdict = Verdict::Refused;
            }
            match arguments.output {
                Output::Human => talk::findings(
                    &format!("{} ({})", path.display(), report.name),
                    &report.found,
                ),
                Output::Json => all.push(json!({
                    "file": path,
                    "name": report.name,
                    "accepted": !is_refused,
                    "findings": report.found.iter().map(talk::as_json).collect::<Vec<_>>(),
                })),
            }
        }
    }
    if let Output::Json = arguments.output {
        talk::data(&serde_json::to_string_pretty(&all)?);
    }
    Ok(verdict)
}
