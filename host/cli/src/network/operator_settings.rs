//! Loads what the installed operator works with (its settings, plugins and registries), for `preview`
//! and `why`. What the user has no permission to read is reported and left out.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use kube::Client;
use kube::api::Api;
use llsd_api::DISTRIBUTION_CRD_NAME;
use llsd_controller::{PreviewOptions, Previewer};
use llsd_plugin::Observer;
use llsd_registry::Registry;

use crate::caches::Caches;
use crate::network::cluster::ClusterOptions;
use crate::network::registry::RegistryOptions;
use crate::{output, plugin_loader};

/// The operator's namespace in the manifests of this repository.
const DEFAULT_NAMESPACE: &str = "llsd-system";

/// Options that select the cluster, and the flags that its operator was started with.
#[derive(clap::Args)]
pub(crate) struct OperatorOptions {
    #[command(flatten)]
    operator: OperatorNamespace,
    /// Label selector of SchemaPlugins, as passed to the operator
    #[arg(long, value_name = "SELECTOR")]
    plugin_selector: Option<String>,
    #[command(flatten)]
    plugins: plugin_loader::PluginOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Options that select the cluster and the namespace of its operator.
#[derive(clap::Args)]
pub(crate) struct OperatorNamespace {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// Namespace of the operator; by default read from the custom resource definition
    #[arg(long, value_name = "NAME")]
    operator_namespace: Option<String>,
}

impl OperatorOptions {
    /// Connects to the cluster, loads the operator's settings and runs `work`.
    pub(crate) fn run<T>(
        &self,
        work: impl AsyncFnOnce(Client, Previewer) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.run_observed(None, work)
    }

    /// Like [`run`](Self::run), and reports every call of a plugin to `observer`.
    pub(crate) fn run_observed<T>(
        &self,
        observer: Option<Arc<dyn Observer>>,
        work: impl AsyncFnOnce(Client, Previewer) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let host = plugin_loader::host_with(&Caches::of_user(), observer)?;
        let plugins = plugin_loader::load(&host, &self.plugins)?;
        let registry = Registry::new(self.registries.settings()?)?;
        let keyring = self.registries.keyring()?;
        self.operator.run(async |client, operator_namespace| {
            let previewer = Previewer::load(PreviewOptions {
                client: client.clone(),
                plugins,
                host,
                plugin_selector: self.plugin_selector.clone(),
                operator_namespace,
                registry,
                keyring,
            });
            let previewer = previewer.await?;
            for unreadable in previewer.unreadable() {
                output::print_warning(&format!(
                    "failed to read {unreadable}; the operator may generate something else"
                ));
            }
            work(client, previewer).await
        })
    }
}

impl OperatorNamespace {
    /// Connects to the cluster and runs `work` with the namespace of its operator.
    pub(crate) fn run<T>(
        &self,
        work: impl AsyncFnOnce(Client, String) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.cluster.run(async |client| {
            let namespace = self.operator_namespace(&client).await?;
            work(client, namespace).await
        })
    }

    /// The operator's namespace: that of the conversion webhook's Service. A webhook with a URL belongs
    /// to an operator that runs with `--dev` and uses the namespace of the kubeconfig.
    async fn operator_namespace(&self, client: &Client) -> anyhow::Result<String> {
        if let Some(given) = &self.operator_namespace {
            return Ok(given.clone());
        }
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        // Reading definitions needs a permission that not every user has.
        let definition = definitions.get(DISTRIBUTION_CRD_NAME).await.ok();
        let client_config =
            definition.and_then(|definition| definition.spec.conversion?.webhook?.client_config);
        Ok(match client_config {
            Some(WebhookClientConfig {
                service: Some(service),
                ..
            }) => service.namespace,
            Some(_) => self.cluster.config().await?.default_namespace,
            None => DEFAULT_NAMESPACE.to_owned(),
        })
    }
}
