//! Faults of the operator do not affect running servers.
//!
//! Faults of the control plane are in `outages.rs`. Those of the registry and of plugins are in
//! `tests/images.rs` and `tests/plugins`.

use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::Options;
use llsd_e2e::{
    DEADLINE, Operator, OperatorProcess, RolloutState, TcpProxy, TestEnv, config_map, minimal,
    named, phase,
};
use llsd_testbed::eventually;
use serde_json::json;

/// How often the operator is started and killed.
const RUNS: u64 = 25;
/// Each of them is changed before every run: a hundred changes in all.
const RESOURCES: [&str; 4] = ["first", "second", "third", "fourth"];

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_converges_after_the_operator_is_killed_at_any_moment() {
    let env = TestEnv::new("killed").await;
    for name in RESOURCES {
        env.create(&named(name)).await;
    }
    let begun = Instant::now();
    let first = OperatorProcess::start(&env);
    for name in RESOURCES {
        env.wait_until_ready(name).await;
    }
    drop(first);
    // A whole run takes this long. Shorter ones are killed before, during or after reconciliation.
    let longest_run = begun.elapsed();
    let deployments: Api<Deployment> = env.api();
    let maps: Api<ConfigMap> = env.api();
    for number in 0..RUNS {
        let change = json!({"spec": {"resources": {"models": [format!("model-{number}")]}}});
        for name in RESOURCES {
            env.edit(name, change.clone()).await;
        }
        let process = OperatorProcess::start(&env);
        // Sleep for a random time instead of waiting for a state, so that the moment varies.
        tokio::time::sleep(longest_run.mul_f64(fastrand::f64())).await;
        drop(process);
        // At any moment the ConfigMap that the Deployment mounts must exist.
        for name in RESOURCES {
            let deployment = deployments.get(name).await.unwrap();
            let pod = deployment.spec.unwrap().template.spec.unwrap();
            let volumes = pod.volumes.into_iter().flatten();
            let mounted = volumes.filter_map(|volume| volume.config_map).next();
            maps.get(&mounted.unwrap().name).await.unwrap();
        }
    }
    let generations = async || -> i64 {
        let all = deployments.list_metadata(&ListParams::default()).await;
        let generations = all.unwrap().items.into_iter();
        generations.filter_map(|one| one.metadata.generation).sum()
    };
    let untouched = i64::try_from(RESOURCES.len()).unwrap();
    assert!(
        generations().await > untouched,
        "no run was long enough to write anything"
    );
    let _last = OperatorProcess::start(&env);
    for name in RESOURCES {
        let cr = env.wait_until_ready(name).await;
        let map = maps.get(&config_map(&cr)).await.unwrap();
        let file = &map.data.unwrap()["config.yaml"];
        assert!(file.contains(&format!("model-{}", RUNS - 1)), "{file}");
        let deployment = deployments.get(name).await.unwrap();
        let generation = deployment.metadata.generation.unwrap();
        assert!(
            generation <= i64::try_from(RUNS).unwrap() + 1,
            "at most one Deployment write per change, but the generation is {generation}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_made_while_the_watches_were_disconnected_are_applied() {
    let env = TestEnv::new("disconnected").await;
    let proxy = TcpProxy::to(env.testbed).await;
    let settings = Options {
        client: proxy.client(env.testbed, &env.user).await,
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    for name in ["stable", "changing"] {
        operator.create(&named(name)).await;
        operator.wait_until_ready(name).await;
    }
    let stable = RolloutState::of(&operator, "stable").await;
    let changing = RolloutState::of(&operator, "changing").await;

    proxy.disconnect();
    let services: Api<Service> = operator.api();
    let now = DeleteParams::default();
    services.delete("changing-service", &now).await.unwrap();
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    operator.edit("changing", change).await;
    operator.create(&named("new")).await;
    assert_eq!(RolloutState::of(&operator, "changing").await, changing);

    proxy.reconnect();
    operator.wait_until_ready("new").await;
    let cr = operator.wait_until_ready("changing").await;
    let map = operator.api::<ConfigMap>().get(&config_map(&cr)).await;
    let file = &map.unwrap().data.unwrap()["config.yaml"];
    assert!(file.contains("another-model"), "{file}");
    let is_created = |one: Option<&Service>| one.is_some();
    eventually(
        &services,
        "changing-service",
        DEADLINE,
        "created again",
        is_created,
    )
    .await
    .unwrap();
    assert_eq!(RolloutState::of(&operator, "stable").await, stable);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_a_competing_controller_are_reverted_every_time() {
    const ATTEMPTS: usize = 10;
    let operator = Operator::start("competing").await;
    let mut enforced = minimal();
    enforced["spec"]["workload"] = json!({"replicas": 1});
    for resource in [enforced, named("stable")] {
        operator.create(&resource).await;
    }
    let cr = operator.wait_until_ready("minimal").await;
    operator.wait_until_ready("stable").await;
    let stable = RolloutState::of(&operator, "stable").await;
    let deployments: Api<Deployment> = operator.api();
    let image = image_of(&deployments.get("minimal").await.unwrap()).unwrap();
    for _ in 0..ATTEMPTS {
        let container = json!({"name": "llama-stack", "image": "competing.example.com/other:1"});
        let competing = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "minimal"},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [container]}}},
        });
        let parameters = PatchParams::apply("competing").force();
        deployments
            .patch("minimal", &parameters, &Patch::Apply(competing))
            .await
            .unwrap();
        let is_reverted = |one: Option<&Deployment>| {
            one.is_some_and(|one| {
                image_of(one).as_ref() == Some(&image)
                    && one.spec.as_ref().and_then(|spec| spec.replicas) == Some(1)
            })
        };
        eventually(&deployments, "minimal", DEADLINE, "reverted", is_reverted)
            .await
            .unwrap();
    }
    let is_ready =
        |now: &Distribution| phase(now) == Some(Phase::Ready) && config_map(now) == config_map(&cr);
    operator.wait_for("minimal", "ready again", is_ready).await;
    assert_eq!(RolloutState::of(&operator, "stable").await, stable);
}

fn image_of(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers[0].image.clone()
}
