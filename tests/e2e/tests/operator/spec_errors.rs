//! Errors in a resource, or in what it refers to: they are reported, and nothing that runs changes.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::Resource;
use kube::api::PostParams;
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{Operator, condition, config_map, has_condition, minimal, phase};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_provider_is_reported_and_running_servers_are_unchanged() {
    let operator = Operator::start("bad-edit").await;
    operator.create(&minimal()).await;
    let before = operator.wait_until_ready("minimal").await;

    operator
        .edit(
            "minimal",
            json!({"spec": {"providers": {"inference": {"provider": "vlm"}}}}),
        )
        .await;
    let is_rejected = |cr: &Distribution| has_condition(cr, "ConfigGenerated", "False");
    let after = operator.wait_for("minimal", "rejected", is_rejected).await;

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
async fn a_missing_secret_is_named_and_creating_it_makes_the_resource_ready() {
    let operator = Operator::start("secret").await;
    let mut resource = minimal();
    resource["spec"]["providers"]["inference"]["apiKey"] =
        json!({"name": "vllm-key", "key": "token"});
    operator.create(&resource).await;
    let unresolved = |cr: &Distribution| has_condition(cr, "SecretsResolved", "False");
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
    let resolved = operator.wait_until_ready("minimal").await;
    assert_eq!(condition(&resolved, "SecretsResolved").unwrap().0, "True");
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
async fn an_override_config_waits_for_its_config_map_and_new_content_replaces_the_pods() {
    let operator = Operator::start("override").await;
    let mut resource = minimal();
    resource["spec"] = json!({
        "distribution": {"name": "starter"},
        "overrideConfig": {"configMapName": "mine"},
    });
    operator.create(&resource).await;
    let is_waiting = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, reason, _)| reason == "ConfigMapNotFound")
    };
    operator
        .wait_for("minimal", "waiting for its ConfigMap", is_waiting)
        .await;

    let maps = operator.api::<ConfigMap>();
    let with_config = |text: &str| {
        let map = json!({"metadata": {"name": "mine"}, "data": {"config.yaml": text}});
        serde_json::from_value::<ConfigMap>(map).unwrap()
    };
    maps.create(&PostParams::default(), &with_config("version: 2"))
        .await
        .unwrap();
    operator.wait_until_ready("minimal").await;

    maps.replace("mine", &PostParams::default(), &with_config("version: 3"))
        .await
        .unwrap();
    let is_replaced = |one: &Deployment| one.metadata.generation == Some(2);
    operator
        .wait_for_deployment("minimal", "replaced", is_replaced)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_rejected_by_the_api_server_changes_nothing() {
    let operator = Operator::start("rejected").await;
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
async fn an_object_of_another_owner_is_not_changed_and_is_named() {
    let operator = Operator::start("foreign").await;
    let foreign =
        json!({"metadata": {"name": "minimal-service"}, "spec": {"ports": [{"port": 1}]}});
    let foreign: Service = serde_json::from_value(foreign).unwrap();
    let created = operator
        .api::<Service>()
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    operator.create(&minimal()).await;
    let failed = |cr: &Distribution| has_condition(cr, "DeploymentUpdated", "False");
    let cr = operator.wait_for("minimal", "rejected", failed).await;
    let (_, reason, message) = condition(&cr, "DeploymentUpdated").unwrap();
    assert_eq!(reason, "DeploymentUpdateFailed");
    assert!(message.contains("Service \"minimal-service\""), "{message}");
    let unchanged = operator
        .api::<Service>()
        .get("minimal-service")
        .await
        .unwrap();
    assert_eq!(
        unchanged.meta().resource_version,
        created.meta().resource_version
    );
    assert!(
        operator
            .api::<Deployment>()
            .get_opt("minimal")
            .await
            .unwrap()
            .is_none()
    );
}
