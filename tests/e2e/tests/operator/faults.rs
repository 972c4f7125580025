//! What happens to an operator must not happen to what it runs.
//!
//! Faults of the control plane itself are in `outages.rs`; a registry that is down and a plugin that
//! traps are in `plugins.rs` and `images.rs` of the folder above.

use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::Settings;
use llsd_e2e::{
    DEADLINE, Footprint, Line, Operator, Process, Stage, config_map, minimal, named, phase,
};
use llsd_testbed::eventually;
use serde_json::json;

const LIVES: u64 = 25;
/// Changed before each life: a hundred changes in all.
const RESOURCES: [&str; 4] = ["first", "second", "third", "fourth"];

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_at_any_moment_leaves_a_cluster_that_converges() {
    let stage = Stage::set("killed").await;
    for name in RESOURCES {
        stage.create(&named(name)).await;
    }
    let begun = Instant::now();
    let first = Process::start(&stage);
    for name in RESOURCES {
        stage.wait_until_ready(name).await;
    }
    drop(first);
    // It takes so long until all is done, so that the end comes before, within and after the passes.
    let longest_life = begun.elapsed();
    let deployments: Api<Deployment> = stage.api();
    let maps: Api<ConfigMap> = stage.api();
    for number in 0..LIVES {
        let change = json!({"spec": {"resources": {"models": [format!("model-{number}")]}}});
        for name in RESOURCES {
            stage.edit(name, change.clone()).await;
        }
        let process = Process::start(&stage);
        // The moment of death is what varies; nothing is waited for.
        tokio::time::sleep(longest_life.mul_f64(fastrand::f64())).await;
        drop(process);
        // Whatever was reached: the pods' file is there, and belongs to one whole Deployment write.
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
        "no life was long enough to write anything"
    );
    let _last = Process::start(&stage);
    for name in RESOURCES {
        let cr = stage.wait_until_ready(name).await;
        let map = maps.get(&config_map(&cr)).await.unwrap();
        let file = &map.data.unwrap()["config.yaml"];
        assert!(file.contains(&format!("model-{}", LIVES - 1)), "{file}");
        let deployment = deployments.get(name).await.unwrap();
        let generation = deployment.metadata.generation.unwrap();
        assert!(
            generation <= i64::try_from(LIVES).unwrap() + 1,
            "one write of the Deployment for each change at most, not {generation}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_missed_while_its_watches_were_cut_is_made_up_for() {
    let stage = Stage::set("cut").await;
    let line = Line::to(stage.testbed).await;
    let settings = Settings {
        client: line.client(stage.testbed, &stage.user).await,
        ..stage.settings().await
    };
    let operator = stage.operate_with(settings);
    for name in ["steady", "moving"] {
        operator.create(&named(name)).await;
        operator.wait_until_ready(name).await;
    }
    let steady = Footprint::of(&operator, "steady").await;
    let moving = Footprint::of(&operator, "moving").await;

    line.cut();
    let services: Api<Service> = operator.api();
    let now = DeleteParams::default();
    services.delete("moving-service", &now).await.unwrap();
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    operator.edit("moving", change).await;
    operator.create(&named("new")).await;
    assert_eq!(Footprint::of(&operator, "moving").await, moving);

    line.mend();
    operator.wait_until_ready("new").await;
    let cr = operator.wait_until_ready("moving").await;
    let map = operator.api::<ConfigMap>().get(&config_map(&cr)).await;
    let file = &map.unwrap().data.unwrap()["config.yaml"];
    assert!(file.contains("another-model"), "{file}");
    let is_there = |one: Option<&Service>| one.is_some();
    eventually(&services, "moving-service", DEADLINE, "back", is_there)
        .await
        .unwrap();
    assert_eq!(Footprint::of(&operator, "steady").await, steady);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rival_that_writes_the_same_deployment_again_and_again_does_not_win() {
    const ATTEMPTS: usize = 10;
    let operator = Operator::start("rival").await;
    for resource in [minimal(), named("steady")] {
        operator.create(&resource).await;
    }
    let cr = operator.wait_until_ready("minimal").await;
    operator.wait_until_ready("steady").await;
    let steady = Footprint::of(&operator, "steady").await;
    let deployments: Api<Deployment> = operator.api();
    let image = image_of(&deployments.get("minimal").await.unwrap()).unwrap();
    for _ in 0..ATTEMPTS {
        let container = json!({"name": "llama-stack", "image": "rival.example.com/other:1"});
        let rival = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "minimal"},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [container]}}},
        });
        let parameters = PatchParams::apply("rival").force();
        deployments
            .patch("minimal", &parameters, &Patch::Apply(rival))
            .await
            .unwrap();
        let is_ours = |one: Option<&Deployment>| {
            one.is_some_and(|one| {
                image_of(one).as_ref() == Some(&image)
                    && one.spec.as_ref().and_then(|spec| spec.replicas) == Some(1)
            })
        };
        eventually(&deployments, "minimal", DEADLINE, "ours again", is_ours)
            .await
            .unwrap();
    }
    let is_at_rest =
        |now: &Distribution| phase(now) == Some(Phase::Ready) && config_map(now) == config_map(&cr);
    operator
        .wait_for("minimal", "ready again", is_at_rest)
        .await;
    assert_eq!(Footprint::of(&operator, "steady").await, steady);
}

fn image_of(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers[0].image.clone()
}
