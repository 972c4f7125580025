//! `llsd operator`: watches a cluster's resources and serves them.

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Config;
use llsd_controller::{
    Distributions, Endpoints, Images, Metrics, Polling, Registries, Scope, Seen, Settings,
    install_admission, install_definitions,
};
use llsd_registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

use crate::caches::Caches;
use crate::network::registry::RegistryOptions;
use crate::network::webhooks;
use crate::{Verdict, adapters};

/// Threads for what computes or waits without yielding: plugins, files, names. More than compute at
/// a time would only hold memory.
const BLOCKING_THREADS: usize = 8;

/// A server's release and providers change with its pods, of which the operator hears by itself.
const POLL_SECONDS: u64 = 300;

/// How to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run from a laptop: first install definitions, admission policy and webhooks into the cluster
    /// of the current kubeconfig, which must be on this machine for the webhooks to be reached
    #[arg(long)]
    dev: bool,
    /// Serve this namespace only
    #[arg(long, value_name = "NAME", env = "LLSD_NAMESPACE")]
    namespace: Option<String>,
    /// Keep what belongs to the operator itself in this namespace; the kubeconfig's by default
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    operator_namespace: Option<String>,
    /// Agree with other replicas who writes; needs a name of its own for each
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    leader_elect: Option<String>,
    /// Reconcile so many resources at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    workers: u16,
    /// Answer /healthz and /readyz here
    #[arg(long, value_name = "ADDRESS")]
    probes: Option<SocketAddr>,
    /// Answer /metrics here, over TLS, to those who may get it
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Keep machine code and what registries gave in this folder, which may be emptied at any time;
    /// by default in the user's cache folder
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Ask each running server so often for its release and providers; 0: never. By default 300, and
    /// with --dev never, because a laptop does not reach the cluster's Services
    #[arg(long, value_name = "SECONDS")]
    poll_servers: Option<u64>,
    /// Write the log as JSON
    #[arg(long)]
    log_json: bool,
    /// Serve only the SchemaPlugins with these labels
    #[arg(long, value_name = "SELECTOR")]
    plugin_selector: Option<String>,
    #[command(flatten)]
    webhooks: webhooks::WebhookOptions,
    #[command(flatten)]
    adapters: adapters::PluginOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Runs until it is told to stop.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    start_log(arguments.log_json);
    let metrics = Metrics::new();
    let caches = match &arguments.cache_dir {
        Some(folder) => Caches::in_folder(folder.clone())?,
        None => Caches::of_user(),
    };
    let host = adapters::host_with(&caches, Some(metrics.clone()))?;
    let plugins = adapters::load(&host, &arguments.adapters)?;
    let registries = Registries::new(Registry::new(llsd_registry::Settings {
        cache_dir: caches.registry(),
        ..arguments.registries.settings()?
    })?);
    let registries = Arc::new(registries);
    let keyring = arguments.registries.keyring()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("no threads to run on")?;
    runtime.block_on(async {
        let config = Config::infer()
            .await
            .context("no cluster to talk to; set KUBECONFIG")?;
        let client = metrics
            .clone()
            .client(config)
            .context("the cluster's address or credentials cannot be used")?;
        let home = arguments
            .operator_namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let (stop, stopped) = watch::channel(false);
        let plugins_in_use = watch::Sender::new(Arc::from(plugins.as_slice()));
        let distributions_in_use =
            watch::Sender::new(Arc::new(Distributions::before_first_reading()));
        let seen = Seen::default();
        let shared = webhooks::Shared {
            client: &client,
            home: &home,
            images: Images::new(client.clone(), registries.clone(), keyring.clone()),
            plugins_in_use: plugins_in_use.subscribe(),
            distributions_in_use: distributions_in_use.subscribe(),
            seen: seen.clone(),
        };
        let webhooks = webhooks::start(&arguments.webhooks, arguments.dev, shared).await?;
        let webhook = webhooks.as_ref().map(|server| server.webhook().clone());
        let webhooks = webhooks.map(|server| {
            let (stop, stopped) = (stop.clone(), until(stopped.clone()));
            tokio::spawn(async move {
                let outcome = server.run(stopped).await;
                // An operator without its webhooks starts again rather than going on by half.
                stop.send_replace(true);
                outcome
            })
        });
        if arguments.dev {
            install_definitions(&client, webhook.as_ref()).await?;
            if let Some(webhook) = &webhook {
                install_admission(&client, webhook).await?;
            }
        }
        tokio::spawn(stop_on_signals(stop)?);
        let scope = arguments
            .namespace
            .clone()
            .map_or(Scope::Cluster, Scope::Namespace);
        tracing::info!(plugins = plugins.len(), ?scope, "watching");
        let settings = Settings {
            client,
            plugins,
            plugins_in_use,
            distributions_in_use,
            seen,
            host,
            plugin_selector: arguments.plugin_selector.clone(),
            scope,
            home,
            registries,
            keyring,
            workers: arguments.workers.max(1),
            identity: arguments.leader_elect.clone(),
            endpoints: Endpoints {
                probes: arguments.probes.map(bind).transpose()?,
                metrics: arguments.metrics.map(bind).transpose()?,
            },
            polling: polling(arguments),
            metrics,
        };
        llsd_controller::run(settings, until(stopped)).await?;
        if let Some(webhooks) = webhooks {
            webhooks.await??;
        }
        Ok(Verdict::Done)
    })
}

fn polling(arguments: &Arguments) -> Option<Polling> {
    let default = if arguments.dev { 0 } else { POLL_SECONDS };
    let seconds = arguments.poll_servers.unwrap_or(default);
    (seconds > 0).then(|| Polling {
        every: Duration::from_secs(seconds),
        at: None,
    })
}

/// Done when the operator is to stop.
async fn until(mut stopped: watch::Receiver<bool>) {
    // The sender is gone only when everything is over.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn stop_on_signals(stop: watch::Sender<bool>) -> anyhow::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    })
}

fn start_log(is_json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if is_json {
        log.json().init();
    } else {
        log.init();
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))
}
