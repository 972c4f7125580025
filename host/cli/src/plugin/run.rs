//! `llsd plugin run`: calls one function of a plugin, with the operator's limits or others.

use std::path::PathBuf;

use anyhow::Context;
use llsd_plugin::{RawOutput, Request};

use crate::{Exit, files, output, plugin_loader};

/// Arguments of `plugin run`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File with the component
    file: PathBuf,
    /// Function to call
    #[arg(value_parser = Request::CALLS)]
    call: String,
    /// Request as JSON, or `-` for standard input; for detect `{"base": …, "hints": …}`
    #[arg(long, short, value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    limits: plugin_loader::LimitOptions,
}

/// Rejects if the plugin returns errors.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let input = match &arguments.input {
        Some(path) => serde_json::from_str(&files::text(path)?)
            .with_context(|| format!("{} is not valid JSON", path.display()))?,
        None => serde_json::json!({}),
    };
    let request = Request::from_json(&arguments.call, &input)?;
    let plugin = plugin_loader::load_file(&arguments.limits.host()?, &arguments.file)?;
    let response = plugin.call(&request)?;
    let json: serde_json::Value = serde_json::from_str(&response.output.to_json())?;
    output::print(&serde_json::to_string_pretty(&json)?);
    output::print_note(&format!(
        "{} fuel, {} KiB of memory, {:?}",
        response.fuel,
        response.memory_bytes / 1024,
        response.duration
    ));
    Ok(match &*response.output {
        RawOutput::Outcome(Err(_)) => Exit::Rejected,
        _ => Exit::Success,
    })
}
