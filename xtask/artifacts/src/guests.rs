//! `cargo xtask plugins`: every adapter as a component.

use std::path::PathBuf;

use anyhow::Context;

use xtask::shell;

/// Every plugin crate under `plugins/`; the last is a provider pack, the others schema adapters.
pub const NAMES: [&str; 5] = [
    "llama-stack-0.7",
    "llama-stack-0.4",
    "llama-stack-0.2",
    "ogx",
    "example-pack",
];

/// Builds all components to `target/plugins/<name>.wasm` and answers where they are.
pub fn build_all() -> anyhow::Result<PathBuf> {
    let folder = shell::root().join("target/plugins");
    std::fs::create_dir_all(&folder)?;
    for name in NAMES {
        let crate_folder = shell::root().join("plugins").join(name);
        let component = llsd_componentize::build(&crate_folder, &shell::target().join("guests"))
            .with_context(|| format!("adapter {name}"))?;
        let file = folder.join(format!("{name}.wasm"));
        std::fs::write(&file, &component)?;
        eprintln!("    {name}: {} KiB", component.len().div_ceil(1024));
    }
    Ok(folder)
}
