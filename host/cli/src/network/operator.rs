//! `llsd operator`: runs the operator until it receives a signal.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Config;
use llsd_api::escape_line;
use llsd_controller::{
    Distributions, Endpoints, ImageLookup, Metrics, ObjectLookup, Options, Polling, Registries,
    Scope, WritePace, install_admission, install_definitions,
};
use llsd_registry::{Registry, Timeouts};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

use crate::caches::Caches;
use crate::network::registry::RegistryOptions;
use crate::network::webhooks;
use crate::{Exit, plugin_loader};

/// The longest time for one operation on a registry. Shorter than the deadline of a background read, so
/// that the error names what did not respond.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(100);

/// Default of `--poll-servers`. Long, because a server's release and providers only change with its
/// pods, and the operator watches those.
const POLL_SECONDS: u64 = 300;

/// Default of `--drain`. The endpoints of a Service follow the end of a pod within a few seconds, and
/// the API server reuses connections.
const DRAIN_SECONDS: u64 = 10;

/// Default of `--check-tags`. Long, because a tag that moved changes nothing by itself.
const TAG_SECONDS: u64 = 3600;

/// Polls of tasks after which the runtime looks for answers of the network and for requests. One poll of a
/// reconciliation takes up to some milliseconds, so with tokio's default of 61 each answer and each admission
/// would be late while thousands of resources are checked.
const EVENT_INTERVAL: u32 = 4;

