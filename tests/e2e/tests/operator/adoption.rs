//! Takes over what the first operator left, without a pod noticing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use serde_json::json;

use crate::first_operator::{Snapshot, snapshot};
use llsd_e2e::{Operator, Stage, condition};

/// What must be the same before and after.
#[derive(Debug, PartialEq)]
struct Running {
    generation: Option<i64>,
    spec: serde_json::Value,
    pods: Vec<String>,
    addresses: BTreeMap<String, String>,
    claims: BTreeMap<String, (String, Option<String>)>,
}

impl Running {
    async fn of(stage: &Stage, name: &str) -> Self {
        let all = ListParams::default();
        let deployment = stage.api::<Deployment>().get(name).await.unwrap();
        let pods = stage.api::<Pod>().list(&all).await.unwrap();
        let mut pods: Vec<_> = pods
            .into_iter()
            .filter_map(|pod| pod.metadata.uid)
            .collect();
        pods.sort();
        let services = stage.api::<Service>().list(&all).await.unwrap();
        let address = |service: Service| {
            let ip = service.spec.as_ref()?.cluster_ip.clone()?;
            Some((service.name_any(), ip))
        };
        let claims = stage
            .api::<PersistentVolumeClaim>()
            .list(&all)
            .await
            .unwrap();
        let identity = |claim: PersistentVolumeClaim| {
            let volume = claim
                .spec
                .as_ref()
                .and_then(|spec| spec.volume_name.clone());
            (claim.name_any(), (claim.uid().unwrap_or_default(), volume))
        };
        Self {
            generation: deployment.metadata.generation,
            spec: json!(deployment.spec),
            pods,
            addresses: services.into_iter().filter_map(address).collect(),
            claims: claims.into_iter().map(identity).collect(),
        }
    }
}

/// Takes one case over, checks that nothing that runs has changed, and gives the operator.
pub(crate) async fn take_over(snapshot: Snapshot, prefix: &str) -> (Operator, String) {
    let stage = Stage::set(prefix).await;
    let name = snapshot.recreate(&stage).await;
    let mut before = Running::of(&stage, &name).await;
    let operator = stage.operate().await;
    operator.wait_until_ready(&name).await;
    let after = Running::of(&operator, &name).await;
    // Every resource has a Service now, also where the first operator made none.
    let service = format!("{name}-service");
    let address = after.addresses[&service].clone();
    before.addresses.entry(service).or_insert(address);
    assert_eq!(before.spec, after.spec);
    assert_eq!(before, after);
    assert_moved(&operator, &name).await;
    let is_ours = |cr: &Distribution| {
        let versions = cr.status.clone().and_then(|status| status.version);
        let named = versions.and_then(|versions| versions.operator_version);
        named.as_deref() == Some(env!("CARGO_PKG_VERSION"))
    };
    operator.wait_for(&name, "served by us", is_ours).await;
    (operator, name)
}

/// The first operator owns no field of a child any more, and every child has its owner.
async fn assert_moved(operator: &Operator, name: &str) {
    let uid = operator
        .api::<Distribution>()
        .get(name)
        .await
        .unwrap()
        .uid();
    let kinds = [
        "deployments",
        "services",
        "serviceaccounts",
        "horizontalpodautoscalers",
        "poddisruptionbudgets",
        "networkpolicies",
        "ingresses",
        "configmaps",
    ];
    let items = operator.children(&kinds.join(",")).await;
    assert!(items.len() >= 3, "{items:#?}");
    for item in items {
        let what = format!("{} {}", item["kind"], item["metadata"]["name"]);
        assert_eq!(
            item["metadata"]["ownerReferences"][0]["uid"].as_str(),
            uid.as_deref(),
            "{what}"
        );
        for entry in item["metadata"]["managedFields"].as_array().unwrap() {
            let is_theirs = entry["manager"] == "manager" || entry["manager"] == name;
            assert!(!is_theirs, "{what}: {entry}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_the_first_operator_orphaned_belongs_to_its_resource_again() {
    take_over_without(json!({"ownerReferences": null}), "take-orphan").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_lost_the_label_by_which_it_is_watched_keeps_its_pods() {
    let labels = json!({"labels": {"app.kubernetes.io/managed-by": null}});
    take_over_without(labels, "take-unlabelled").await;
}

/// Takes a Deployment over of whose metadata something was changed.
async fn take_over_without(metadata: serde_json::Value, prefix: &str) {
    let stage = Stage::set(prefix).await;
    let name = snapshot!("minimal").recreate(&stage).await;
    let deployments: Api<Deployment> = stage.api();
    let change = Patch::Merge(json!({"metadata": metadata}));
    deployments
        .patch(&name, &PatchParams::default(), &change)
        .await
        .unwrap();
    let before = Running::of(&stage, &name).await;
    let operator = stage.operate().await;
    operator.wait_until_ready(&name).await;
    assert_eq!(before, Running::of(&operator, &name).await);
    assert_moved(&operator, &name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_first_operator_runs_nothing_is_touched_and_the_status_says_so() {
    let stage = Stage::set("take-refused").await;
    let name = snapshot!("minimal").recreate(&stage).await;
    let leases: Api<Lease> = stage.api();
    let lease = json!({
        "metadata": {"name": "54e06e98.llamastack.io"},
        "spec": {"holderIdentity": "first_1", "leaseDurationSeconds": 3600, "renewTime": format!("{:.6}", Timestamp::now())},
    });
    leases
        .create(
            &PostParams::default(),
            &serde_json::from_value(lease).unwrap(),
        )
        .await
        .unwrap();
    let mark = stage.mark().await;
    let operator = stage.operate().await;
    let is_refused = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated").is_some_and(|(status, reason, _)| {
            status == "False" && reason == "OtherOperatorRunning"
        })
    };
    let cr = operator.wait_for(&name, "refused", is_refused).await;
    let (_, _, message) = condition(&cr, "DeploymentUpdated").unwrap();
    assert!(
        message.contains("54e06e98.llamastack.io") && message.contains("first_1"),
        "{message}"
    );
    let writes = operator.writes_since(mark).await;
    let others: Vec<_> = writes
        .iter()
        .filter(|one| !one.contains("llamastackdistributions") && !one.contains("events"))
        .collect();
    assert!(others.is_empty(), "{others:#?}");

    leases
        .delete("54e06e98.llamastack.io", &DeleteParams::default())
        .await
        .unwrap();
    operator.wait_until_ready(&name).await;
    assert_moved(&operator, &name).await;
}
