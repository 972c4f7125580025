//! What the operator of a cluster works with, as far as whoever looks ahead may read it.
//!
//! In: what the operator was started with. Out: its plugins and settings, read as a replica reads them
//! that starts now, and what could not be read. Nothing is written.

use std::sync::Arc;

use kube::Client;
use llsd_plugin::{Host, Plugin};
use llsd_registry::{Keyring, Registry, chain};
use llsd_render::objects::Cluster;
use tokio::sync::watch;

use crate::configuration::{Configuration, Registries};
use crate::gather::ask;
use crate::images::Images;
use crate::plugins::{Adoption, Plugins};

/// What an operator was started with; the names are those of [`Settings`](crate::Settings).
pub struct OutlookSettings {
    /// The cluster.
    pub client: Client,
    /// Schema adapters and provider packs; those that come first are asked first.
    pub plugins: Vec<Plugin>,
    /// Loads the plugins that `SchemaPlugin`s have in use.
    pub host: Host,
    /// Label selector of the `SchemaPlugin`s that the operator serves; all of them when absent.
    pub plugin_selector: Option<String>,
    /// The operator's own namespace.
    pub home: String,
    /// How images are read.
    pub registry: Registry,
    /// Credentials to try after those of a resource.
    pub keyring: Keyring,
}

/// What an operator works with.
pub struct Outlook {
    pub(super) client: Client,
    pub(super) plugins: Plugins,
    pub(super) configuration: Configuration,
    pub(super) cluster: Cluster,
    pub(super) images: Images,
    unknown: Vec<String>,
}

impl Outlook {
    /// Reads all that may be read. Where the operator's settings may not, there are none; a plugin that
    /// cannot be had is missing; a cluster that does not say what it offers is an ordinary one.
    pub async fn read(settings: OutlookSettings) -> Result<Self, llsd_registry::Error> {
        let OutlookSettings {
            client,
            plugins,
            host,
            plugin_selector,
            home,
            registry,
            keyring,
        } = settings;
        let mut unknown = Vec::new();
        let configuration = match Configuration::at_start(&client, &home).await {
            Ok(configuration) => configuration,
            Err(error) => {
                unknown.push(format!("the operator's settings: {}", chain(&error)));
                Configuration::without_config_map()
            }
        };
        let cluster = match ask(&client).await {
            Ok(cluster) => cluster,
            Err(error) => {
                unknown.push(format!("what the cluster offers: {}", chain(&error)));
                Cluster::default()
            }
        };
        let registries = Arc::new(Registries::new(registry));
        if let Ok(mirrors) = configuration.mirrors() {
            registries.redirect(mirrors.value)?;
        }
        let plugins = Plugins::new(plugins, watch::Sender::new(Arc::default()));
        let adoption = Adoption {
            client: &client,
            host: &host,
            namespace: &home,
            plugins: &plugins,
        };
        match adoption.all(plugin_selector.as_deref()).await {
            Ok(problems) => unknown.extend(problems),
            Err(error) => unknown.push(format!("the SchemaPlugins: {}", chain(&error))),
        }
        Ok(Self {
            images: Images::new(client.clone(), registries, keyring),
            client,
            plugins,
            configuration,
            cluster,
            unknown,
        })
    }

    /// What the operator knows and could not be read here, each with the reason.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }
}
