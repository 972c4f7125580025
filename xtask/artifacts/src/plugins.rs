//! `cargo xtask plugins`: builds every plugin as a component.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;

use xtask::shell;

/// The names of all plugins of this repository, which are also their directories in `plugins/`.
pub fn names() -> anyhow::Result<Vec<String>> {
    let list = shell::root().join("plugins/plugins.json");
    let text = std::fs::read_to_string(&list)
        .with_context(|| format!("failed to read {}", list.display()))?;
    let plugins: Vec<Value> = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a list of plugins", list.display()))?;
    let name = |plugin: &Value| {
        let name = plugin["name"].as_str().map(str::to_owned);
        name.with_context(|| format!("{}: a plugin has no name", list.display()))
    };
    plugins.iter().map(name).collect()
}

/// Builds all plugins to `target/plugins/<name>.wasm`, and returns that directory.
pub fn build_all() -> anyhow::Result<PathBuf> {
    let folder = shell::root().join("target/plugins");
    std::fs::create_dir_all(&folder)?;
    for name in names()? {
        let crate_folder = shell::root().join("plugins").join(&name);
        let component = llsd_componentize::build(&crate_folder, &shell::target().join("guests"))
            .with_context(|| format!("failed to build the plugin {name}"))?;
        let file = folder.join(format!("{name}.wasm"));
        std::fs::write(&file, &component)?;
        eprintln!("    {name}: {} KiB", component.len().div_ceil(1024));
    }
    Ok(folder)
}
