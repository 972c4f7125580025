//! `llsd plugin replay`: repeats a recorded generation and compares it.

use std::path::PathBuf;

use anyhow::Context;
use llsd_plugin::{Plugin, Request};
use llsd_render::ENGINE;
use llsd_render::adapter::Adapter;

use crate::recording::{RecordedCall, Recording};
use crate::{Exit, output, plugin_loader};

/// Arguments of `plugin replay`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory that `llsd render --requests` or `llsd why --requests` wrote
    folder: PathBuf,
    #[command(flatten)]
    plugins: plugin_loader::PluginOptions,
    #[command(flatten)]
    limits: plugin_loader::LimitOptions,
}

/// Rejects if a call returns something else or uses other fuel than recorded.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let recording = Recording::read(&arguments.folder)?;
    let plugins = plugin_loader::load(&arguments.limits.host()?, &arguments.plugins)?;
    let mut differences = recording.contradictions()?;
    for (number, call) in recording.calls.iter().enumerate() {
        let plugin = find(&plugins, call)?;
        if let Some(difference) = compare(plugin, call)? {
            differences.push(format!(
                "call {}, {}: {difference}",
                number + 1,
                call.entry.call
            ));
        }
    }
    let receipt = &recording.receipt;
    if differences.is_empty() {
        output::print(&format!(
            "{} calls of {} {} ({}) returned the same bytes with the same fuel; the file is {}",
            recording.calls.len(),
            receipt.plugin,
            receipt.version,
            receipt.component,
            receipt.output
        ));
        return Ok(Exit::Success);
    }
    for difference in &differences {
        output::print(difference);
    }
    if receipt.engine != ENGINE {
        output::print_note(&format!(
            "{} generated this, and {ENGINE} replayed it: fuel can differ between releases",
            receipt.engine
        ));
    }
    Ok(Exit::Rejected)
}

/// The plugin of a call. It is found by digest, so another version is never used by mistake.
fn find<'p>(plugins: &'p [Plugin], call: &RecordedCall) -> anyhow::Result<&'p Plugin> {
    let wanted = &call.entry.component;
    plugins
        .iter()
        .find(|plugin| plugin.digest() == wanted)
        .with_context(|| {
            format!(
                "the component {wanted} of plugin {:?} is neither built in nor given; pass its file with --plugin",
                call.entry.plugin
            )
        })
}

/// How the call differs from its recording.
fn compare(plugin: &Plugin, call: &RecordedCall) -> anyhow::Result<Option<String>> {
    let RecordedCall {
        entry,
        request,
        answer,
    } = call;
    let request = Request::from_json(&entry.call, &serde_json::from_str(request)?)?;
    if request.digest() != entry.input {
        return Ok(Some(format!(
            "the recorded request was changed: its digest is {} instead of {}",
            request.digest(),
            entry.input
        )));
    }
    let response = plugin.call_uncached(&request)?;
    if response.output.to_json() != *answer {
        return Ok(Some("returned something else than recorded".to_owned()));
    }
    Ok((response.fuel != entry.fuel)
        .then(|| format!("used {} fuel instead of {}", response.fuel, entry.fuel)))
}
