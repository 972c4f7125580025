//! A changed secret value replaces the pods. Other changes to a Secret do not.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use llsd_e2e::{DEADLINE, Operator, minimal};
use llsd_testbed::eventually;
use serde_json::json;

const VALUE: &str = "a-token";

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_secret_value_replaces_the_pods_and_an_equal_one_does_not() {
    let operator = Operator::start("rotate").await;
    let secrets: Api<Secret> = operator.api();
    let secret = json!({"metadata": {"name": "vllm-key"}, "stringData": {"token": VALUE}});
    secrets
        .create(
            &PostParams::default(),
            &serde_json::from_value(secret).unwrap(),
        )
        .await
        .unwrap();
    let mut resource = minimal();
    resource["spec"]["providers"]["inference"]["apiKey"] =
        json!({"name": "vllm-key", "key": "token"});
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let deployments: Api<Deployment> = operator.api();
    assert_eq!(generation(&deployments).await, Some(1));

    let change = async |change: serde_json::Value| {
        let patch = Patch::Merge(change);
        secrets
            .patch("vllm-key", &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    // Change the Secret without changing the value that is used.
    change(json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    change(json!({"stringData": {"other": "1", "token": VALUE}})).await;
    change(json!({"stringData": {"token": format!("{VALUE}-rotated")}})).await;
    let is_replaced =
        |one: Option<&Deployment>| one.and_then(|one| one.metadata.generation) == Some(2);
    eventually(
        &deployments,
        "minimal",
        DEADLINE,
        "replaced once",
        is_replaced,
    )
    .await
    .unwrap();
    operator.wait_until_ready("minimal").await;
    assert_eq!(generation(&deployments).await, Some(2));
}

async fn generation(deployments: &Api<Deployment>) -> Option<i64> {
    let deployment = deployments.get("minimal").await.unwrap();
    deployment.metadata.generation
}
