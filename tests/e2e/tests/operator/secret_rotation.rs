//! A changed secret value replaces the pods. Other changes to a Secret do not.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, condition, has_condition, minimal};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_an_environment_variable_is_checked_and_a_new_value_replaces_the_pods() {
    let operator = Operator::start("env-secret").await;
    let mut resource = minimal();
    let reference = json!({"secretKeyRef": {"name": "proxy", "key": "password"}});
    let optional = json!({"secretKeyRef": {"name": "absent", "key": "a", "optional": true}});
    resource["spec"]["workload"] = json!({"overrides": {"env": [
        {"name": "PROXY_PASSWORD", "valueFrom": reference},
        {"name": "OPTIONAL", "valueFrom": optional},
    ]}});
    resource["spec"]["networking"] =
        json!({"expose": {"hostname": "a.example.com", "tlsSecretName": "ingress"}});
    operator.create(&resource).await;
    let is_missing = |cr: &Distribution| has_condition(cr, "SecretsResolved", "False");
    let cr = operator.wait_for("minimal", "missing", is_missing).await;
    let (_, reason, message) = condition(&cr, "SecretsResolved").unwrap();
    assert_eq!(reason, "SecretNotFound");
    let field = "spec.workload.overrides.env[0].valueFrom.secretKeyRef";
    assert!(
        message.contains("proxy") && message.contains(field),
        "{message}"
    );

    let secrets: Api<Secret> = operator.api();
    let apply = async |name: &str, value: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"password": value},
        });
        let parameters = PatchParams::apply("test").force();
        let patch = Patch::Apply(&secret);
        secrets.patch(name, &parameters, &patch).await.unwrap();
    };
    apply("proxy", "one").await;
    let cr = operator.wait_until_ready("minimal").await;
    // The certificate of the Ingress does not stop the server.
    let (_, _, message) = condition(&cr, "SecretsResolved").unwrap();
    assert!(message.contains("Secret not found: ingress"), "{message}");
    apply("ingress", "any").await;
    let is_complete = |cr: &Distribution| {
        condition(cr, "SecretsResolved").is_some_and(|(.., text)| !text.contains("warning"))
    };
    operator.wait_for("minimal", "complete", is_complete).await;

    let deployments: Api<Deployment> = operator.api();
    assert_eq!(generation(&deployments).await, Some(1));
    apply("proxy", "two").await;
    let is_replaced =
        |one: Option<&Deployment>| one.and_then(|one| one.metadata.generation) == Some(2);
    eventually(&deployments, "minimal", DEADLINE, "replaced", is_replaced)
        .await
        .unwrap();
}

async fn generation(deployments: &Api<Deployment>) -> Option<i64> {
    let deployment = deployments.get("minimal").await.unwrap();
    deployment.metadata.generation
}
