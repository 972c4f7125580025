//! The webhooks of `llsd operator`: where they listen and how the API server finds them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use llsd_api::checked::Checked;
use llsd_controller::{Distributions, Images, Seen};
use llsd_plugin::Plugin;
use llsd_render::objects::Kind;
use llsd_webhook::{ImageBase, Knowledge, Periods, Reached, SECRET_NAME, Server};
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

/// What the webhooks take over from the operator.
pub(crate) struct Shared<'a> {
    pub(crate) client: &'a Client,
    /// The operator's own namespace.
    pub(crate) home: &'a str,
    pub(crate) images: Images,
    pub(crate) plugins_in_use: watch::Receiver<Arc<[Plugin]>>,
    pub(crate) distributions_in_use: watch::Receiver<Arc<Distributions>>,
    pub(crate) seen: Seen,
}

/// A server with its port and certificate, unless none is wanted.
pub(crate) async fn start(
    options: &WebhookOptions,
    is_dev: bool,
    shared: Shared<'_>,
) -> anyhow::Result<Option<Server>> {
    let Shared {
        client,
        home,
        images,
        plugins_in_use,
        distributions_in_use,
        seen,
    } = shared;
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
    let settings = llsd_webhook::Settings {
        client: client.clone(),
        images: Arc::new(AsOperator(images)),
        objects: Arc::new(SeenByOperator(seen)),
        knowledge: learn(plugins_in_use, distributions_in_use),
        listen: options.webhook_listen.unwrap_or(listen),
        reached,
        namespace: home.to_owned(),
        secret: SECRET_NAME.to_owned(),
        periods: Periods::default(),
    };
    Ok(Some(llsd_webhook::start(settings).await?))
}

/// Knows the plugins and distributions in use, for as long as the webhooks ask.
fn learn(
    mut plugins: watch::Receiver<Arc<[Plugin]>>,
    mut distributions: watch::Receiver<Arc<Distributions>>,
) -> watch::Receiver<Arc<Knowledge>> {
    let know = |plugins: &mut watch::Receiver<Arc<[Plugin]>>,
                distributions: &mut watch::Receiver<Arc<Distributions>>| {
        let plugins = plugins.borrow_and_update().clone();
        let distributions = distributions.borrow_and_update();
        let Distributions { known, may_be_more } = &**distributions;
        Arc::new(Knowledge::new(plugins, known, *may_be_more))
    };
    let (learned, knowledge) = watch::channel(know(&mut plugins, &mut distributions));
    tokio::spawn(async move {
        loop {
            let changed = tokio::select! {
                changed = plugins.changed() => changed,
                changed = distributions.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            learned.send_replace(know(&mut plugins, &mut distributions));
        }
    });
    knowledge
}

/// Images as the operator reads them.
struct AsOperator(Images);

impl llsd_webhook::Images for AsOperator {
    fn base<'a>(
        &'a self,
        image: &'a str,
        checked: &'a Checked,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<ImageBase, String>> {
        let read = self.0.base(image, checked, namespace);
        read.map(|answer| match answer {
            Ok((text, hints)) => Ok(ImageBase { text, hints }),
            Err(error) => Err(error.to_string()),
        })
        .boxed()
    }
}

/// Objects as the operator's watches see them.
struct SeenByOperator(Seen);

impl llsd_webhook::Objects for SeenByOperator {
    fn has(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool> {
        self.0.has(kind, namespace, name)
    }
}
