//! `llsd plugin test`: the conformance suite.

use std::path::PathBuf;

use crate::{Verdict, adapters, talk};

/// What to test.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The component
    file: PathBuf,
    /// Folder of the plugin's own recorded calls and answers
    #[arg(long, value_name = "FOLDER")]
    fixtures: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Exit 1 when a check fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let plugin = adapters::load_file(&adapters::host()?, &arguments.file)?;
    let report = llsd_conformance::run(&plugin, arguments.fixtures.as_deref());
    if arguments.json {
        talk::data(&serde_json::to_string_pretty(&report)?);
    } else {
        talk::data(&report.to_string());
    }
    Ok(if report.passed() {
        Verdict::Done
    } else {
        Verdict::Refused
    })
}
