//! The plugins of the command line: those inside the binary and those given as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use llsd_plugin::{Host, HostConfig, Observer, Origin, Plugin};
use llsd_render::adapter::Adapter;

use crate::caches::Caches;
use crate::files;

/// Options of every command that generates.
#[derive(clap::Args)]
pub(crate) struct PluginOptions {
    /// A schema adapter or provider pack to use beside those built in; may be repeated
    #[arg(long = "plugin", value_name = "FILE")]
    plugins: Vec<PathBuf>,
}

/// A host for one command of one person.
pub(crate) fn host() -> anyhow::Result<Host> {
    host_with(&Caches::of_user(), None)
}

/// A host that keeps machine code in these caches, and tells somebody of its calls.
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

/// Loads the plugins given, which come first, and those built in.
pub(crate) fn load(host: &Host, arguments: &PluginOptions) -> anyhow::Result<Vec<Plugin>> {
    let mut plugins = Vec::new();
    for path in &arguments.plugins {
        plugins.push(load_file(host, path)?);
    }
    for builtin in llsd_builtin::ADAPTERS {
        let plugin = host
            .load(builtin.component, Origin::BuiltIn)
            .with_context(|| format!("the built-in plugin {} does not load", builtin.name))?;
        plugins.push(plugin);
    }
    Ok(plugins)
}

/// Loads one plugin from a file.
pub(crate) fn load_file(host: &Host, path: &Path) -> anyhow::Result<Plugin> {
    host.load(&files::bytes(path)?, Origin::External)
        .with_context(|| format!("{} does not load", path.display()))
}

/// The plugins as generation wants them.
pub(crate) fn as_adapters(plugins: &[Plugin]) -> Vec<&dyn Adapter> {
    plugins
        .iter()
        .map(|plugin| plugin as &dyn Adapter)
        .collect()
}
