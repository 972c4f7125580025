//! Starts the webhooks of `llsd operator`, and connects them to the operator's state.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use llsd_api::checked::Checked;
use llsd_controller::{Distributions, ImageLookup, ObjectLookup};
use llsd_plugin::Plugin;
use llsd_render::objects::Kind;
use llsd_webhook::{Catalog, Exposure, ImageBaseConfig, Periods, SECRET_NAME, Server};
use tokio::sync::watch;

/// Options of the webhooks.
#[derive(clap::Args)]
pub(crate) struct WebhookOptions {
    /// Disable the webhooks; resources can then only be read and written as v1alpha2
    #[arg(long)]
    no_webhooks: bool,
    /// Address of the webhooks; by default port 9443, with --dev a free port on the loopback address
    #[arg(long, value_name = "ADDRESS")]
    webhook_listen: Option<SocketAddr>,
    /// Name of the Service of the webhooks, in the operator's namespace
    #[arg(long, value_name = "NAME", default_value = "llsd-webhook")]
    webhook_service: String,
    /// Folder with tls.crt and tls.key of the webhooks, which another program writes and publishes, such as
    /// OLM. By default the operator issues and publishes a certificate itself
    #[arg(long, value_name = "DIR")]
    webhook_cert_dir: Option<PathBuf>,
}

/// The container port in the manifests.
const PORT: u16 = 9443;
/// The port of the Service. 443 is the API server's default for webhooks.
const SERVICE_PORT: u16 = 443;

/// State of the operator that the webhooks use.
pub(crate) struct Shared<'a> {
    pub(crate) client: &'a Client,
    /// The operator's namespace.
    pub(crate) namespace: &'a str,
    pub(crate) images: ImageLookup,
    pub(crate) plugins_in_use: watch::Receiver<Arc<[Plugin]>>,
    pub(crate) distributions_in_use: watch::Receiver<Arc<Distributions>>,
    pub(crate) lookup: ObjectLookup,
}

/// Binds the port and creates the certificate. `None` with `--no-webhooks`.
pub(crate) async fn start(
    options: &WebhookOptions,
    is_dev: bool,
    shared: Shared<'_>,
) -> anyhow::Result<Option<Server>> {
    let Shared {
        client,
        namespace,
        images,
        plugins_in_use,
        distributions_in_use,
        lookup,
    } = shared;
    if options.no_webhooks {
        return Ok(None);
    }
    let (listen, exposure) = if is_dev {
        ((Ipv4Addr::LOCALHOST, 0).into(), Exposure::Direct)
    } else {
        let service = Exposure::Service {
            namespace: namespace.to_owned(),
            name: options.webhook_service.clone(),
            port: SERVICE_PORT,
        };
        ((Ipv6Addr::UNSPECIFIED, PORT).into(), service)
    };
    let settings = llsd_webhook::Settings {
        client: client.clone(),
        images: Arc::new(OperatorImages(images)),
        objects: Arc::new(OperatorObjects(lookup)),
        catalog: watch_catalog(plugins_in_use, distributions_in_use),
        listen: options.webhook_listen.unwrap_or(listen),
        exposure,
        namespace: namespace.to_owned(),
        secret: SECRET_NAME.to_owned(),
        periods: Periods::default(),
        cert_dir: options.webhook_cert_dir.clone(),
    };
    Ok(Some(llsd_webhook::start(settings).await?))
}

/// A catalog of the plugins and distributions in use, updated whenever one of them changes.
fn watch_catalog(
    mut plugins: watch::Receiver<Arc<[Plugin]>>,
    mut distributions: watch::Receiver<Arc<Distributions>>,
) -> watch::Receiver<Arc<Catalog>> {
    let current = |plugins: &mut watch::Receiver<Arc<[Plugin]>>,
                   distributions: &mut watch::Receiver<Arc<Distributions>>| {
        let plugins = plugins.borrow_and_update().clone();
        let distributions = distributions.borrow_and_update();
        let Distributions {
            known,
            may_be_incomplete,
        } = &**distributions;
        Arc::new(Catalog::new(plugins, known, *may_be_incomplete))
    };
    let (sender, catalog) = watch::channel(current(&mut plugins, &mut distributions));
    tokio::spawn(async move {
        loop {
            let changed = tokio::select! {
                changed = plugins.changed() => changed,
                changed = distributions.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            sender.send_replace(current(&mut plugins, &mut distributions));
        }
    });
    catalog
}

/// Reads images with the operator's cache, credentials and limits.
struct OperatorImages(ImageLookup);

impl llsd_webhook::ImageReader for OperatorImages {
    fn base_config<'a>(
        &'a self,
        image: &'a str,
        checked: &'a Checked,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<ImageBaseConfig, String>> {
        let read = self.0.base(image, checked, namespace);
        read.map(|result| match result {
            Ok((read, hints)) => Ok(ImageBaseConfig {
                yaml: read.yaml.clone(),
                hints,
                digest: read.image_digest.to_string(),
                variables: read.variables.clone(),
            }),
            Err(error) => Err(error),
        })
        .boxed()
    }
}

/// Looks up objects in the operator's cache.
struct OperatorObjects(ObjectLookup);

impl llsd_webhook::ObjectIndex for OperatorObjects {
    fn exists(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool> {
        self.0.exists(kind, namespace, name)
    }
}
