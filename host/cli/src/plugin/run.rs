//! `llsd plugin run`: one call, JSON in and JSON out, under the operator's own limits.

use std::path::PathBuf;

use anyhow::Context;
use llsd_plugin::{RawOutput, Request};

use crate::{Verdict, adapters, files, talk};

/// Which call.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The component
    file: PathBuf,
    /// The function
    #[arg(value_parser = Request::CALLS)]
    call: String,
    /// Its request as JSON, `-` for standard input; for detect `{"base": …, "hints": …}`
    #[arg(long, short, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Exit 1 when the plugin answers with errors.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let input = match &arguments.input {
        Some(path) => serde_json::from_str(&files::text(path)?)
            .with_context(|| format!("{} is not JSON", path.display()))?,
        None => serde_json::json!({}),
    };
    let request = Request::from_json(&arguments.call, &input)?;
    let plugin = adapters::load_file(&adapters::host()?, &arguments.file)?;
    let called = plugin.call(&request)?;
    let answer: serde_json::Value = serde_json::from_str(&called.answer.to_json())?;
    talk::data(&serde_json::to_string_pretty(&answer)?);
    talk::remark(&format!(
        "{} fuel, {} KiB of memory, {:?}",
        called.fuel,
        called.memory_bytes / 1024,
        called.duration
    ));
    Ok(match &*called.answer {
        RawOutput::Outcome(Err(_)) => Verdict::Refused,
        _ => Verdict::Done,
    })
}
