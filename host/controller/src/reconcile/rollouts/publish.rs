//! Starts the turns of resources, and publishes how far rollouts are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource as _, ResourceExt};
use llsd_api::SchemaPlugin;
use llsd_api::labels::{self, FIELD_MANAGER, ROLLOUTS_CONFIG_MAP};
use llsd_api::schema_plugin::RolloutProgress;
use serde_json::json;

use super::{Progress, Resource};
use crate::cache::ResourceStore;
use crate::reconcile::context::Context;

/// Delay after a change, in which further changes are collected.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// The field manager of the progress in the status of `SchemaPlugin`s, which another controller writes.
const PROGRESS_MANAGER: &str = "llsd-rollouts";
/// The rollouts of `SchemaPlugin`s start with this.
const PLUGIN_PREFIX: &str = "plugin.";

/// Lets resources take turns, and publishes the progress, until the future is dropped.
pub(crate) async fn coordinate(
    ctx: Arc<Context>,
    store: ResourceStore,
    operator_namespace: String,
) {
    let publisher = Publisher {
        ctx: &ctx,
        namespace: operator_namespace,
    };
    // Once at the start. A failure is tried again with the first change.
    let mut published = publisher.read().await.ok();
    loop {
        ctx.rollouts.changed.notified().await;
        // At the start, every resource is a change.
        tokio::time::sleep(DEBOUNCE).await;
        let mut marks = ctx.revisions.marks();
        let is_complete = ctx.rollouts.seen() >= store.len();
        // At the start, thousands of resources are reconciled for minutes.
        if !is_complete && marks.is_empty() && ctx.rollouts.is_idle() {
            continue;
        }
        let resources = store.all();
        let resources: BTreeSet<Resource> = resources
            .iter()
            .map(|one| (one.namespace().unwrap_or_default(), one.name_any()))
            .collect();
        // The garbage collector deletes the revisions of a deleted resource later.
        marks.retain(|resource, _| resources.contains(resource));
        let max_concurrent = ctx.settings.get().await.rollouts().max_concurrent;
        for (namespace, name) in ctx.rollouts.grant(&marks, max_concurrent) {
            ctx.trigger.request(&namespace, &name);
        }
        // Before all resources have said what they wait for, the numbers would be wrong.
        if !ctx.rollouts.has_seen(&resources) {
            continue;
        }
        let progress = ctx.rollouts.progress(&marks);
        ctx.metrics
            .set_rollouts(progress.iter().map(|(rollout, one)| {
                let waiting = one.total - one.updated - one.unchanged;
                let numbers = [one.updated, one.unchanged, waiting];
                (rollout.as_str(), numbers, one.halted_at.as_deref())
            }));
        publisher.publish(progress, &mut published).await;
    }
}

struct Publisher<'a> {
    ctx: &'a Context,
    namespace: String,
}

impl Publisher<'_> {
    /// Writes what differs from what is published. A failure is logged and tried again with the next
    /// change.
    async fn publish(
        &self,
        progress: BTreeMap<String, Progress>,
        published: &mut Option<BTreeMap<String, Progress>>,
    ) {
        let before = match published.take() {
            Some(before) => before,
            None => match self.read().await {
                Ok(before) => before,
                Err(error) => {
                    tracing::warn!(%error, "failed to read the progress of rollouts");
                    return;
                }
            },
        };
        if before == progress {
            *published = Some(before);
            return;
        }
        match self.write(&before, &progress).await {
            Ok(()) => *published = Some(progress),
            Err(error) => tracing::warn!(%error, "failed to write the progress of rollouts"),
        }
    }

    async fn read(&self) -> Result<BTreeMap<String, Progress>, kube::Error> {
        let found = self.api().get_opt(ROLLOUTS_CONFIG_MAP).await?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        let parse =
            |(rollout, text): (String, String)| Some((rollout, serde_json::from_str(&text).ok()?));
        Ok(data.into_iter().filter_map(parse).collect())
    }

    async fn write(
        &self,
        before: &BTreeMap<String, Progress>,
        progress: &BTreeMap<String, Progress>,
    ) -> Result<(), kube::Error> {
        let text = |one: &Progress| serde_json::to_string_pretty(one).unwrap_or_default();
        let data: BTreeMap<_, _> = progress
            .iter()
            .map(|(rollout, one)| (rollout, text(one)))
            .collect();
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": ROLLOUTS_CONFIG_MAP,
                "labels": { labels::PART_OF: labels::PRODUCT },
            },
            "data": data,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        self.api()
            .patch(ROLLOUTS_CONFIG_MAP, &parameters, &Patch::Apply(map))
            .await?;
        let changed = progress
            .iter()
            .filter(|(rollout, one)| before.get(*rollout) != Some(one));
        for (rollout, one) in changed {
            if let Some(plugin) = rollout.strip_prefix(PLUGIN_PREFIX) {
                self.write_status(plugin, one).await?;
            }
        }
        Ok(())
    }

    /// Writes the progress to the status of a `SchemaPlugin`.
    async fn write_status(&self, plugin: &str, progress: &Progress) -> Result<(), kube::Error> {
        let rollout = RolloutProgress {
            component_digest: progress.target.clone(),
            summary: progress.summary.clone(),
            halted_at: progress.halted_at.clone(),
            message: Some(progress.message.clone()).filter(|text| !text.is_empty()),
        };
        let document = json!({
            "apiVersion": SchemaPlugin::api_version(&()),
            "kind": SchemaPlugin::kind(&()),
            "metadata": { "name": plugin },
            "status": { "rollout": rollout },
        });
        let api = Api::<SchemaPlugin>::all(self.ctx.client.clone());
        let parameters = PatchParams::apply(PROGRESS_MANAGER).force();
        match api
            .patch_status(plugin, &parameters, &Patch::Apply(&document))
            .await
        {
            Ok(_) => Ok(()),
            // It was deleted.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.ctx.client.clone(), &self.namespace)
    }
}
