//! The webhooks of `llsd operator`: where they listen and how the API server finds them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use kube::Client;
use llsd_plugin::Plugin;
use llsd_render::distributions;
use llsd_webhook::{Knowledge, Periods, Reached, SECRET_NAME, Server};
use tokio::sync::watch;

/// How to serve the webhooks.
#[derive(clap::Args)]
pub(crate) struct WebhookOptions {
    /// Serve no webhooks: resources are then read and written in v1alpha2 alone
    #[arg(long)]
    no_webhooks: bool,
    /// Where the webhooks listen; by default port 9443, with --dev any free port of this machine alone
    #[arg(long, value_name = "ADDRESS")]
    webhook_listen: Option<SocketAddr>,
    /// The Service in front of the webhooks, in the operator's own namespace
    #[arg(long, value_name = "NAME", default_value = "llsd-webhook")]
    webhook_service: String,
}

/// The port that manifests name.
const PORT: u16 = 9443;
/// The port of the Service, which is the API server's default.
const SERVICE_PORT: u16 = 443;

/// A server with its port and certificate, unless none is wanted.
pub(crate) async fn start(
    options: &WebhookOptions,
    is_dev: bool,
    client: &Client,
    home: &str,
    plugins: &[Plugin],
) -> anyhow::Result<Option<Server>> {
    if options.no_webhooks {
        return Ok(None);
    }
    let (listen, reached) = if is_dev {
        ((Ipv4Addr::LOCALHOST, 0).into(), Reached::Directly)
    } else {
        let service = Reached::Service {
            namespace: home.to_owned(),
            name: options.webhook_service.clone(),
            port: SERVICE_PORT,
        };
        ((Ipv6Addr::UNSPECIFIED, PORT).into(), service)
    };
    let knowledge = Knowledge::new(plugins.into(), &distributions::builtin());
    let settings = llsd_webhook::Settings {
        client: client.clone(),
        // Nothing is learned while it runs: the channel keeps its first value.
        knowledge: watch::channel(Arc::new(knowledge)).1,
        listen: options.webhook_listen.unwrap_or(listen),
        reached,
        namespace: home.to_owned(),
        secret: SECRET_NAME.to_owned(),
        periods: Periods::default(),
    };
    Ok(Some(llsd_webhook::start(settings).await?))
}
