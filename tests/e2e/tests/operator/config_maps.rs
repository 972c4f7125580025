//! Generated ConfigMaps that no pod uses any more are deleted.

use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, config_map, has_condition, minimal};
use llsd_testbed::until;
use serde_json::json;

async fn generated(operator: &Operator) -> Vec<String> {
    let maps = operator.api::<ConfigMap>();
    let maps = maps.list(&ListParams::default()).await.unwrap();
    let names = maps.into_iter().map(|map| map.name_any());
    names
        .filter(|name| name.starts_with("minimal-config-"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn config_maps_do_not_pile_up_in_a_stuck_rollout_or_after_a_switch_to_an_override() {
    let operator = Operator::start("pruned").await;
    operator.create(&minimal()).await;
    let running = config_map(&operator.wait_until_ready("minimal").await);
    // No second pod can start, so that every rollout is stuck.
    let quota = json!({"metadata": {"name": "one-pod"}, "spec": {"hard": {"pods": "1"}}});
    let quotas = operator.api::<ResourceQuota>();
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    until("the quota counts the pod", DEADLINE, || async {
        let status = quotas.get("one-pod").await?.status;
        let used = status.and_then(|status| status.used).unwrap_or_default();
        anyhow::ensure!(used.get("pods").is_some_and(|one| one.0 == "1"), "{used:?}");
        Ok(())
    })
    .await
    .unwrap();
    for number in 0..6 {
        let change = json!({"spec": {"resources": {"models": [format!("model-{number}")]}}});
        operator.edit("minimal", change).await;
        let is_stuck = |cr: &Distribution| has_condition(cr, "Stalled", "True");
        operator.wait_for("minimal", "stuck", is_stuck).await;
    }
    // The current one, the one before, and the one of the pod that runs.
    until("unused ConfigMaps are deleted", DEADLINE, || async {
        let names = generated(&operator).await;
        anyhow::ensure!(names.len() <= 3, "{names:?}");
        anyhow::ensure!(names.contains(&running), "{names:?}");
        Ok(())
    })
    .await
    .unwrap();

    let now = DeleteParams::default();
    quotas.delete("one-pod", &now).await.unwrap();
    let file = json!({"metadata": {"name": "mine"}, "data": {"config.yaml": "version: 2"}});
    let file = serde_json::from_value(file).unwrap();
    let maps = operator.api::<ConfigMap>();
    maps.create(&PostParams::default(), &file).await.unwrap();
    let switch = json!({"spec": {
        "overrideConfig": {"configMapName": "mine"}, "providers": null, "resources": null,
    }});
    operator.edit("minimal", switch).await;
    operator.wait_until_ready("minimal").await;
    until("only the previous ConfigMap is left", DEADLINE, || async {
        let names = generated(&operator).await;
        anyhow::ensure!(names.len() <= 1, "{names:?}");
        Ok(())
    })
    .await
    .unwrap();
}
