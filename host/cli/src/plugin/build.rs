//! `llsd plugin build`: builds a plugin crate as a component.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{Exit, output};

/// Arguments of `plugin build`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory of the plugin crate
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// File to write the component to; by default <crate>/target/<directory name>.wasm
    #[arg(long, short)]
    output: Option<PathBuf>,
}

/// Builds the crate and writes the component.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let folder = arguments
        .folder
        .canonicalize()
        .with_context(|| format!("directory {} not found", arguments.folder.display()))?;
    let target = folder.join("target");
    let component = llsd_componentize::build(&folder, &target)?;
    let name = folder.file_name().unwrap_or_else(|| "plugin".as_ref());
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| target.join(name).with_added_extension("wasm"));
    write(&output, &component)?;
    output::print_progress(&format!(
        "{}: {} KiB",
        output.display(),
        component.len().div_ceil(1024)
    ));
    Ok(Exit::Success)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("failed to write {}", path.display()))
}
