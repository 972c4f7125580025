//! The cluster that a command talks to, chosen as kubectl chooses it.

use anyhow::Context;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use llsd_api::Distribution;

const HINT: &str = "no cluster to talk to; set KUBECONFIG, or name a context of it with --context";

/// Which cluster and namespace.
#[derive(Default, clap::Args)]
pub(crate) struct ClusterOptions {
    /// The namespace; by default that of the context
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// The context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterOptions {
    /// Connects, and does some work with the cluster.
    pub(crate) fn ask<T>(
        &self,
        work: impl AsyncFnOnce(Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Runtime::new().context("no threads to run on")?;
        runtime.block_on(async { work(self.connect().await?).await })
    }

    /// A client whose default namespace is the one asked for.
    async fn connect(&self) -> anyhow::Result<Client> {
        let mut config = self.config().await?;
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        Client::try_from(config).context(HINT)
    }

    /// The cluster as the kubeconfig describes it, with the namespace of the context.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        match Kubeconfig::read() {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .context(HINT),
            // Inside a pod there is no kubeconfig and none is needed.
            Err(error) => Config::incluster().map_err(|_| error).context(HINT),
        }
    }
}

/// The resource of that name, which has to be there.
pub(crate) async fn distribution(client: &Client, name: &str) -> anyhow::Result<Distribution> {
    let found = Api::<Distribution>::default_namespaced(client.clone())
        .get_opt(name)
        .await
        .context("the cluster did not answer for LlamaStackDistributions; is llsd installed?")?;
    found.with_context(|| {
        format!(
            "namespace {:?} has no LlamaStackDistribution {name:?}; see `kubectl get llsd --all-namespaces`",
            client.default_namespace()
        )
    })
}
