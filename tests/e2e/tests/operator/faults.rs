//! What happens to an operator must not happen to what it runs.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{Process, Stage, config_map, minimal, phase};
use serde_json::json;

const CHANGES: u64 = 20;
/// A pass over a changed resource takes less, so that the end comes before, within and after it.
const LONGEST_LIFE: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_at_any_moment_leaves_a_cluster_that_converges() {
    let stage = Stage::set("killed").await;
    stage.create(&minimal()).await;
    let first = Process::start(&stage);
    let mut cr = stage
        .wait_for("minimal", "ready", |cr| phase(cr) == Some(Phase::Ready))
        .await;
    drop(first);
    let deployments: Api<Deployment> = stage.api();
    let maps: Api<ConfigMap> = stage.api();
    for number in 0..CHANGES {
        let change = json!({"spec": {"resources": {"models": [format!("model-{number}")]}}});
        cr = stage.edit("minimal", change).await;
        let process = Process::start(&stage);
        // The moment of death is what varies; nothing is waited for.
        tokio::time::sleep(LONGEST_LIFE.mul_f64(fastrand::f64())).await;
        drop(process);
        // Whatever was reached: the pods' file is there, and belongs to one whole Deployment write.
        let deployment = deployments.get("minimal").await.unwrap();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        let volumes = pod.volumes.into_iter().flatten();
        let mounted = volumes.filter_map(|volume| volume.config_map).next();
        maps.get(&mounted.unwrap().name).await.unwrap();
    }
    let _last = Process::start(&stage);
    let is_newest = |now: &Distribution| {
        phase(now) == Some(Phase::Ready) && now.metadata.generation == cr.metadata.generation
    };
    let cr = stage.wait_for("minimal", "ready at last", is_newest).await;
    let map = maps.get(&config_map(&cr)).await.unwrap();
    let file = &map.data.unwrap()["config.yaml"];
    assert!(file.contains(&format!("model-{}", CHANGES - 1)), "{file}");
    let deployment = deployments.get("minimal").await.unwrap();
    let generation = deployment.metadata.generation.unwrap();
    assert!(
        generation <= i64::try_from(CHANGES).unwrap() + 1,
        "one write of the Deployment for each change at most, not {generation}"
    );
}
