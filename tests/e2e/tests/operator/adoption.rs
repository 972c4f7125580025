//! Adoption of the objects of llama-stack-k8s-operator, without replacing a pod.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use serde_json::json;

use crate::outages::exclusive_testbed;
use crate::upstream::{UpstreamSnapshot, snapshot};
use llsd_e2e::{Operator, TestEnv, condition};

/// The state that adoption must not change.
#[derive(Debug, PartialEq)]
struct ClusterState {
    generation: Option<i64>,
    spec: serde_json::Value,
    pods: Vec<String>,
    addresses: BTreeMap<String, String>,
    claims: BTreeMap<String, (String, Option<String>)>,
}

impl ClusterState {
    async fn of(env: &TestEnv, name: &str) -> Self {
        let all = ListParams::default();
        let deployment = env.api::<Deployment>().get(name).await.unwrap();
        let pods = env.api::<Pod>().list(&all).await.unwrap();
        let mut pods: Vec<_> = pods
            .into_iter()
            .filter_map(|pod| pod.metadata.uid)
            .collect();
        pods.sort();
        let services = env.api::<Service>().list(&all).await.unwrap();
        let address = |service: Service| {
            let ip = service.spec.as_ref()?.cluster_ip.clone()?;
            Some((service.name_any(), ip))
        };
        let claims = env.api::<PersistentVolumeClaim>().list(&all).await.unwrap();
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

/// Adopts one case, asserts that nothing that runs has changed, and returns the operator and the name of
/// the resource.
pub(crate) async fn adopt(snapshot: UpstreamSnapshot, prefix: &str) -> (Operator, String) {
    let env = TestEnv::new(prefix).await;
    let name = snapshot.recreate(&env).await;
    let mut before = ClusterState::of(&env, &name).await;
    let operator = env.start_operator().await;
    operator.wait_until_ready(&name).await;
    let after = ClusterState::of(&operator, &name).await;
    // Our operator creates a Service for every resource; upstream did not.
    let service = format!("{name}-service");
    let address = after.addresses[&service].clone();
    before.addresses.entry(service).or_insert(address);
    assert_eq!(before.spec, after.spec);
    assert_eq!(before, after);
    assert_adopted(&operator, &name).await;
    let has_our_version = |cr: &Distribution| {
        let versions = cr.status.clone().and_then(|status| status.version);
        let named = versions.and_then(|versions| versions.operator_version);
        named.as_deref() == Some(env!("CARGO_PKG_VERSION"))
    };
    operator
        .wait_for(&name, "reconciled by us", has_our_version)
        .await;
    (operator, name)
}

/// Asserts that upstream manages no field of a child any more, and that every child has its owner.
async fn assert_adopted(operator: &Operator, name: &str) {
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
        let object = format!("{} {}", item["kind"], item["metadata"]["name"]);
        assert_eq!(
            item["metadata"]["ownerReferences"][0]["uid"].as_str(),
            uid.as_deref(),
            "{object}"
        );
        for entry in item["metadata"]["managedFields"].as_array().unwrap() {
            let is_upstream = entry["manager"] == "manager" || entry["manager"] == name;
            assert!(!is_upstream, "{object}: {entry}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_upstream_orphaned_gets_its_owner_back() {
    adopt_with_metadata(json!({"ownerReferences": null}), "adopt-orphan").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_without_the_watched_label_keeps_its_pods() {
    let labels = json!({"labels": {"app.kubernetes.io/managed-by": null}});
    adopt_with_metadata(labels, "adopt-unlabelled").await;
}

/// Adopts a Deployment whose metadata was changed.
async fn adopt_with_metadata(metadata: serde_json::Value, prefix: &str) {
    let env = TestEnv::new(prefix).await;
    let name = snapshot!("minimal").recreate(&env).await;
    let deployments: Api<Deployment> = env.api();
    let change = Patch::Merge(json!({"metadata": metadata}));
    deployments
        .patch(&name, &PatchParams::default(), &change)
        .await
        .unwrap();
    let before = ClusterState::of(&env, &name).await;
    let operator = env.start_operator().await;
    operator.wait_until_ready(&name).await;
    assert_eq!(before, ClusterState::of(&operator, &name).await);
    assert_adopted(&operator, &name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_changed_while_upstream_runs_in_any_namespace_and_the_status_says_so() {
    // The Lease would stop the operators of all other tests.
    let (testbed, _guard) = exclusive_testbed().await;
    let env = TestEnv::on(testbed, "adopt-blocked").await;
    let name = snapshot!("minimal").recreate(&env).await;
    // The operator serves only one namespace, and upstream runs in another one.
    let elsewhere = testbed.namespace("upstream").await.unwrap();
    let leases: Api<Lease> = elsewhere.api(&env.client);
    let lease = json!({
        "metadata": {"name": "54e06e98.llamastack.io"},
        "spec": {"holderIdentity": "upstream_1", "leaseDurationSeconds": 3600, "renewTime": format!("{:.6}", Timestamp::now())},
    });
    leases
        .create(
            &PostParams::default(),
            &serde_json::from_value(lease).unwrap(),
        )
        .await
        .unwrap();
    let mark = env.mark().await;
    let operator = env.start_operator().await;
    let is_rejected = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated").is_some_and(|(status, reason, _)| {
            status == "False" && reason == "OtherOperatorRunning"
        })
    };
    let cr = operator.wait_for(&name, "rejected", is_rejected).await;
    let (_, _, message) = condition(&cr, "DeploymentUpdated").unwrap();
    assert!(
        message.contains("54e06e98.llamastack.io") && message.contains("upstream_1"),
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
    assert_adopted(&operator, &name).await;
}
