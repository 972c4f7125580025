//! Three servers that take an update one after the other, of which the second one fails.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec, ResourceQuota};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use llsd_api::Distribution;
use llsd_testbed::{Mark, eventually};
use serde_json::{Value, json};

use crate::{DEADLINE, RolloutState, TestEnv, condition, named};

/// The operator's ConfigMap.
const SETTINGS: &str = "llama-stack-operator-config";
/// The ConfigMap with the progress of rollouts.
const ROLLOUTS: &str = "llsd-rollouts";
const QUOTA: &str = "cores";
/// A resource whose update does not end, so that the others wait.
const BUSY: &str = "busy";

/// The resources `a`, `b` and `c` before an update. A quota admits a second pod of `a` and of `c`, but
/// not of `b`.
pub struct Fleet {
    templates: [PodTemplateSpec; 3],
    last: RolloutState,
    mark: Mark,
}

impl Fleet {
    /// The names of the resources, in the order in which they are updated.
    pub const NAMES: [&str; 3] = ["a", "b", "c"];

    /// Creates the resources and waits until they are ready. Their rollouts fail after ten seconds.
    pub async fn create(env: &TestEnv, resource: impl Fn(&str) -> Value) {
        let mut busy = named(BUSY);
        busy["spec"]["distribution"] = json!({"name": "remote-vllm"});
        busy["spec"]["workload"] = with_cores("20");
        env.create(&busy).await;
        for (name, cores) in Self::NAMES.iter().zip(["1", "4", "1"]) {
            let mut resource = resource(name);
            resource["spec"]["workload"] = with_cores(cores);
            resource["spec"]["workload"]["progressDeadlineSeconds"] = json!(10);
            env.create(&resource).await;
        }
        for name in Self::NAMES.into_iter().chain([BUSY]) {
            env.wait_until_ready(name).await;
        }
    }

    /// Changes the image of a distribution and the key `rollouts` in the operator's settings.
    pub async fn apply_settings(env: &TestEnv, image_override: &str, rollouts: &str) {
        let settings = json!({
            "image-overrides": format!("remote-vllm: mirror.example/llamastack/remote-vllm:0.7.1\n{image_override}"),
            "rollouts": rollouts,
        });
        env.apply_config_map(SETTINGS, settings).await;
    }

    /// Sets the quota, records how the servers run before the update, and lets updates wait until
    /// [`Fleet::assert_halts`].
    pub async fn before_update(env: &TestEnv) -> Self {
        // 26 are in use.
        limit_cores(env, 28).await;
        Self::apply_settings(env, "", "").await;
        let busy = format!("{}/{BUSY}", env.namespace.name());
        wait_for_progress(env, "distribution.remote-vllm", "busy", |progress| {
            progress["inProgress"] == json!([busy])
        })
        .await;
        let [a, b, c] = Self::NAMES.map(|name| template(env, name));
        Self {
            templates: [a.await, b.await, c.await],
            last: RolloutState::of(env, "c").await,
            mark: env.mark().await,
        }
    }