/// Arguments of `operator`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run on your machine: install the CRDs, the admission policy and the webhooks into the cluster
    /// of the current kubeconfig first. For the webhooks, the cluster must run on the same machine
    #[arg(long)]
    dev: bool,
    /// Only reconcile resources in this namespace
    #[arg(long, value_name = "NAME", env = "LLSD_NAMESPACE")]
    namespace: Option<String>,
    /// Namespace of the operator's own objects; by default the namespace of the kubeconfig
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    operator_namespace: Option<String>,
    /// Enable leader election under this identity, which must be unique for each replica
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    leader_elect: Option<String>,
    /// Maximum number of concurrent reconciles
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    workers: u16,
    /// Address to serve /healthz and /readyz on
    #[arg(long, value_name = "ADDRESS")]
    probes: Option<SocketAddr>,
    /// Address to serve /metrics on, with TLS and authorization
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Directory to cache compiled plugins and registry content in; by default the user's cache
    /// directory. Deleting its content is safe
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Interval between requests to each running server for its release and providers; 0 disables
    /// them. Default: 300, or 0 with --dev, because Services are not reachable from outside the cluster
    #[arg(long, value_name = "SECONDS")]
    poll_servers: Option<u64>,
    /// How long webhooks are still served after a signal to stop, while the API server learns that this
    /// replica is not ready any more. Default: 10, or 0 with --dev
    #[arg(long, value_name = "SECONDS")]
    drain: Option<u64>,
    /// Interval between checks whether the tags of images in use moved; 0 disables them
    #[arg(long, value_name = "SECONDS", default_value_t = TAG_SECONDS)]
    check_tags: u64,
    /// Write the log as JSON
    #[arg(long)]
    log_json: bool,
    /// Only use SchemaPlugins that match this label selector
    #[arg(long, value_name = "SELECTOR")]
    plugin_selector: Option<String>,
    #[command(flatten)]
    webhooks: webhooks::WebhookOptions,
    #[command(flatten)]
    plugins: plugin_loader::PluginOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    start_log(arguments.log_json);
    let metrics = Metrics::new();
    let caches = match &arguments.cache_dir {
        Some(folder) => Caches::in_folder(folder.clone())?,
        None => Caches::of_user(),
    };
    let host = plugin_loader::host_with(&caches, Some(metrics.clone()))?;
    let plugins = plugin_loader::load(&host, &arguments.plugins)?;
    let registries = Registries::new(Registry::new(llsd_registry::Settings {
        cache_dir: caches.registry(),
        timeouts: Timeouts {
            total: REGISTRY_TIMEOUT,
            ..Timeouts::default()
        },
        ..arguments.registries.settings()?
    })?);
    let registries = Arc::new(registries);
    let keyring = arguments.registries.keyring()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(llsd_blocking::THREADS)
        .event_interval(EVENT_INTERVAL)
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(async {
        let config = Config::infer()
            .await
            .context("failed to load a cluster configuration; set KUBECONFIG")?;
        let write_pace = WritePace::default();
        let client = metrics
            .clone()
            .client(config, &write_pace)
            .context("failed to create a client from the cluster configuration")?;
        let operator_namespace = arguments
            .operator_namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let (stop, stopped) = watch::channel(false);
        let plugins_in_use = watch::Sender::new(Arc::from(plugins.as_slice()));
        let distributions_in_use = watch::Sender::new(Arc::new(Distributions::before_first_load()));
        let lookup = ObjectLookup::default();
        let image_lookup = ImageLookup::default();
        let shared = webhooks::Shared {
            client: &client,
            namespace: &operator_namespace,
            images: image_lookup.clone(),
            plugins_in_use: plugins_in_use.subscribe(),
            distributions_in_use: distributions_in_use.subscribe(),
            lookup: lookup.clone(),
        };
        let webhooks = webhooks::start(&arguments.webhooks, arguments.dev, shared).await?;
        let webhook = webhooks.as_ref().map(|server| server.webhook().clone());
        let webhooks = webhooks.map(|server| {
            let (stop, stopped) = (stop.clone(), until(stopped.clone()));
            let drain = drain(arguments);
            let drained = async move {
                stopped.await;
                tokio::time::sleep(drain).await;
            };
            tokio::spawn(async move {
                let outcome = server.run(drained).await;
                // Without webhooks the operator must not continue: stop it, so that the pod restarts.
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
        let options = Options {
            client,
            write_pace,
            plugins,
            plugins_in_use,
            distributions_in_use,
            lookup,
            image_lookup,
            host,
            plugin_selector: arguments.plugin_selector.clone(),
            scope,
            operator_namespace,
            registries,
            keyring,
            workers: arguments.workers.max(1),
            identity: arguments.leader_elect.clone(),
            endpoints: Endpoints {
                probes: arguments.probes.map(bind).transpose()?,
                metrics: arguments.metrics.map(bind).transpose()?,
            },
            polling: polling(arguments),
            tag_interval: (arguments.check_tags > 0)
                .then(|| Duration::from_secs(arguments.check_tags)),
            metrics,
        };
        llsd_controller::run(options, until(stopped)).await?;
        if let Some(webhooks) = webhooks {
            webhooks.await??;
        }
        Ok(Exit::Success)
    })
}

fn polling(arguments: &Arguments) -> Option<Polling> {
    let default = if arguments.dev { 0 } else { POLL_SECONDS };
    let seconds = arguments.poll_servers.unwrap_or(default);
    (seconds > 0).then(|| Polling {
        interval: Duration::from_secs(seconds),
        connect_to: None,
    })
}

/// How long webhooks are served after a signal to stop.
fn drain(arguments: &Arguments) -> Duration {
    let default = if arguments.dev { 0 } else { DRAIN_SECONDS };
    Duration::from_secs(arguments.drain.unwrap_or(default))
}

/// Completes when the operator must stop.
async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender was dropped, which also means stop.
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

/// kube logs a whole response if it cannot parse it, which may be a list of all resources. The watches
/// report the error without it.
const DEFAULT_LOG: &str = "info,kube_client::client=error";

fn start_log(is_json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOG));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| EscapedLog(std::io::stderr()))
        .with_ansi(false);
    if is_json {
        log.json().init();
    } else {
        log.init();
    }
}

/// Writes the log with control characters escaped: its fields quote what registries and plugins say, and
/// the library escapes the message only. Each write is one line.
struct EscapedLog<W>(W);

impl<W: Write> Write for EscapedLog<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = format!("{}\n", escape_line(line));
        self.0.write_all(line.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("failed to listen on {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_contains_no_control_characters() {
        let mut log = EscapedLog(Vec::new());
        log.write_all(b"WARN error=\x1b[31m\nforged\x07\n").unwrap();
        log.write_all("{\"error\":\"\u{9b}\"}\n".as_bytes())
            .unwrap();
        let written = String::from_utf8(log.0).unwrap();
        let expected = "WARN error=\\u001b[31m\\nforged\\u0007\n{\"error\":\"\\u009b\"}\n";
        assert_eq!(written, expected);
    }
}
