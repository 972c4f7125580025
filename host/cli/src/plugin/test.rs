//! `llsd plugin test`: runs the conformance suite.

use std::path::PathBuf;

use crate::{Exit, output, plugin_loader};

/// Arguments of `plugin test`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File with the component
    file: PathBuf,
    /// Directory with the plugin's own recorded requests and responses
    #[arg(long, value_name = "FOLDER")]
    fixtures: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: plugin_loader::LimitOptions,
}

/// Rejects if a check fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let plugin = plugin_loader::load_file(&arguments.limits.host()?, &arguments.file)?;
    let report = llsd_conformance::run(&plugin, arguments.fixtures.as_deref());
    if arguments.json {
        output::print(&serde_json::to_string_pretty(&report)?);
    } else {
        output::print(&report.to_string());
    }
    Ok(if report.passed() {
        Exit::Success
    } else {
        Exit::Rejected
    })
}
