//! The operator on a real control plane: what it makes, what it leaves alone, and what it says.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod at_rest;
mod canary;
mod children;
mod external;
mod faults;
mod first_operator;
mod operator_config;
mod outages;
mod polling;
mod process;
mod pull_secrets;
mod regressions;
mod rotation;
mod taken_over;
mod takeover;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::install_definitions;
use llsd_e2e::{DEADLINE, Operator, condition, config_map, minimal, phase};
use llsd_testbed::{Testbed, eventually};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_are_accepted_and_applying_them_again_changes_nothing() {
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
            &format!("patch configmaps {}", config_map(&after)),
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
async fn a_label_on_a_ready_resource_writes_nothing() {
    let operator = Operator::start("touch").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let mark = operator.mark().await;

    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    let touched = operator.edit("minimal", label).await;
    // A second resource is reconciled after the touch of the first, and tells that it is over.
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
        touched.metadata.resource_version
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_provider_is_explained_and_changes_nothing_that_runs() {
    let operator = Operator::start("bad-edit").await;
    operator.create(&minimal()).await;
    let before = operator.wait_until_ready("minimal").await;

    operator
        .edit(
            "minimal",
            json!({"spec": {"providers": {"inference": {"provider": "vlm"}}}}),
        )
        .await;
    let refused = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(status, ..)| status == "False")
    };
    let after = operator.wait_for("minimal", "refused", refused).await;

    let (_, reason, message) = condition(&after, "ConfigGenerated").unwrap();
    assert_eq!(reason, "ConfigGenerationFailed");
    assert!(
        message.contains("spec.providers.inference") && message.contains("vllm"),
        "{message}"
    );
    assert_eq!(
        condition(&after, "DeploymentUpdated").unwrap().1,
        "DeploymentUpdateSkipped"
    );
    assert_eq!(condition(&after, "Available").unwrap().0, "True");
    assert_eq!(
        (phase(&after), config_map(&after)),
        (Some(Phase::Failed), config_map(&before))
    );
    let deployment = operator.api::<Deployment>().get("minimal").await.unwrap();
    assert_eq!(deployment.metadata.generation, Some(1));

    operator
        .edit(
            "minimal",
            json!({"spec": {"providers": {"inference": {"provider": "vllm"}}}}),
        )
        .await;
    operator.wait_until_ready("minimal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_is_named_and_its_creation_heals_the_resource() {
    let operator = Operator::start("secret").await;
    let mut resource = minimal();
    resource["spec"]["providers"]["inference"]["apiKey"] =
        json!({"name": "vllm-key", "key": "token"});
    operator.create(&resource).await;
    let unresolved = |cr: &Distribution| {
        condition(cr, "SecretsResolved").is_some_and(|(status, ..)| status == "False")
    };
    let cr = operator
        .wait_for("minimal", "without its secret", unresolved)
        .await;
    let (_, reason, message) = condition(&cr, "SecretsResolved").unwrap();
    assert_eq!(reason, "SecretNotFound");
    assert!(
        message.starts_with("Secret not found: vllm-key"),
        "{message}"
    );
    assert!(
        operator
            .api::<Deployment>()
            .get_opt("minimal")
            .await
            .unwrap()
            .is_none()
    );

    let secret = |data: BTreeMap<&str, &str>| {
        serde_json::from_value::<Secret>(
            json!({"metadata": {"name": "vllm-key"}, "stringData": data}),
        )
        .unwrap()
    };
    let secrets = operator.api::<Secret>();
    secrets
        .create(
            &PostParams::default(),
            &secret(BTreeMap::from([("tokn", "canary")])),
        )
        .await
        .unwrap();
    let lacks_key = |cr: &Distribution| {
        condition(cr, "SecretsResolved").is_some_and(|(_, reason, _)| reason == "SecretKeyMissing")
    };
    operator
        .wait_for("minimal", "without the key of its secret", lacks_key)
        .await;

    secrets
        .replace(
            "vllm-key",
            &PostParams::default(),
            &secret(BTreeMap::from([("token", "canary")])),
        )
        .await
        .unwrap();
    let healed = operator.wait_until_ready("minimal").await;
    assert_eq!(condition(&healed, "SecretsResolved").unwrap().0, "True");
    let deployment = operator.api::<Deployment>().get("minimal").await.unwrap();
    let container = deployment
        .spec
        .unwrap()
        .template
        .spec
        .unwrap()
        .containers
        .remove(0);
    let variable = container
        .env
        .unwrap()
        .into_iter()
        .find(|one| one.name.starts_with("LLSD_"))
        .unwrap();
    let reference = variable.value_from.unwrap().secret_key_ref.unwrap();
    assert_eq!(
        (reference.name.as_str(), reference.key.as_str()),
        ("vllm-key", "token")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_changed_by_hand_is_put_right() {
    let operator = Operator::start("drift").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let deployments = operator.api::<Deployment>();
    let change = json!({"spec": {"replicas": 3}});
    let edit = kube::api::Patch::Merge(change);
    deployments
        .patch("minimal", &kube::api::PatchParams::default(), &edit)
        .await
        .unwrap();
    let replicas =
        |one: Option<&Deployment>| one.and_then(|one| one.spec.as_ref()?.replicas) == Some(1);
    eventually(&deployments, "minimal", DEADLINE, "put right", replicas)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_added_to_a_running_server_and_removed_again_is_followed() {
    let operator = Operator::start("storage").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let updated = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated").is_some_and(|(status, ..)| status == "True")
    };
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
async fn an_override_waits_for_its_config_map_and_new_content_replaces_the_pods() {
    let operator = Operator::start("override").await;
    let mut resource = minimal();
    resource["spec"] = json!({
        "distribution": {"name": "starter"},
        "overrideConfig": {"configMapName": "mine"},
    });
    operator.create(&resource).await;
    let waits = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, reason, _)| reason == "ConfigMapNotFound")
    };
    operator
        .wait_for("minimal", "waiting for its ConfigMap", waits)
        .await;

    let maps = operator.api::<ConfigMap>();
    let holding = |text: &str| {
        let map = json!({"metadata": {"name": "mine"}, "data": {"config.yaml": text}});
        serde_json::from_value::<ConfigMap>(map).unwrap()
    };
    maps.create(&PostParams::default(), &holding("version: 2"))
        .await
        .unwrap();
    operator.wait_until_ready("minimal").await;

    maps.replace("mine", &PostParams::default(), &holding("version: 3"))
        .await
        .unwrap();
    let deployments = operator.api::<Deployment>();
    let replaced =
        |one: Option<&Deployment>| one.and_then(|one| one.metadata.generation) == Some(2);
    eventually(&deployments, "minimal", DEADLINE, "replaced", replaced)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_the_api_server_refuses_leaves_everything_as_it_was() {
    let operator = Operator::start("refused").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;

    let mounts = json!([{"name": "no-such-volume", "mountPath": "/x"}]);
    let change =
        json!({"networking": {"port": 9000}, "workload": {"overrides": {"volumeMounts": mounts}}});
    operator.edit("minimal", json!({"spec": change})).await;
    let failed = |cr: &Distribution| phase(cr) == Some(Phase::Failed);
    let cr = operator.wait_for("minimal", "failed", failed).await;
    let (_, reason, message) = condition(&cr, "DeploymentUpdated").unwrap();
    assert_eq!(reason, "DeploymentUpdateFailed");
    assert!(message.contains("no-such-volume"), "{message}");
    assert_eq!(condition(&cr, "Available").unwrap().0, "True");
    let deployment = operator.api::<Deployment>().get("minimal").await.unwrap();
    assert_eq!(deployment.metadata.generation, Some(1));
    let service = operator
        .api::<Service>()
        .get("minimal-service")
        .await
        .unwrap();
    assert_eq!(service.spec.unwrap().ports.unwrap()[0].port, 8321);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_is_left_alone_and_named() {
    let operator = Operator::start("foreign").await;
    let foreign =
        json!({"metadata": {"name": "minimal-service"}, "spec": {"ports": [{"port": 1}]}});
    let foreign: Service = serde_json::from_value(foreign).unwrap();
    let made = operator
        .api::<Service>()
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    operator.create(&minimal()).await;
    let failed = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated").is_some_and(|(status, ..)| status == "False")
    };
    let cr = operator.wait_for("minimal", "refused", failed).await;
    let (_, reason, message) = condition(&cr, "DeploymentUpdated").unwrap();
    assert_eq!(reason, "DeploymentUpdateFailed");
    assert!(message.contains("Service \"minimal-service\""), "{message}");
    let still = operator
        .api::<Service>()
        .get("minimal-service")
        .await
        .unwrap();
    assert_eq!(still.meta().resource_version, made.meta().resource_version);
    assert!(
        operator
            .api::<Deployment>()
            .get_opt("minimal")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_resource_takes_its_objects_with_it() {
    let operator = Operator::start("deleted").await;
    operator.create(&minimal()).await;
    let cr = operator.wait_until_ready("minimal").await;
    operator
        .api::<Distribution>()
        .delete("minimal", &DeleteParams::background())
        .await
        .unwrap();

    operator.wait_until_gone::<Deployment>("minimal").await;
    operator.wait_until_gone::<Service>("minimal-service").await;
    operator
        .wait_until_gone::<ServiceAccount>("minimal-sa")
        .await;
    operator
        .wait_until_gone::<ConfigMap>(&config_map(&cr))
        .await;
    let left = operator
        .api::<Distribution>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(left.items.is_empty());
}
