//! Connects to a cluster, selected as kubectl selects it.

use anyhow::Context;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use llsd_api::Distribution;

const NO_CLUSTER: &str =
    "failed to load a cluster configuration; set KUBECONFIG, or select a context with --context";

/// Options that select the cluster and the namespace.
#[derive(Default, clap::Args)]
pub(crate) struct ClusterOptions {
    /// Namespace; by default the namespace of the context
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterOptions {
    /// A context of the kubeconfig and its namespace.
    pub(crate) fn in_context(context: Option<String>) -> Self {
        Self {
            context,
            namespace: None,
        }
    }

    /// Connects to the cluster and runs `work` with the client.
    pub(crate) fn run<T>(
        &self,
        work: impl AsyncFnOnce(Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let runtime =
            tokio::runtime::Runtime::new().context("failed to start the async runtime")?;
        runtime.block_on(async { work(self.connect().await?).await })
    }

    /// A client whose default namespace is `--namespace`.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        let mut config = self.config().await?;
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        Client::try_from(config).context(NO_CLUSTER)
    }

    /// Loads the kubeconfig or, in a pod, the in-cluster configuration.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        match Kubeconfig::read() {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .context(NO_CLUSTER),
            Err(error) => Config::incluster().map_err(|_| error).context(NO_CLUSTER),
        }
    }
}

/// Gets a resource from the default namespace of the client. Fails if it does not exist.
pub(crate) async fn distribution(client: &Client, name: &str) -> anyhow::Result<Distribution> {
    let found = Api::<Distribution>::default_namespaced(client.clone())
        .get_opt(name)
        .await
        .context("failed to get the LlamaStackDistribution; check with `llsd doctor` that llsd is installed")?;
    found.with_context(|| {
        format!(
            "namespace {:?} has no LlamaStackDistribution {name:?}; see `kubectl get llsd --all-namespaces`",
            client.default_namespace()
        )
    })
}
