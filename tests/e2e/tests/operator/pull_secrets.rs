//! A resource that waits for a pull secret continues when the secret is created.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{LocalObjectReference, Secret, ServiceAccount};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{Operator, STARTER, TestRegistry, condition, on_image};
use llsd_testbed::Access;
use serde_json::json;

use crate::operator_settings::allow_privileged_pods;

/// Shorter than the retry interval, so only the watch can cause the reconciliation.
const BEFORE_RETRY: Duration = Duration::from_secs(30);

fn is_authenticated(cr: &Distribution) -> Option<bool> {
    let (status, reason, _) = condition(cr, "ConfigGenerated")?;
    Some(status == "True" && reason != "AuthFailed")
}

fn secret(name: &str, registry: &TestRegistry) -> Secret {
    let key = ".dockerconfigjson".to_owned();
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
        data: Some([(key, ByteString(registry.docker_config()))].into()),
        ..Secret::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_the_missing_pull_secret_makes_the_resource_ready_within_seconds() {
    let registry = TestRegistry::start(Access::Basic {
        user: "puller".to_owned(),
        password: "password".to_owned(),
    })
    .await;
    let image = registry
        .push_labelled("acme/stack", "1", STARTER, "llama-stack/0.7", None)
        .await;
    let operator = Operator::start_with_registry("pull", registry.settings()).await;
    allow_privileged_pods(&operator).await;
    // One resource names the pull secret itself, the other through its service account.
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("runner".to_owned()),
            ..ObjectMeta::default()
        },
        image_pull_secrets: Some(vec![LocalObjectReference {
            name: "of-account".to_owned(),
        }]),
        ..ServiceAccount::default()
    };
    let accounts = operator.api::<ServiceAccount>();
    let parameters = PatchParams::apply("tests").force();
    accounts
        .patch("runner", &parameters, &Patch::Apply(account))
        .await
        .unwrap();
    let mut named = on_image("named", &image);
    named["spec"]["workload"] = json!({"overrides": {"imagePullSecrets": [{"name": "pull"}]}});
    let mut by_account = on_image("by-account", &image);
    by_account["spec"]["workload"] = json!({"overrides": {"serviceAccountName": "runner"}});

    for (resource, name, pull) in [
        (named, "named", "pull"),
        (by_account, "by-account", "of-account"),
    ] {
        operator.create(&resource).await;
        let is_rejected = |cr: &Distribution| is_authenticated(cr) == Some(false);
        operator.wait_for(name, "rejected", is_rejected).await;
        operator
            .api::<Secret>()
            .create(&PostParams::default(), &secret(pull, &registry))
            .await
            .unwrap();
        let is_accepted = |cr: &Distribution| is_authenticated(cr) == Some(true);
        tokio::time::timeout(
            BEFORE_RETRY,
            operator.wait_for(name, "authenticated", is_accepted),
        )
        .await
        .unwrap();
    }
    operator.stop().await;
}
