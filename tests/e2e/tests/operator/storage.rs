//! The volume of a server: how it grows, and how it survives its resource.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Service};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PropagationPolicy};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, condition, has_condition, minimal};
use llsd_testbed::eventually;
use serde_json::{Value, json};

fn with_volume(size: &str) -> Value {
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"storage": {"size": size}});
    resource
}

fn requested(claim: &PersistentVolumeClaim) -> Option<String> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    Some(resources.requests.as_ref()?.get("storage")?.0.clone())
}

fn size(size: &str) -> Value {
    json!({"spec": {"workload": {"storage": {"size": size}}}})
}

/// Creates or changes a StorageClass without a provisioner.
async fn apply_class(operator: &Operator, name: &str, allows_expansion: bool) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner", "allowVolumeExpansion": allows_expansion,
    });
    Api::<StorageClass>::all(operator.client.clone())
        .patch(
            name,
            &PatchParams::apply("test").force(),
            &Patch::Apply(&class),
        )
        .await
        .unwrap();
}

/// Binds a volume of a class to a claim that has no class yet.
async fn bind(operator: &Operator, claim: &str, class: &str) {
    let set_class = json!({"spec": {"storageClassName": class}});
    operator
        .api::<PersistentVolumeClaim>()
        .patch(claim, &PatchParams::default(), &Patch::Merge(&set_class))
        .await
        .unwrap();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": class},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": class, "hostPath": {"path": "/var/empty"},
            "claimRef": {"namespace": operator.namespace.name(), "name": claim},
        },
    });
    Api::<PersistentVolume>::all(operator.client.clone())
        .patch(
            class,
            &PatchParams::apply("test").force(),
            &Patch::Apply(&volume),
        )
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_grows_if_its_class_allows_it_and_the_status_says_if_not() {
    let operator = Operator::start("volume-size").await;
    operator.create(&with_volume("10Gi")).await;
    let claims: Api<PersistentVolumeClaim> = operator.api();
    let exists = |one: Option<&PersistentVolumeClaim>| one.is_some();
    eventually(&claims, "minimal-pvc", DEADLINE, "created", exists)
        .await
        .unwrap();
    let class = format!("class-{}", operator.namespace.name());
    apply_class(&operator, &class, false).await;
    bind(&operator, "minimal-pvc", &class).await;

    let storage = |status: &'static str, reason: &'static str| {
        move |cr: &Distribution| {
            condition(cr, "StorageReady").is_some_and(|(a, b, _)| a == status && b == reason)
        }
    };
    operator
        .wait_for("minimal", "bound", storage("True", "StorageReady"))
        .await;
    operator.edit("minimal", size("20Gi")).await;
    let cr = operator
        .wait_for(
            "minimal",
            "rejected",
            storage("False", "StorageResizeFailed"),
        )
        .await;
    let (_, _, message) = condition(&cr, "StorageReady").unwrap();
    assert!(message.contains("must support resize"), "{message}");
    // The API server uses the same status code as for a missing permission.
    operator.ignore_earlier_denials();

    operator.edit("minimal", size("5Gi")).await;
    let is_explained = |cr: &Distribution| {
        condition(cr, "StorageReady").is_some_and(|(.., message)| message.contains("cannot shrink"))
    };
    operator
        .wait_for("minimal", "explained", is_explained)
        .await;
    let claim = claims.get("minimal-pvc").await.unwrap();
    assert_eq!(requested(&claim).as_deref(), Some("10Gi"));

    apply_class(&operator, &class, true).await;
    operator.edit("minimal", size("20Gi")).await;
    let has_grown =
        |one: Option<&PersistentVolumeClaim>| one.and_then(requested).as_deref() == Some("20Gi");
    eventually(&claims, "minimal-pvc", DEADLINE, "grown", has_grown)
        .await
        .unwrap();
    operator
        .wait_for("minimal", "resized", storage("True", "StorageReady"))
        .await;
    let (classes, volumes) = (
        Api::<StorageClass>::all(operator.client.clone()),
        Api::<PersistentVolume>::all(operator.client.clone()),
    );
    let now = DeleteParams::default();
    classes.delete(&class, &now).await.unwrap();
    volumes.delete(&class, &now).await.unwrap();
    // The API server may have denied the first attempt before it saw the changed class.
    operator.ignore_earlier_denials();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_created_again_adopts_the_objects_that_it_left_behind() {
    let operator = Operator::start("orphans").await;
    let resource = with_volume("10Gi");
    operator.create(&resource).await;
    // The testbed provides no volumes, so the resource does not become ready.
    let is_written = |cr: &Distribution| has_condition(cr, "DeploymentUpdated", "True");
    operator.wait_for("minimal", "written", is_written).await;
    // The garbage collector can orphan only what it has seen, and it runs beside this controller.
    let is_observed = |one: Option<&Deployment>| {
        one.is_some_and(|one| {
            one.status
                .as_ref()
                .is_some_and(|it| it.observed_generation.is_some())
        })
    };
    let deployments: Api<Deployment> = operator.api();
    eventually(&deployments, "minimal", DEADLINE, "observed", is_observed)
        .await
        .unwrap();
    let before = uids(&operator).await;

    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    let resources: Api<Distribution> = operator.api();
    resources.delete("minimal", &orphan).await.unwrap();
    operator.wait_until_deleted::<Distribution>("minimal").await;
    let created = operator.create(&resource).await;
    operator.wait_for("minimal", "written", is_written).await;

    assert_eq!(uids(&operator).await, before, "an object was replaced");
    let deployment = deployments.get("minimal").await.unwrap();
    assert_eq!(deployment.owner_references()[0].uid, created.uid().unwrap());
    // The operator manages the Service and reports the claim again.
    let port = json!({"spec": {"networking": {"port": 9000}}});
    operator.edit("minimal", port).await;
    let is_changed = |one: Option<&Service>| {
        let ports = one.and_then(|one| one.spec.as_ref()?.ports.as_deref());
        ports.is_some_and(|ports| ports[0].port == 9000)
    };
    let services: Api<Service> = operator.api();
    eventually(
        &services,
        "minimal-service",
        DEADLINE,
        "changed",
        is_changed,
    )
    .await
    .unwrap();
    let is_reported = |cr: &Distribution| condition(cr, "StorageReady").is_some();
    operator.wait_for("minimal", "reported", is_reported).await;
}

async fn uids(operator: &Operator) -> [Option<String>; 3] {
    let claims = operator.api::<PersistentVolumeClaim>();
    let services = operator.api::<Service>();
    let deployments = operator.api::<Deployment>();
    [
        claims.get("minimal-pvc").await.unwrap().uid(),
        services.get("minimal-service").await.unwrap().uid(),
        deployments.get("minimal").await.unwrap().uid(),
    ]
}
