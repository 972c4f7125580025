//! Loads the plugins of a command: those given as files, then those built into the binary.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use llsd_plugin::{Host, HostConfig, Observer, Origin, Plugin};
use llsd_render::adapter::Adapter;

use crate::caches::Caches;
use crate::files;

/// Options of every command that generates a configuration.
#[derive(clap::Args)]
pub(crate) struct PluginOptions {
    /// Schema adapter or provider pack to use in addition to the built-in ones; repeatable
    #[arg(long = "plugin", value_name = "FILE")]
    plugins: Vec<PathBuf>,
}

/// A host that caches machine code in the user's cache directory.
pub(crate) fn host() -> anyhow::Result<Host> {
    host_with(&Caches::of_user(), None)
}

/// A host that caches machine code in `caches` and reports its calls to `observer`.
pub(crate) fn host_with(
    caches: &Caches,
    observer: Option<Arc<dyn Observer>>,
) -> anyhow::Result<Host> {
    Ok(Host::new(HostConfig {
        compile_cache: caches.compiled(),
        observer,
        ..HostConfig::default()
    })?)
}

/// Loads the plugins of `--plugin`, then the built-in ones. The order is their priority.
pub(crate) fn load(host: &Host, arguments: &PluginOptions) -> anyhow::Result<Vec<Plugin>> {
    let mut plugins = Vec::new();
    for path in &arguments.plugins {
        plugins.push(load_file(host, path)?);
    }
    for builtin in llsd_builtin::ADAPTERS {
        let plugin = host
            .load(builtin.component, Origin::BuiltIn)
            .with_context(|| format!("failed to load the built-in plugin {}", builtin.name))?;
        plugins.push(plugin);
    }
    Ok(plugins)
}

/// Loads a plugin from a file.
pub(crate) fn load_file(host: &Host, path: &Path) -> anyhow::Result<Plugin> {
    host.load(&files::bytes(path)?, Origin::External)
        .with_context(|| format!("failed to load the plugin {}", path.display()))
}

/// The plugins as the trait objects that `generate` takes.
pub(crate) fn as_adapters(plugins: &[Plugin]) -> Vec<&dyn Adapter> {
    plugins
        .iter()
        .map(|plugin| plugin as &dyn Adapter)
        .collect()
}
