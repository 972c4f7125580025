//! The operator sends no request to the API server unless something changed.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{Operator, config_map, minimal, phase};
use serde_json::json;

const RESOURCES: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn ready_resources_cause_no_requests_even_if_their_metadata_changes() {
    let operator = Operator::start("idle").await;
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
    // The queue is ordered, so once this resource is ready the others have been reconciled.
    let mut last = minimal();
    last["metadata"]["name"] = json!("last");
    operator.create(&last).await;
    operator.wait_until_ready("last").await;
    let requests = operator.requests_since(mark).await;
    let caused: Vec<_> = requests
        .iter()
        .filter(|one| one.contains("resource-") && !one.contains(" events "))
        .collect();
    assert!(caused.is_empty(), "{caused:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_resource_takes_five_requests_and_a_report_for_each_state_of_its_rollout() {
    let operator = Operator::start("requests").await;
    // The first resource also causes the requests that all share.
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let mark = operator.mark().await;
    let mut second = minimal();
    second["metadata"]["name"] = json!("second");
    operator.create(&second).await;
    operator.wait_until_ready("second").await;
    let requests = operator.requests_since(mark).await;
    let requests = requests.into_iter().filter(|one| one.contains(" second"));
    let (statuses, others): (Vec<_>, Vec<_>) = requests.partition(|one| one.contains("/status "));
    let (events, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|one| one.contains(" events "));
    // Revision, ConfigMap, ServiceAccount, Service, Deployment.
    assert!(others.len() <= 5, "{others:#?}");
    // Created, ready, and between them no pod yet and a pod that is not ready, if it takes long enough to be
    // seen.
    assert!(statuses.len() <= 4, "{statuses:#?}");
    // It became ready.
    assert!(events.len() <= 1, "{events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_operator_writes_nothing() {
    let operator = Operator::start("restart").await;
    operator.create(&minimal()).await;
    let before = operator.wait_until_ready("minimal").await;
    let env = operator.stop().await;
    let mark = env.mark().await;
    let operator = env.start_operator().await;
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
async fn the_current_and_the_previous_generated_config_map_are_kept() {
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
        operator.wait_until_deleted::<ConfigMap>(old).await;
    }
    let generated = ListParams::default().labels("app.kubernetes.io/component=config");
    let mut remaining: Vec<String> = maps
        .list(&generated)
        .await
        .unwrap()
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    remaining.sort();
    let mut expected = seen[2..].to_vec();
    expected.sort();
    assert_eq!(remaining, expected);
}
