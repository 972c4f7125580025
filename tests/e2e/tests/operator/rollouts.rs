//! Paced rollouts: existing resources follow what the installer changes, one after the other.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, RolloutState, TestEnv, condition, has_condition, named};
use llsd_testbed::{CertificateAuthority, eventually};
use serde_json::{Value, json};

use crate::adoption::adopt;
use crate::upstream::{UpstreamSnapshot, snapshot};

/// The operator's ConfigMap.
const SETTINGS: &str = "llama-stack-operator-config";
/// The ConfigMap with the progress of rollouts.
const ROLLOUTS: &str = "llsd-rollouts";
const OLD_IMAGE: &str = "docker.io/llamastack/distribution-starter:0.7.1";
const NEW_IMAGE: &str = "mirror.example/llamastack/starter:0.7.1";

fn image(deployment: &Deployment) -> String {
    let pod = deployment.spec.clone().unwrap().template.spec.unwrap();
    pod.containers[0].image.clone().unwrap()
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

/// A resource whose pods request so many cores, and whose rollouts fail soon.
fn with_cores(name: &str, cores: u32) -> Value {
    let mut resource = named(name);
    resource["spec"]["workload"] = json!({
        "resources": {"requests": {"cpu": cores.to_string()}},
        "progressDeadlineSeconds": 10,
    });
    resource
}

/// Lets new pods of a namespace fail that request more than so many cores together.
async fn limit_cores(env: &TestEnv, cores: u32) {
    let quota = json!({
        "metadata": {"name": "cores"},
        "spec": {"hard": {"requests.cpu": cores.to_string()}},
    });
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    let api: Api<ResourceQuota> = env.api();
    api.create(&PostParams::default(), &quota).await.unwrap();
    let is_counted = |one: Option<&ResourceQuota>| {
        one.is_some_and(|one| {
            one.status
                .as_ref()
                .is_some_and(|status| status.used.is_some())
        })
    };
    eventually(&api, "cores", DEADLINE, "counted", is_counted)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_image_of_a_distribution_rolls_out_one_by_one_and_halts_where_pods_fail() {
    let operator = Operator::start("paced").await;
    for (name, cores) in [("a", 1), ("b", 4), ("c", 1)] {
        operator.create(&with_cores(name, cores)).await;
    }
    for name in ["a", "b", "c"] {
        operator.wait_until_ready(name).await;
    }
    // 6 are in use. A surge pod of `a` fits, one of `b` does not.
    limit_cores(&operator, 8).await;
    let c = RolloutState::of(&operator, "c").await;
    let overrides = json!({"image-overrides": format!("starter: {NEW_IMAGE}")});
    operator.apply_config_map(SETTINGS, overrides.clone()).await;

    wait_for_progress(&operator, "distribution.starter", "halted", |progress| {
        progress["haltedAt"] == json!(format!("{}/b", operator.namespace.name()))
    })
    .await;
    wait_for_progress(&operator, "distribution.starter", "at b", |progress| {
        let summary = format!("1 of 3, halted at {}/b", operator.namespace.name());
        progress["summary"] == json!(summary)
    })
    .await;
    assert_eq!(image(&operator.deployment("a").await), NEW_IMAGE);
    let is_halted = |cr: &Distribution| {
        condition(cr, "UpdateAvailable").is_some_and(|(_, reason, _)| reason == "RolloutHalted")
    };
    operator.wait_for("b", "halted", is_halted).await;
    operator.wait_until_ready("b").await;
    assert_eq!(image(&operator.deployment("b").await), OLD_IMAGE);
    assert_eq!(c, RolloutState::of(&operator, "c").await);
    let events: Api<Event> = operator.api();
    let recorded = events.list(&ListParams::default()).await.unwrap();
    let is_about_b = |event: &Event| {
        event.reason.as_deref() == Some("RolloutHalted")
            && event.regarding.as_ref().and_then(|one| one.name.as_deref()) == Some("b")
    };
    assert!(recorded.iter().any(is_about_b));

    // Another leader does not continue either.
    let operator = operator.stop().await.start_operator().await;
    operator.create(&named("new")).await;
    operator.wait_until_ready("new").await;
    assert_eq!(image(&operator.deployment("new").await), NEW_IMAGE);
    assert_eq!(c, RolloutState::of(&operator, "c").await);

    // With room for its pods, `b` is updated on request, and the rollout goes on.
    let quotas: Api<ResourceQuota> = operator.api();
    quotas.delete("cores", &Default::default()).await.unwrap();
    let request = json!({"metadata": {"annotations": {"llamastack.io/update": "1"}}});
    operator.edit("b", request).await;
    let deployments: Api<Deployment> = operator.api();
    let is_new = |one: Option<&Deployment>| one.is_some_and(|one| image(one) == NEW_IMAGE);
    for name in ["b", "c"] {
        eventually(&deployments, name, DEADLINE, "updated", is_new)
            .await
            .unwrap();
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_keep_a_new_image_of_a_distribution_is_only_offered() {
    let operator = Operator::start("kept").await;
    operator.create(&named("a")).await;
    operator.wait_until_ready("a").await;
    let before = RolloutState::of(&operator, "a").await;
    let settings = json!({
        "image-overrides": format!("starter: {NEW_IMAGE}"),
        "rollouts": "distributions: Keep",
    });
    operator.apply_config_map(SETTINGS, settings).await;
    let is_offered = |cr: &Distribution| {
        condition(cr, "UpdateAvailable").is_some_and(|(_, reason, message)| {
            reason == "DistributionImageChanged" && message.contains(NEW_IMAGE)
        })
    };
    operator.wait_for("a", "offered", is_offered).await;
    operator.create(&named("new")).await;
    operator.wait_until_ready("new").await;
    assert_eq!(image(&operator.deployment("new").await), NEW_IMAGE);
    assert_eq!(before, RolloutState::of(&operator, "a").await);
    operator.stop().await;
}

/// A new CA bundle of the platform.
async fn apply_platform_ca(env: &TestEnv) -> String {
    let authority = CertificateAuthority::generate().unwrap();
    let certificate = authority.certificate().to_owned();
    let data = json!({"ca-bundle.crt": certificate});
    env.apply_config_map("odh-trusted-ca-bundle", data).await;
    certificate
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_ca_bundle_rolls_out_one_by_one_and_a_failure_restores_the_old_one() {
    let operator = Operator::start("ca").await;
    let first = apply_platform_ca(&operator).await;
    for (name, cores) in [("a", 1), ("b", 4), ("c", 1)] {
        operator.create(&with_cores(name, cores)).await;
    }
    for name in ["a", "b", "c"] {
        operator.wait_until_ready(name).await;
    }
    limit_cores(&operator, 8).await;
    let second = apply_platform_ca(&operator).await;
    wait_for_progress(&operator, "ca-bundle", "halted", |progress| {
        progress["haltedAt"] == json!(format!("{}/b", operator.namespace.name()))
    })
    .await;
    operator.wait_until_ready("b").await;
    let maps: Api<ConfigMap> = operator.api();
    let trusts = |certificate: &str| {
        let certificate: String = certificate.split_whitespace().collect();
        move |map: Option<&ConfigMap>| {
            let data: Option<&BTreeMap<_, _>> = map.and_then(|map| map.data.as_ref());
            let text = data.and_then(|data| data.get("ca-bundle.crt"));
            let text = text.map(|text| text.split_whitespace().collect::<String>());
            text.as_deref() == Some(certificate.as_str())
        }
    };
    for (name, certificate) in [("a", &second), ("b", &first), ("c", &first)] {
        let map = format!("{name}-ca-bundle");
        eventually(&maps, &map, DEADLINE, "as expected", trusts(certificate))
            .await
            .unwrap();
    }
    for name in ["a", "b", "c"] {
        assert_eq!(image(&operator.deployment(name).await), OLD_IMAGE);
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_ca_bundle_on_an_adopted_server_leaves_its_image_alone() {
    let (operator, name) = adopt(snapshot!("minimal"), "adopted-ca").await;
    let before = operator.deployment(&name).await;
    apply_platform_ca(&operator).await;
    let has_ca = |one: Option<&Deployment>| {
        let pod = one.and_then(|one| one.spec.as_ref()?.template.spec.as_ref());
        let volumes = pod.and_then(|pod| pod.volumes.as_ref());
        volumes.is_some_and(|volumes| volumes.iter().any(|one| one.name == "ca-bundle"))
    };
    let deployments: Api<Deployment> = operator.api();
    let after = eventually(&deployments, &name, DEADLINE, "trusting", has_ca)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(image(&after), image(&before));
    let container = |deployment: &Deployment| {
        let pod = deployment.spec.clone().unwrap().template.spec.unwrap();
        pod.containers[0].clone()
    };
    let (before, after) = (container(&before), container(&after));
    assert_eq!(
        (&before.command, &before.args, &before.startup_probe),
        (&after.command, &after.args, &after.startup_probe)
    );
    let cr = operator.wait_until_ready(&name).await;
    assert!(has_condition(&cr, "UpdateAvailable", "True"));
    operator.stop().await;
}