    /// Waits until all resources wait for an update, and then until its rollout halts at `b`. Fails
    /// unless `a` was updated before, `b` has its old pod template again, and `c` was not touched.
    pub async fn assert_halts(&self, env: &TestEnv, rollout: &str) {
        // A CA bundle concerns all resources.
        let waiting = match rollout {
            "ca-bundle" => "0 of 4",
            _ => "0 of 3",
        };
        wait_for_progress(env, rollout, "waiting", |progress| {
            progress["summary"] == json!(waiting)
        })
        .await;
        let undo = json!({"metadata": {"annotations": {"llamastack.io/undo": "1"}}});
        env.edit(BUSY, undo).await;
        let b = format!("{}/b", env.namespace.name());
        wait_for_progress(env, rollout, "halted at b", |progress| {
            progress["haltedAt"] == json!(b)
                && progress["summary"] == json!(format!("1 of 3, halted at {b}"))
        })
        .await;
        let is_halted = |cr: &Distribution| {
            condition(cr, "UpdateAvailable").is_some_and(|(_, reason, _)| reason == "RolloutHalted")
        };
        env.wait_for("b", "halted", is_halted).await;
        env.wait_until_ready("b").await;
        self.assert_order(env).await;
        let events: Api<Event> = env.api();
        let recorded = events.list(&ListParams::default()).await.unwrap();
        let is_about_b = |event: &Event| {
            event.reason.as_deref() == Some("RolloutHalted")
                && event.regarding.as_ref().and_then(|one| one.name.as_deref()) == Some("b")
        };
        assert!(recorded.iter().any(is_about_b));
        self.assert_still_halted(env).await;
        // The operator has reconciled since, and continued with neither of them.
        env.create(&named("later")).await;
        env.wait_until_ready("later").await;
        self.assert_still_halted(env).await;
    }

    /// Fails unless `a` has another pod template than before, `b` the same one, and `c` the same pods.
    pub async fn assert_still_halted(&self, env: &TestEnv) {
        let [a, b, _] = &self.templates;
        assert_ne!(template(env, "a").await, *a, "a was not updated");
        assert_eq!(template(env, "b").await, *b, "b was not set back");
        assert_eq!(RolloutState::of(env, "c").await, self.last);
    }

    /// Fails unless the pods of `a` were available before `b` was changed.
    async fn assert_order(&self, env: &TestEnv) {
        let writes = env.writes_since(self.mark).await;
        let find = |write: &str| writes.iter().position(|one| one.starts_with(write));
        // The annotation of a revision says that its pods are available.
        let available = find("patch controllerrevisions a-rev-");
        let next = find("create controllerrevisions b-rev-");
        let is_ordered = available.zip(next).is_some_and(|(one, other)| one < other);
        assert!(is_ordered, "{writes:#?}");
        assert_eq!(find("create controllerrevisions c-rev-"), None);
    }

    /// Removes the quota.
    pub async fn remove_quota(env: &TestEnv) {
        let quotas: Api<ResourceQuota> = env.api();
        quotas.delete(QUOTA, &Default::default()).await.unwrap();
    }
}

/// Waits for the progress of a rollout.
async fn wait_for_progress(
    env: &TestEnv,
    rollout: &str,
    state: &str,
    holds: impl Fn(&Value) -> bool,
) {
    let maps: Api<ConfigMap> = env.api();
    let matches = |map: Option<&ConfigMap>| {
        let text = map.and_then(|map| map.data.as_ref()?.get(rollout));
        let progress = text.and_then(|text| serde_json::from_str(text).ok());
        progress.is_some_and(|progress: Value| holds(&progress))
    };
    eventually(&maps, ROLLOUTS, DEADLINE, state, matches)
        .await
        .unwrap();
}

/// Lets new pods of a namespace fail that request more than so many cores together.
async fn limit_cores(env: &TestEnv, cores: u32) {
    let quota = json!({
        "metadata": {"name": QUOTA},
        "spec": {"hard": {"requests.cpu": cores.to_string()}},
    });
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    let api: Api<ResourceQuota> = env.api();
    api.create(&PostParams::default(), &quota).await.unwrap();
    let is_counted = |one: Option<&ResourceQuota>| {
        let status = one.and_then(|one| one.status.as_ref());
        status.is_some_and(|status| status.used.is_some())
    };
    eventually(&api, QUOTA, DEADLINE, "counted", is_counted)
        .await
        .unwrap();
}

fn with_cores(cores: &str) -> Value {
    json!({"resources": {"requests": {"cpu": cores}}})
}

async fn template(env: &TestEnv, name: &str) -> PodTemplateSpec {
    let deployment: Deployment = env.deployment(name).await;
    deployment.spec.unwrap().template
}
