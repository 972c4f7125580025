//! A tenant who changes one resource, and measures how long the operator takes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use llsd_testbed::{Namespace, Testbed, eventually};
use serde_json::{Value, json};

const NAME: &str = "fair";
/// A change must be served within this time.
pub(crate) const SERVED_WITHIN: Duration = Duration::from_secs(10);
/// Long enough to measure by how much a change is late.
const GIVE_UP: Duration = Duration::from_secs(90);

/// A tenant with one resource in a namespace of their own.
pub struct FairTenant {
    namespace: Namespace,
    client: Client,
    changes: u32,
}

impl FairTenant {
    /// Creates the resource, and waits until its configuration is generated.
    pub async fn start(testbed: &Testbed) -> Result<Self> {
        let mut tenant = Self {
            namespace: testbed.namespace("fair").await?,
            client: testbed.client("admin").await?,
            changes: 0,
        };
        let resource = serde_json::from_value(sample(NAME))?;
        tenant
            .resources()
            .create(&PostParams::default(), &resource)
            .await?;
        tenant.change().await?;
        Ok(tenant)
    }

    /// Changes the resource, and returns how long it takes until the configuration contains the change.
    pub async fn change(&mut self) -> Result<Duration> {
        self.changes += 1;
        let model = format!("model-{}", self.changes);
        let patch = json!({"spec": {"resources": {"models": [model]}}});
        let started = Instant::now();
        let changed = self
            .resources()
            .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .context("the change of the fair tenant was not accepted")?;
        let generation = changed.metadata.generation;
        let is_served = |cr: Option<&Distribution>| {
            cr.and_then(|cr| {
                let status = cr.status.as_ref()?;
                let mut conditions = status.conditions.iter();
                let updated = conditions.find(|one| one.type_ == "DeploymentUpdated")?;
                Some(status.observed_generation >= generation && updated.status == "True")
            }) == Some(true)
        };
        let resources = self.resources();
        let served = eventually(&resources, NAME, GIVE_UP, "served", is_served)
            .await?
            .context("the resource of the fair tenant is gone")?;
        let took = started.elapsed();
        self.check_configuration(&served, &model).await?;
        Ok(took)
    }

    async fn check_configuration(&self, cr: &Distribution, model: &str) -> Result<()> {
        let generated = cr
            .status
            .as_ref()
            .and_then(|one| one.config_generation.as_ref());
        let name = generated.and_then(|one| one.config_map_name.as_ref());
        let name = name.context("no configuration was generated")?;
        let map = self
            .namespace
            .api::<ConfigMap>(&self.client)
            .get(name)
            .await?;
        let file = map.data.unwrap_or_default().remove("config.yaml");
        anyhow::ensure!(
            file.is_some_and(|file| file.contains(model)),
            "{name} does not contain {model}"
        );
        Ok(())
    }

    fn resources(&self) -> Api<Distribution> {
        self.namespace.api(&self.client)
    }
}

/// `samples/minimal.yaml` with another name.
pub(crate) fn sample(name: &str) -> Value {
    let text = include_str!("../../../samples/minimal.yaml");
    let mut resource: Value = serde_saphyr::from_str(text).unwrap();
    resource["metadata"]["name"] = name.into();
    resource
}
