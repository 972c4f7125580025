//! What the operator asks of the API server: nothing, unless something changed.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{Operator, config_map, minimal, phase};
use serde_json::json;

const RESOURCES: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn ready_resources_cost_no_request_and_neither_does_a_touch_of_one() {
    let operator = Operator::start("rest").await;
    let mut names = Vec::new();
    for number in 0..RESOURCES {
        let mut resource = minimal();
        let name = format!("resource-{number}");
        resource["metadata"]["name"] = json!(name);
        operator.create(&resource).await;
        names.push(name);
    }
    for name in &names {
        operator.wait_until_ready(name).await;
    }
    let mark = operator.mark().await;
    for name in &names {
        let label = json!({"metadata": {"labels": {"touched": "yes"}}});
        operator.edit(name, label).await;
    }
    // What the operator is told of last is reconciled last: when this one is ready, the touches of
    // the others have been looked at.
    let mut last = minimal();
    last["metadata"]["name"] = json!("last");
    operator.create(&last).await;
    operator.wait_until_ready("last").await;
    let requests = operator.requests_since(mark).await;
    let touched: Vec<_> = requests
        .iter()
        .filter(|one| one.contains("resource-") && !one.contains(" events "))
        .collect();
    assert!(touched.is_empty(), "{touched:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_resource_costs_at_most_eight_requests() {
    let operator = Operator::start("cost").await;
    // The first resource pays for what all share.
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let mark = operator.mark().await;
    let mut second = minimal();
    second["metadata"]["name"] = json!("second");
    operator.create(&second).await;
    operator.wait_until_ready("second").await;
    let requests: Vec<_> = operator
        .requests_since(mark)
        .await
        .into_iter()
        .filter(|one| one.contains(" second"))
        .collect();
    assert!(requests.len() <= 8, "{requests:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_starts_again_finds_nothing_to_do() {
    let operator = Operator::start("again").await;
    operator.create(&minimal()).await;
    let before = operator.wait_until_ready("minimal").await;
    let stage = operator.stop().await;
    let mark = stage.mark().await;
    let operator = stage.operate().await;
    let mut last = minimal();
    last["metadata"]["name"] = json!("last");
    operator.create(&last).await;
    operator.wait_until_ready("last").await;
    let writes: Vec<_> = operator
        .writes_since(mark)
        .await
        .into_iter()
        .filter(|one| one.contains("minimal") && !one.contains(" events "))
        .collect();
    assert!(writes.is_empty(), "{writes:#?}");
    let after = operator.api::<Distribution>().get("minimal").await.unwrap();
    assert_eq!(
        before.metadata.resource_version,
        after.metadata.resource_version
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_generated_files_the_current_and_the_previous_stay() {
    let operator = Operator::start("prune").await;
    operator.create(&minimal()).await;
    let mut seen = vec![config_map(&operator.wait_until_ready("minimal").await)];
    for model in ["second", "third", "fourth"] {
        let change = json!({"spec": {"resources": {"models": [model]}}});
        operator.edit("minimal", change).await;
        let newest = seen[seen.len() - 1].clone();
        let is_new =
            |cr: &Distribution| phase(cr) == Some(Phase::Ready) && config_map(cr) != newest;
        let cr = operator
            .wait_for("minimal", "ready with another configuration", is_new)
            .await;
        seen.push(config_map(&cr));
    }
    let maps: Api<ConfigMap> = operator.api();
    for old in &seen[..2] {
        operator.wait_until_gone::<ConfigMap>(old).await;
    }
    let of_resource = ListParams::default().labels("app.kubernetes.io/component=config");
    let mut left: Vec<String> = maps
        .list(&of_resource)
        .await
        .unwrap()
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    left.sort();
    let mut kept = seen[2..].to_vec();
    kept.sort();
    assert_eq!(left, kept);
}
