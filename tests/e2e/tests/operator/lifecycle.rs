//! The life of a resource: creation, changes, drift and deletion.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::install_definitions;
use llsd_e2e::{Operator, condition, config_map, has_condition, minimal, named, phase};
use llsd_testbed::Testbed;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_crds_are_accepted_and_applying_them_again_changes_nothing() {
    let client = Testbed::shared()
        .await
        .unwrap()
        .client("admin")
        .await
        .unwrap();
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    install_definitions(&client, None).await.unwrap();
    let first = api
        .get("llamastackdistributions.llamastack.io")
        .await
        .unwrap();
    install_definitions(&client, None).await.unwrap();
    let second = api
        .get("llamastackdistributions.llamastack.io")
        .await
        .unwrap();
    assert_eq!(
        first.metadata.resource_version,
        second.metadata.resource_version
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minimal_resource_becomes_a_ready_server() {
    let operator = Operator::start("minimal").await;
    operator.create(&minimal()).await;
    let cr = operator.wait_until_ready("minimal").await;

    let map = operator
        .api::<ConfigMap>()
        .get(&config_map(&cr))
        .await
        .unwrap();
    assert_eq!(map.immutable, Some(true));
    let file = &map.data.as_ref().unwrap()["config.yaml"];
    assert!(
        file.contains("http://vllm:8000/v1") && file.contains("llama3.2-8b"),
        "{file}"
    );

    let deployment = operator.api::<Deployment>().get("minimal").await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let mounted = pod
        .volumes
        .unwrap()
        .into_iter()
        .find_map(|volume| volume.config_map);
    assert_eq!(mounted.unwrap().name, config_map(&cr));
    assert_eq!(pod.service_account_name.as_deref(), Some("minimal-sa"));
    operator
        .api::<ServiceAccount>()
        .get("minimal-sa")
        .await
        .unwrap();
    let service = operator
        .api::<Service>()
        .get("minimal-service")
        .await
        .unwrap();
    assert_eq!(service.spec.unwrap().ports.unwrap()[0].port, 8321);

    for kind in [
        "ConfigGenerated",
        "SecretsResolved",
        "DeploymentUpdated",
        "Available",
    ] {
        assert_eq!(condition(&cr, kind).unwrap().0, "True", "{kind}");
    }
    let status = cr.status.unwrap();
    let generation = status.config_generation.unwrap();
    assert_eq!(generation.schema.as_deref(), Some("llama-stack/0.7"));
    assert_eq!(status.available_replicas, Some(1));
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_model_writes_a_new_config_map_one_deployment_update_and_the_status() {
    let operator = Operator::start("change").await;
    operator.create(&minimal()).await;
    let before = operator.wait_until_ready("minimal").await;
    let mark = operator.mark().await;

    operator
        .edit(
            "minimal",
            json!({"spec": {"resources": {"models": ["another-model"]}}}),
        )
        .await;
    let changed = |cr: &Distribution| {
        phase(cr) == Some(Phase::Ready) && config_map(cr) != config_map(&before)
    };
    let after = operator
        .wait_for("minimal", "ready with another configuration", changed)
        .await;

    let deployment = operator.api::<Deployment>().get("minimal").await.unwrap();
    assert_eq!(deployment.metadata.generation, Some(2));
    let writes = operator.writes_since(mark).await;
    let objects: Vec<_> = writes
        .iter()
        .filter(|one| !one.contains("llamastackdistributions") && !one.contains(" events "))
        .collect();
    assert_eq!(
        objects,
        [
            "create controllerrevisions minimal-rev-2",
            &format!("create configmaps {}", config_map(&after)),
            "patch deployments minimal"
        ]
    );
    operator
        .api::<ConfigMap>()
        .get(&config_map(&before))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_a_label_to_a_ready_resource_causes_no_write() {
    let operator = Operator::start("label").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let mark = operator.mark().await;

    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    let labelled = operator.edit("minimal", label).await;
    // The queue is ordered, so once a second resource is ready the first has been reconciled.
    let mut second = minimal();
    second["metadata"]["name"] = "second".into();
    operator.create(&second).await;
    operator.wait_until_ready("second").await;
    let children: Vec<_> = operator
        .writes_since(mark)
        .await
        .into_iter()
        .filter(|one| one.contains("minimal") && !one.contains(" events "))
        .collect();
    assert!(children.is_empty(), "{children:?}");
    let api = operator.api::<Distribution>();
    let now = api.get("minimal").await.unwrap();
    assert_eq!(
        now.metadata.resource_version,
        labelled.metadata.resource_version
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_change_to_a_deployment_is_reverted() {
    let operator = Operator::start("drift").await;
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"replicas": 1});
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let deployments = operator.api::<Deployment>();
    let change = json!({"spec": {"replicas": 3}});
    let edit = kube::api::Patch::Merge(change);
    deployments
        .patch("minimal", &kube::api::PatchParams::default(), &edit)
        .await
        .unwrap();
    let is_reverted =
        |one: &Deployment| one.spec.as_ref().and_then(|spec| spec.replicas) == Some(1);
    operator
        .wait_for_deployment("minimal", "reverted", is_reverted)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_can_be_added_to_and_removed_from_a_running_server() {
    let operator = Operator::start("storage").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let updated = |cr: &Distribution| has_condition(cr, "DeploymentUpdated", "True");
    let deployments = operator.api::<Deployment>();

    let with_storage = json!({"spec": {"workload": {"storage": {"size": "1Gi"}}}});
    operator.edit("minimal", with_storage).await;
    operator.wait_for("minimal", "updated", updated).await;
    let spec = deployments.get("minimal").await.unwrap().spec.unwrap();
    let strategy = spec.strategy.unwrap();
    assert_eq!(strategy.type_.as_deref(), Some("Recreate"));
    assert_eq!(strategy.rolling_update, None);
    let volume = spec.template.spec.unwrap().volumes.unwrap().remove(0);
    let claim = volume.persistent_volume_claim.unwrap().claim_name;
    operator
        .api::<PersistentVolumeClaim>()
        .get(&claim)
        .await
        .unwrap();

    let without_storage = json!({"spec": {"workload": {"storage": null}}});
    operator.edit("minimal", without_storage).await;
    operator.wait_until_ready("minimal").await;
    let spec = deployments.get("minimal").await.unwrap().spec.unwrap();
    let strategy = spec.strategy.unwrap();
    assert_eq!(strategy.type_.as_deref(), Some("RollingUpdate"));
    let volume = spec.template.spec.unwrap().volumes.unwrap().remove(0);
    assert!(volume.empty_dir.is_some() && volume.persistent_volume_claim.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_resource_deletes_its_objects() {
    let operator = Operator::start("deleted").await;
    operator.create(&minimal()).await;
    let cr = operator.wait_until_ready("minimal").await;
    operator
        .api::<Distribution>()
        .delete("minimal", &DeleteParams::background())
        .await
        .unwrap();

    operator.wait_until_deleted::<Deployment>("minimal").await;
    operator
        .wait_until_deleted::<Service>("minimal-service")
        .await;
    operator
        .wait_until_deleted::<ServiceAccount>("minimal-sa")
        .await;
    operator
        .wait_until_deleted::<ConfigMap>(&config_map(&cr))
        .await;
    let remaining = operator
        .api::<Distribution>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(remaining.items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_resource_is_not_changed_until_it_continues() {
    let operator = Operator::start("paused").await;
    operator.create(&minimal()).await;
    let before = operator.wait_until_ready("minimal").await;
    let mark = operator.mark().await;

    let change = json!({"spec": {"paused": true, "resources": {"models": ["another-model"]}}});
    operator.edit("minimal", change).await;
    let is_paused = |cr: &Distribution| has_condition(cr, "Paused", "True");
    let paused = operator.wait_for("minimal", "paused", is_paused).await;
    assert!(has_condition(&paused, "Ready", "False"));
    assert!(condition(&paused, "Stalled").is_none());
    assert_eq!(phase(&paused), Some(Phase::Ready));
    // Drift is not corrected either.
    let deployments = operator.api::<Deployment>();
    let drift = json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "drift"}}});
    let parameters = PatchParams::default();
    deployments
        .patch("minimal", &parameters, &Patch::Merge(drift))
        .await
        .unwrap();
    operator.create(&named("second")).await;
    operator.wait_until_ready("second").await;
    let writes = operator.writes_since(mark).await;
    let objects: Vec<_> = writes
        .iter()
        .filter(|one| one.contains("minimal"))
        .filter(|one| !one.contains("llamastackdistributions") && !one.contains(" events "))
        .collect();
    assert!(objects.is_empty(), "{objects:?}");

    operator
        .edit("minimal", json!({"spec": {"paused": null}}))
        .await;
    let continued = |cr: &Distribution| {
        phase(cr) == Some(Phase::Ready) && config_map(cr) != config_map(&before)
    };
    let after = operator
        .wait_for("minimal", "ready with another configuration", continued)
        .await;
    assert!(condition(&after, "Paused").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_volume_survives_the_resource_and_is_used_again() {
    let operator = Operator::start("retained").await;
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"storage": {"retainPolicy": "Retain"}});
    operator.create(&resource).await;
    operator
        .wait_for_deployment("minimal", "created", |_| true)
        .await;
    let claims = operator.api::<PersistentVolumeClaim>();
    let first = claims.get("minimal-pvc").await.unwrap();
    assert_eq!(first.metadata.owner_references, None);

    let api = operator.api::<Distribution>();
    api.delete("minimal", &DeleteParams::default())
        .await
        .unwrap();
    operator.wait_until_deleted::<Deployment>("minimal").await;
    operator.create(&resource).await;
    operator
        .wait_for_deployment("minimal", "created", |_| true)
        .await;
    let second = claims.get("minimal-pvc").await.unwrap();
    assert_eq!(second.metadata.uid, first.metadata.uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_claim_is_mounted_and_left_alone() {
    let operator = Operator::start("existing-claim").await;
    let claims = operator.api::<PersistentVolumeClaim>();
    let own = json!({
        "metadata": {"name": "models"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let own: PersistentVolumeClaim = serde_json::from_value(own).unwrap();
    let before = claims.create(&PostParams::default(), &own).await.unwrap();
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"storage": {"existingClaim": "models"}});
    operator.create(&resource).await;
    let mounts_it = |deployment: &Deployment| {
        let spec = deployment.spec.as_ref().unwrap().template.spec.as_ref();
        let volumes = spec.unwrap().volumes.iter().flatten();
        let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let names: Vec<_> = claims.map(|claim| claim.claim_name.as_str()).collect();
        names == ["models"]
    };
    operator
        .wait_for_deployment("minimal", "with the claim", mounts_it)
        .await;
    assert!(claims.get_opt("minimal-pvc").await.unwrap().is_none());

    let api = operator.api::<Distribution>();
    api.delete("minimal", &DeleteParams::default())
        .await
        .unwrap();
    operator.wait_until_deleted::<Deployment>("minimal").await;
    let after = claims.get("models").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.owner_references, None);
    let managers = after.metadata.managed_fields.unwrap_or_default();
    assert!(
        !managers.iter().any(|one| one
            .manager
            .as_deref()
            .is_some_and(|name| name.starts_with("llsd"))),
        "{managers:?}"
    );
}
