//! What `preview` and `why` share: they know what the operator of the cluster knows, as far as the user
//! may read it, and say what they could not read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use kube::Client;
use kube::api::Api;
use llsd_api::DISTRIBUTION_CRD_NAME;
use llsd_controller::{Outlook, OutlookSettings};
use llsd_registry::Registry;

use crate::network::cluster::ClusterOptions;
use crate::network::registry::RegistryOptions;
use crate::{adapters, talk};

/// Where our manifests put the operator.
const USUAL_HOME: &str = "llsd-system";

/// Which cluster, and what its operator was started with.
#[derive(clap::Args)]
pub(crate) struct OutlookOptions {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// The operator's own namespace; by default the one that the definition of the resources leads to
    #[arg(long, value_name = "NAME")]
    operator_namespace: Option<String>,
    /// The operator serves only the SchemaPlugins with these labels
    #[arg(long, value_name = "SELECTOR")]
    plugin_selector: Option<String>,
    #[command(flatten)]
    adapters: adapters::PluginOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

impl OutlookOptions {
    /// Connects, finds out what the operator works with, and does some work with both.
    pub(crate) fn ask<T>(
        &self,
        work: impl AsyncFnOnce(Client, Outlook) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let host = adapters::host()?;
        let plugins = adapters::load(&host, &self.adapters)?;
        let registry = Registry::new(self.registries.settings()?)?;
        let keyring = self.registries.keyring()?;
        self.cluster.ask(async |client| {
            let outlook = Outlook::read(OutlookSettings {
                client: client.clone(),
                plugins,
                host,
                plugin_selector: self.plugin_selector.clone(),
                home: self.home(&client).await?,
                registry,
                keyring,
            });
            let outlook = outlook.await?;
            for unknown in outlook.unknown() {
                talk::remark(&format!("the operator may know more: {unknown}"));
            }
            work(client, outlook).await
        })
    }

    /// The operator's own namespace. The definition says where the API server reaches it: in a
    /// namespace, or at an address outside, where it was started with --dev and a kubeconfig.
    async fn home(&self, client: &Client) -> anyhow::Result<String> {
        if let Some(given) = &self.operator_namespace {
            return Ok(given.clone());
        }
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        // Not everybody may read definitions.
        let definition = definitions.get(DISTRIBUTION_CRD_NAME).await.ok();
        let reached =
            definition.and_then(|definition| definition.spec.conversion?.webhook?.client_config);
        Ok(match reached {
            Some(WebhookClientConfig {
                service: Some(service),
                ..
            }) => service.namespace,
            Some(_) => self.cluster.config().await?.default_namespace,
            None => USUAL_HOME.to_owned(),
        })
    }
}
