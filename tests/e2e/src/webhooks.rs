//! The webhooks of an operator, without the operator.

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
use llsd_webhook::{ImageBase, Images, Knowledge, Objects, Periods, Reached};
use tokio::sync::{oneshot, watch};

use crate::plugins;

/// Serves the webhooks with somebody's rights, for as long as the process lives. Their certificate is
/// kept in `namespace`.
///
/// The first test that needs them starts them and may end before the others, so they have a thread
/// and a runtime of their own.
pub async fn serve_webhooks(
    kubeconfig: PathBuf,
    namespace: &str,
    periods: Periods,
) -> Result<Webhook> {
    let namespace = namespace.to_owned();
    let (told, tell) = oneshot::channel();
    std::thread::spawn(move || -> Result<()> {
        tokio::runtime::Runtime::new()?.block_on(async {
            let config = Kubeconfig::read_from(kubeconfig)?;
            let config = Config::from_custom_kubeconfig(config, &Default::default()).await?;
            let knowledge = Knowledge::new(plugins().into(), &distributions::builtin(), false);
            let server = llsd_webhook::start(llsd_webhook::Settings {
                client: Client::try_from(config)?,
                images: Arc::new(NoRegistry),
                objects: Arc::new(NoObjects),
                knowledge: watch::channel(Arc::new(knowledge)).1,
                listen: ([127, 0, 0, 1], 0).into(),
                reached: Reached::Directly,
                namespace,
                secret: llsd_webhook::SECRET_NAME.to_owned(),
                periods,
            })
            .await?;
            let _ = told.send(server.webhook().clone());
            server.run(std::future::pending()).await?;
            Ok(())
        })
    });
    tell.await.context("the webhooks did not start")
}

/// A registry that is down.
struct NoRegistry;

impl Images for NoRegistry {
    fn base<'a>(
        &'a self,
        image: &'a str,
        _: &'a Checked,
        _: &'a str,
    ) -> BoxFuture<'a, std::result::Result<ImageBase, String>> {
        let reason = format!("the registry of {image} does not answer");
        std::future::ready(Err(reason)).boxed()
    }
}

/// A cluster without Secrets and ConfigMaps.
struct NoObjects;

impl Objects for NoObjects {
    fn has(&self, _: Kind, _: &str, _: &str) -> Option<bool> {
        Some(false)
    }
}
