//! `llsd plugin build`: from a crate to a component.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{Verdict, talk};

/// Which crate.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder of the plugin crate
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Where to write the component; by default <crate>/target/<folder name>.wasm
    #[arg(long, short)]
    output: Option<PathBuf>,
}

/// Builds, wraps and writes.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let folder = arguments
        .folder
        .canonicalize()
        .with_context(|| format!("no folder {}", arguments.folder.display()))?;
    let target = folder.join("target");
    let component = llsd_componentize::build(&folder, &target)?;
    let name = folder.file_name().unwrap_or_else(|| "plugin".as_ref());
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| target.join(name).with_added_extension("wasm"));
    write(&output, &component)?;
    talk::remark(&format!(
        "{}: {} KiB",
        output.display(),
        component.len().div_ceil(1024)
    ));
    Ok(Verdict::Done)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("could not write {}", path.display()))
}
