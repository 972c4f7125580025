//! The number of pods: the scale subresource, and numbers that others control.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, condition, minimal};
use llsd_testbed::eventually;
use serde_json::json;

fn has_replicas(number: i32) -> impl Fn(Option<&Deployment>) -> bool {
    move |one| {
        one.is_some_and(|one| one.spec.as_ref().and_then(|spec| spec.replicas) == Some(number))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_scaled_through_its_scale_subresource() {
    let operator = Operator::start("scaled").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let template = operator.pod("minimal").await;
    let kubectl = operator.testbed.kubectl("admin").unwrap();
    let kubectl = kubectl
        .args(["scale", "llamastackdistribution/minimal", "--replicas=3"])
        .namespace(operator.namespace.name());
    kubectl.run().await.unwrap().success().unwrap();
    let is_scaled = |cr: &Distribution| {
        let status = cr.status.as_ref().unwrap();
        status.available_replicas == Some(3) && status.replicas == Some(3)
    };
    operator.wait_for("minimal", "scaled", is_scaled).await;
    let scale = operator
        .api::<Distribution>()
        .get_scale("minimal")
        .await
        .unwrap();
    let (spec, status) = (scale.spec.unwrap(), scale.status.unwrap());
    assert_eq!((spec.replicas, status.replicas), (Some(3), 3));
    assert_eq!(
        status.selector.as_deref(),
        Some("app=llama-stack,app.kubernetes.io/instance=minimal")
    );
    // Scaling replaces no pod, although a new resource with several pods would spread them.
    assert_eq!(operator.pod("minimal").await, template);
    let cr = operator.wait_until_ready("minimal").await;
    assert_eq!(condition(&cr, "UpdateAvailable"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_pods_that_the_resource_does_not_mention_is_left_to_others() {
    let operator = Operator::start("unscaled").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let deployments: Api<Deployment> = operator.api();
    let other = json!({"spec": {"replicas": 2}});
    deployments
        .patch("minimal", &PatchParams::default(), &Patch::Merge(&other))
        .await
        .unwrap();
    // A write of the operator after that keeps the number.
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    operator.edit("minimal", change).await;
    operator.wait_until_ready("minimal").await;
    let deployment = deployments.get("minimal").await.unwrap();
    assert!(has_replicas(2)(Some(&deployment)));

    // A number in the resource is enforced, and removing it leaves the pods as they are.
    operator
        .edit("minimal", json!({"spec": {"workload": {"replicas": 1}}}))
        .await;
    eventually(
        &deployments,
        "minimal",
        DEADLINE,
        "one pod",
        has_replicas(1),
    )
    .await
    .unwrap();
    operator.wait_until_ready("minimal").await;
    operator
        .edit("minimal", json!({"spec": {"workload": {"replicas": 3}}}))
        .await;
    operator.wait_until_ready("minimal").await;
    operator
        .edit("minimal", json!({"spec": {"workload": {"replicas": null}}}))
        .await;
    operator.wait_until_ready("minimal").await;
    let deployment = deployments.get("minimal").await.unwrap();
    assert!(has_replicas(3)(Some(&deployment)), "{:?}", deployment.spec);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_with_zero_replicas_keeps_everything_but_its_pods() {
    let operator = Operator::start("hibernation").await;
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"replicas": 1});
    resource["spec"]["networking"] = json!({"expose": {"hostname": "llama.example.com"}});
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let kinds = "configmaps,serviceaccounts,services,ingresses,deployments";
    let uids = async || -> Vec<String> {
        let objects = operator.objects(kinds, &[]).await;
        let mut uids: Vec<String> = objects
            .iter()
            .map(|one| one["metadata"]["uid"].to_string())
            .collect();
        uids.sort();
        uids
    };
    let before = uids().await;
    let template = operator.pod("minimal").await;

    let replicas = |number: i32| json!({"spec": {"workload": {"replicas": number}}});
    operator.edit("minimal", replicas(0)).await;
    let is_stopped = |cr: &Distribution| {
        let status = cr.status.as_ref().unwrap();
        status.replicas == Some(0) && status.observed_generation == cr.metadata.generation
    };
    operator.wait_for("minimal", "stopped", is_stopped).await;
    assert_eq!(uids().await, before);
    assert_eq!(operator.pod("minimal").await, template);

    operator.edit("minimal", replicas(1)).await;
    let is_back = |cr: &Distribution| cr.status.as_ref().unwrap().available_replicas == Some(1);
    operator.wait_for("minimal", "running", is_back).await;
    assert_eq!(uids().await, before);
    operator.stop().await;
}
