//! The `SchemaPlugin` of one test.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use llsd_api::SchemaPlugin;
use llsd_api::schema_plugin::RolloutProgress;
use llsd_e2e::{DEADLINE, Operator, SERVED_BY};
use llsd_testbed::{eventually, until};
use serde_json::{Value, json};

/// A `SchemaPlugin` that only the operator of this test loads.
pub(crate) struct TestPlugin<'a> {
    pub(crate) operator: &'a Operator,
    pub(crate) api: Api<SchemaPlugin>,
    pub(crate) name: String,
}

impl<'a> TestPlugin<'a> {
    pub(crate) async fn create(operator: &'a Operator, spec: Value) -> Self {
        let namespace = operator.namespace.name();
        let name = format!("plugin-{namespace}");
        let resource = json!({
            "apiVersion": "llamastack.io/v1alpha1",
            "kind": "SchemaPlugin",
            "metadata": { "name": name, "labels": { SERVED_BY: namespace } },
            "spec": spec,
        });
        let installed = Self::existing(operator, name);
        let resource = serde_json::from_value(resource).unwrap();
        let parameters = PostParams::default();
        installed.api.create(&parameters, &resource).await.unwrap();
        installed
    }

    /// A `SchemaPlugin` that exists already.
    pub(crate) fn existing(operator: &'a Operator, name: String) -> Self {
        Self {
            operator,
            api: Api::all(operator.client.clone()),
            name,
        }
    }

    pub(crate) async fn edit(&self, spec: Value) {
        let change = Patch::Merge(json!({ "spec": spec }));
        let parameters = PatchParams::default();
        self.api
            .patch(&self.name, &parameters, &change)
            .await
            .unwrap();
    }

    /// Waits until the status is about the newest spec and a condition has a status and reason.
    pub(crate) async fn wait_for(&self, kind: &str, status: &str, reason: &str) -> SchemaPlugin {
        let holds = |resource: Option<&SchemaPlugin>| {
            resource.is_some_and(|resource| {
                let reported = resource.status.clone().unwrap_or_default();
                reported.observed_generation == resource.metadata.generation
                    && reported.conditions.iter().any(|one| {
                        one.type_ == kind && one.status == status && one.reason == reason
                    })
            })
        };
        let state = format!("{kind}={status} ({reason})");
        eventually(&self.api, &self.name, DEADLINE, &state, holds)
            .await
            .unwrap()
            .unwrap()
    }

    /// Waits until the progress of its rollout satisfies `condition`.
    pub(crate) async fn wait_for_rollout(
        &self,
        state: &str,
        condition: impl Fn(&RolloutProgress) -> bool,
    ) {
        let holds = |resource: Option<&SchemaPlugin>| {
            let status = resource.and_then(|resource| resource.status.as_ref());
            let progress = status.and_then(|status| status.rollout.as_ref());
            progress.is_some_and(&condition)
        };
        eventually(&self.api, &self.name, DEADLINE, state, holds)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(self) {
        let parameters = DeleteParams::default();
        self.api.delete(&self.name, &parameters).await.unwrap();
    }

    /// The number of ConfigMaps that store a component of the plugin.
    pub(crate) async fn stored_components(&self) -> usize {
        let labelled = ListParams::default().labels("llamastack.io/kept-for");
        let api = self.operator.api::<ConfigMap>();
        api.list_metadata(&labelled).await.unwrap().items.len()
    }

    /// Waits for an event with a reason, and returns its note.
    pub(crate) async fn wait_for_event(&self, reason: &str) -> String {
        let events = Api::<Event>::namespaced(self.operator.client.clone(), "default");
        until(reason, DEADLINE, || async {
            let all = events.list(&ListParams::default()).await?;
            let own = all.iter().filter(|one| {
                let regarding = one.regarding.as_ref();
                regarding.and_then(|one| one.name.as_deref()) == Some(&self.name)
            });
            let mut reasons = Vec::new();
            for event in own {
                if event.reason.as_deref() == Some(reason) {
                    return Ok(event.note.clone().unwrap_or_default());
                }
                reasons.extend(event.reason.clone());
            }
            anyhow::bail!("found only {reasons:?}")
        })
        .await
        .unwrap()
    }
}
