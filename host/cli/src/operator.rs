//! `llsd operator`: watches a cluster's resources and serves them.

use std::io::IsTerminal;

use anyhow::Context;
use kube::Client;
use llsd_controller::{Scope, Settings, install_definitions};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::{Verdict, adapters};

/// How to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run from a laptop: install the definitions into the cluster of the current kubeconfig first
    #[arg(long)]
    dev: bool,
    /// Serve this namespace only
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Keep what belongs to the operator itself in this namespace; the kubeconfig's by default
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    operator_namespace: Option<String>,
    #[command(flatten)]
    adapters: adapters::PluginOptions,
}

/// Runs until it is told to stop.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let plugins = adapters::load(&arguments.adapters)?;
    let runtime = tokio::runtime::Runtime::new().context("no threads to run on")?;
    runtime.block_on(async {
        let client = Client::try_default()
            .await
            .context("no cluster to talk to; set KUBECONFIG")?;
        if arguments.dev {
            install_definitions(&client).await?;
        }
        let scope = arguments
            .namespace
            .clone()
            .map_or(Scope::Cluster, Scope::Namespace);
        let (mut terminate, mut interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let home = arguments
            .operator_namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        tracing::info!(plugins = plugins.len(), ?scope, "watching");
        llsd_controller::run(
            Settings {
                client,
                plugins,
                scope,
                home,
            },
            shutdown,
        )
        .await;
        Ok(Verdict::Done)
    })
}
