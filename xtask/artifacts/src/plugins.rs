//! `cargo xtask plugins`: builds every plugin as a component.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use xtask::shell;

/// A plugin of this repository.
pub struct Plugin {
    /// Its name, which is also its directory in `plugins/`.
    pub name: String,
    is_pack: bool,
}

impl Plugin {
    /// Its directory.
    pub fn folder(&self) -> PathBuf {
        shell::root().join("plugins").join(&self.name)
    }

    /// The repository of its OCI artifact, below the registry of a release.
    pub fn repository(&self) -> String {
        let kind = if self.is_pack { "packs" } else { "adapters" };
        format!("{kind}/{}", self.name)
    }

    /// The name of its crate. Names of crates have no dots.
    pub fn package(&self) -> String {
        format!("adapter-{}", self.name.replace('.', "-"))
    }
}

/// All plugins of this repository.
pub fn all() -> anyhow::Result<Vec<Plugin>> {
    let list = shell::root().join("plugins/plugins.json");
    let text = std::fs::read_to_string(&list)
        .with_context(|| format!("failed to read {}", list.display()))?;
    let plugins: Vec<Value> = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a list of plugins", list.display()))?;
    let plugin = |plugin: &Value| {
        let name = plugin["name"].as_str().map(str::to_owned);
        let name = name.with_context(|| format!("{}: a plugin has no name", list.display()))?;
        let is_pack = name.ends_with("-pack");
        Ok(Plugin { name, is_pack })
    };
    plugins.iter().map(plugin).collect()
}

/// Builds all plugins to `target/plugins/<name>.wasm`, and returns that directory.
pub fn build_all() -> anyhow::Result<PathBuf> {
    let folder = shell::root().join("target/plugins");
    build_to(&folder, &shell::target().join("guests"))?;
    Ok(folder)
}

/// Builds all plugins to `<folder>/<name>.wasm`. Cargo writes to `target`.
pub fn build_to(folder: &Path, target: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    for plugin in all()? {
        let name = &plugin.name;
        let component = llsd_componentize::build(&plugin.folder(), target)
            .with_context(|| format!("failed to build the plugin {name}"))?;
        let file = folder.join(format!("{name}.wasm"));
        std::fs::write(&file, &component)?;
        eprintln!("    {name}: {} KiB", component.len().div_ceil(1024));
    }
    Ok(())
}
