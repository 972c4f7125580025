//! A new version of an adapter, in a registry, which the operator compares with the one in use.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use llsd_api::SchemaPlugin;
use llsd_bench::{DEADLINE, Operator, POLL_INTERVAL};
use llsd_testbed::{Access, Registry, RegistryOptions};
use serde_json::json;

/// A string in the adapter's catalogue, and a replacement that changes the configuration of every resource, so
/// that the version is compared and never put into use.
const ORIGINAL: &str = "inference remote::vllm base_url:http:/v1";
const CHANGED: &str = "inference remote::vllm base_url:http:/v2";
const NAME: &str = "compared";

/// A registry with the new version.
pub(crate) struct NewVersion {
    registry: Registry,
    reference: String,
}

impl NewVersion {
    /// Pushes a changed copy of an adapter.
    pub(crate) async fn push(llsd: &Path, adapter: &Path) -> anyhow::Result<Self> {
        let access = Access::Anyone;
        let registry = Registry::start(&RegistryOptions { tls: false, access }).await?;
        let component = std::fs::read(adapter)
            .with_context(|| format!("failed to read {}", adapter.display()))?;
        let file = registry.docker_config().join("changed.wasm");
        std::fs::write(&file, changed(component)?)?;
        let reference = format!("{}/bench/adapter:2", registry.host());
        let pushed = Command::new(llsd)
            .args(["plugin", "push", &reference])
            .arg(&file)
            .args(["--plain-http", registry.host()])
            .env("DOCKER_CONFIG", registry.docker_config())
            .output()?;
        let errors = String::from_utf8_lossy(&pushed.stderr);
        ensure!(pushed.status.success(), "failed to push: {errors}");
        Ok(Self {
            registry,
            reference,
        })
    }

    /// The options with which an operator can read the registry.
    pub(crate) fn options(&self) -> [&str; 4] {
        let host = self.registry.host();
        ["--plain-http", host, "--allow-address", "127.0.0.1"]
    }

    /// The number of requests so far.
    pub(crate) async fn requests(&self) -> anyhow::Result<usize> {
        Ok(self.registry.requests().await?.len())
    }

    /// The CPU seconds in which an operator compares the version for a number of resources. Deletes it
    /// afterwards.
    pub(crate) async fn compare(
        &self,
        client: &Client,
        operator: &Operator,
        resources: usize,
    ) -> anyhow::Result<f64> {
        let api: Api<SchemaPlugin> = Api::all(client.clone());
        let plugin = serde_json::from_value(json!({
            "apiVersion": "llamastack.io/v1alpha1",
            "kind": "SchemaPlugin",
            "metadata": {"name": NAME},
            "spec": {"reference": self.reference, "rollout": {"maxDiff": 0}},
        }))?;
        let before = operator.cpu()?;
        api.create(&PostParams::default(), &plugin).await?;
        let started = Instant::now();
        loop {
            let status = api.get(NAME).await?.status.unwrap_or_default();
            if let Some(summary) = status.shadow {
                let compared = usize::try_from(summary.compared)?;
                ensure!(
                    compared == resources,
                    "{compared} of {resources} resources were compared"
                );
                let cpu = operator.cpu()? - before;
                // A start would compare it again.
                api.delete(NAME, &DeleteParams::default()).await?;
                return Ok(cpu);
            }
            ensure!(started.elapsed() < DEADLINE, "the version is not compared");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn changed(mut component: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let found = component.windows(ORIGINAL.len());
    let at = found
        .enumerate()
        .find(|(_, text)| *text == ORIGINAL.as_bytes());
    let (at, _) = at.with_context(|| format!("the adapter does not contain {ORIGINAL:?}"))?;
    component[at..at + CHANGED.len()].copy_from_slice(CHANGED.as_bytes());
    Ok(component)
}
