//! The webhook server without an operator.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::config::Kubeconfig;
use kube::{Client, Config};
use llsd_api::Webhook;
use llsd_api::checked::Checked;
use llsd_render::distributions;
use llsd_render::objects::Kind;
use llsd_webhook::{Catalog, Exposure, ImageBaseConfig, ImageReader, ObjectIndex, Periods};
use tokio::sync::{oneshot, watch};

use crate::plugins;

/// Serves the webhooks as the user of a kubeconfig until the process exits. Their certificate is stored
/// in `namespace`.
///
/// They run in their own thread and runtime, because the test that starts them may end before others
/// that use them.
pub async fn serve_webhooks(
    kubeconfig: PathBuf,
    namespace: &str,
    periods: Periods,
) -> Result<Webhook> {
    let namespace = namespace.to_owned();
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || -> Result<()> {
        tokio::runtime::Runtime::new()?.block_on(async {
            let config = Kubeconfig::read_from(kubeconfig)?;
            let config = Config::from_custom_kubeconfig(config, &Default::default()).await?;
            let catalog = Catalog::new(plugins().into(), &distributions::builtin(), false);
            let server = llsd_webhook::start(llsd_webhook::Settings {
                client: Client::try_from(config)?,
                images: Arc::new(NoRegistry),
                objects: Arc::new(NoObjects),
                catalog: watch::channel(Arc::new(catalog)).1,
                listen: ([127, 0, 0, 1], 0).into(),
                exposure: Exposure::Direct,
                namespace,
                secret: llsd_webhook::SECRET_NAME.to_owned(),
                periods,
                cert_dir: None,
            })
            .await?;
            let _ = sender.send(server.webhook().clone());
            server.run(std::future::pending()).await?;
            Ok(())
        })
    });
    receiver.await.context("failed to start the webhooks")
}

/// A registry that is down.
struct NoRegistry;

impl ImageReader for NoRegistry {
    fn base_config<'a>(
        &'a self,
        image: &'a str,
        _: &'a Checked,
        _: &'a str,
    ) -> BoxFuture<'a, std::result::Result<ImageBaseConfig, String>> {
        let reason = format!("the registry of {image} does not respond");
        std::future::ready(Err(reason)).boxed()
    }
}

/// A cluster without Secrets and ConfigMaps.
struct NoObjects;

impl ObjectIndex for NoObjects {
    fn exists(&self, _: Kind, _: &str, _: &str) -> Option<bool> {
        Some(false)
    }
}
