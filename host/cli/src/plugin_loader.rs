//! Loads the plugins of a command: those given as files, then those built into the binary.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use llsd_api::FieldPath;
use llsd_api::schema_plugin::PluginLimits;
use llsd_plugin::{Host, HostConfig, Limits, Observer, Origin, Plugin};
use llsd_render::adapter::Adapter;
use serde_json::Value;

use crate::caches::Caches;
use crate::files;
use crate::progress::Progress;

/// Options of every command that generates a configuration.
#[derive(clap::Args)]
pub(crate) struct PluginOptions {
    /// Schema adapter or provider pack to use in addition to the built-in ones; repeatable
    #[arg(long = "plugin", value_name = "FILE")]
    plugins: Vec<PathBuf>,
}

impl PluginOptions {
    /// The files of `--plugin`.
    #[cfg(feature = "network")]
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.plugins
    }
}

/// Limits of the plugins of a command.
#[derive(clap::Args)]
pub(crate) struct LimitOptions {
    /// File with limits, in the form of spec.limits of a SchemaPlugin, or a SchemaPlugin; by default the
    /// limits of the operator
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
}

impl LimitOptions {
    /// Reads the limits.
    pub(crate) fn read(&self) -> anyhow::Result<Limits> {
        let Some(path) = &self.limits else {
            return Ok(Limits::default());
        };
        read_limits(&files::text(path)?)
            .with_context(|| format!("{} has no valid limits", path.display()))
    }

    /// A host that loads plugins with these limits.
    pub(crate) fn host(&self) -> anyhow::Result<Host> {
        Ok(Host::new(HostConfig {
            compile_cache: Caches::of_user().compiled(),
            limits: self.read()?,
            ..HostConfig::default()
        })?)
    }
}

/// Reads limits from YAML, and rejects fields that do not exist: a limit with a typing error would
/// silently have its default.
fn read_limits(text: &str) -> anyhow::Result<Limits> {
    let document: Value = serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}"))?;
    let (limits, path) = if document["kind"] == "SchemaPlugin" {
        let limits = document["spec"]["limits"].clone();
        (limits, FieldPath::spec().field("limits"))
    } else {
        (document, FieldPath::root())
    };
    let stated: PluginLimits = match limits {
        Value::Null => PluginLimits::default(),
        Value::Object(fields) => {
            let known = PluginLimits::FIELDS;
            if let Some(unknown) = fields.keys().find(|field| !known.contains(&field.as_str())) {
                bail!(
                    "{}: no such limit; use one of: {}",
                    path.field(unknown),
                    known.join(", ")
                );
            }
            serde_json::from_value(Value::Object(fields))?
        }
        _ => bail!("the limits must be an object"),
    };
    Limits::granted(&stated, &path).map_err(|problem| anyhow!("{problem}"))
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
    let mut plugins = load_given(host, arguments)?;
    let progress = Progress::of_items("loading the built-in plugins", llsd_builtin::ADAPTERS.len());
    for builtin in llsd_builtin::ADAPTERS {
        let plugin = host
            .load_built_in(builtin.component, builtin.digest)
            .with_context(|| format!("failed to load the built-in plugin {}", builtin.name))?;
        plugins.push(plugin);
        progress.advance();
    }
    Ok(plugins)
}

/// Loads the plugins of `--plugin` only.
pub(crate) fn load_given(host: &Host, arguments: &PluginOptions) -> anyhow::Result<Vec<Plugin>> {
    let files = arguments.plugins.iter();
    files.map(|path| load_file(host, path)).collect()
}

/// Loads a plugin from a file.
pub(crate) fn load_file(host: &Host, path: &Path) -> anyhow::Result<Plugin> {
    let _progress = Progress::new(&format!("loading {}", path.display()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_plugins_have_the_digests_of_their_components() {
        for builtin in llsd_builtin::ADAPTERS {
            assert_eq!(
                builtin.digest,
                llsd_render::digest::of(builtin.component),
                "{}",
                builtin.name
            );
        }
    }

    #[test]
    fn limits_are_read_from_a_file_or_a_schema_plugin() {
        let expected = Limits {
            fuel: 5_000_000_000,
            component_bytes: 16 << 20,
            compile_memory_bytes: 1 << 30,
            ..Limits::default()
        };
        let bare = "fuel: 5000000000\ncomponent: 16Mi\ncompileMemory: 1Gi\n";
        assert_eq!(read_limits(bare).unwrap(), expected);
        let resource = "kind: SchemaPlugin\nspec:\n  reference: quay.io/acme/adapter:1\n  limits: {fuel: 5000000000, component: 16Mi, compileMemory: 1Gi}\n";
        assert_eq!(read_limits(resource).unwrap(), expected);
        let none = "kind: SchemaPlugin\nspec: {reference: quay.io/acme/adapter:1}\n";
        assert_eq!(read_limits(none).unwrap(), Limits::default());
    }

    #[test]
    fn a_limit_that_does_not_exist_is_rejected_by_its_name() {
        let message = |text| read_limits(text).unwrap_err().to_string();
        assert!(
            message("memories: 8").starts_with("memories: no such limit; use one of: fuel, memory")
        );
        let resource = "kind: SchemaPlugin\nspec: {limits: {fuel: 0}}\n";
        assert_eq!(
            message(resource),
            "spec.limits.fuel: 0 is out of range; use a number from 1 to 100000000000"
        );
    }
}
