//! Loads the state of the operator, as far as the user may read it.
//!
//! In: the options of the operator. Out: its plugins and settings, loaded as by a replica that starts
//! now, and the parts that could not be read. Nothing is written.

use std::sync::Arc;

use kube::Client;
use llsd_plugin::{Host, Plugin};
use llsd_registry::{Keyring, Registry, chain};
use llsd_render::objects::Cluster;
use tokio::sync::watch;

use crate::active_plugins::ActivePlugins;
use crate::images::{Images, Registries};
use crate::plugins::Restorer;
use crate::process::discover_once;
use crate::settings::Settings;

/// The options of the operator, with the same names as in [`Options`](crate::Options).
pub struct PreviewOptions {
    /// The Kubernetes client.
    pub client: Client,
    /// The built-in schema adapters and provider packs, in the order in which they are tried.
    pub plugins: Vec<Plugin>,
    /// Loads the plugins of `SchemaPlugin`s.
    pub host: Host,
    /// Label selector of the `SchemaPlugin`s that the operator serves; all if `None`.
    pub plugin_selector: Option<String>,
    /// The operator's own namespace.
    pub operator_namespace: String,
    /// The registry client.
    pub registry: Registry,
    /// Credentials that are tried after those of a resource.
    pub keyring: Keyring,
}

/// Computes previews with the state of the operator.
pub struct Previewer {
    pub(super) client: Client,
    pub(super) plugins: ActivePlugins,
    pub(super) settings: Settings,
    pub(super) cluster: Cluster,
    pub(super) images: Images,
    unreadable: Vec<String>,
}

impl Previewer {
    /// Loads the state of the operator. If the settings cannot be read, the defaults are used; a plugin
    /// that cannot be read is left out; if discovery fails, the cluster has no optional APIs.
    pub async fn load(settings: PreviewOptions) -> Result<Self, llsd_registry::Error> {
        let PreviewOptions {
            client,
            plugins,
            host,
            plugin_selector,
            operator_namespace,
            registry,
            keyring,
        } = settings;
        let mut unreadable = Vec::new();
        let settings = match Settings::load(&client, &operator_namespace).await {
            Ok(settings) => settings,
            Err(error) => {
                unreadable.push(format!("the operator's settings: {}", chain(&error)));
                Settings::without_config_map()
            }
        };
        let cluster = match discover_once(&client).await {
            Ok(cluster) => cluster,
            Err(error) => {
                unreadable.push(format!(
                    "the optional APIs of the cluster: {}",
                    chain(&error)
                ));
                Cluster::default()
            }
        };
        let registries = Arc::new(Registries::new(registry));
        if let Ok(mirrors) = settings.mirrors() {
            registries.set_mirrors(mirrors.value)?;
        }
        let plugins = ActivePlugins::new(plugins, watch::Sender::new(Arc::default()));
        let restorer = Restorer {
            client: &client,
            host: &host,
            namespace: &operator_namespace,
            plugins: &plugins,
        };
        match restorer.restore_all(plugin_selector.as_deref()).await {
            Ok(problems) => unreadable.extend(problems),
            Err(error) => unreadable.push(format!("the SchemaPlugins: {}", chain(&error))),
        }
        Ok(Self {
            images: Images::new(client.clone(), registries, keyring),
            client,
            plugins,
            settings,
            cluster,
            unreadable,
        })
    }

    /// The parts of the state that could not be read, each with the reason.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }
}
