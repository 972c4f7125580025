//! The webhooks, and the migration of stored resources.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use llsd_api::{DISTRIBUTION_CRD_NAME, Distribution, Webhook};
use llsd_controller::{install_admission, install_definitions};
use llsd_e2e::{DEADLINE, TestEnv, named, serve_webhooks};
use llsd_testbed::{eventually, until};
use llsd_webhook::Periods;
use serde_json::json;

/// A certificate that is renewed at once, and stays valid for the whole test.
const RENEWED_AT_ONCE: Periods = Periods {
    valid: Duration::from_secs(3600),
    renew_before: Duration::from_secs(3599),
    settle: Duration::from_secs(1800),
    overlap: Duration::from_secs(1800),
};

/// Registers the webhooks without a CA bundle, which the webhook server fills in.
pub(crate) async fn install_webhooks(env: &TestEnv) {
    let kubeconfig = env.testbed.kubeconfig(&env.user).unwrap();
    let home = env.home.as_ref().unwrap().name();
    let webhook = serve_webhooks(kubeconfig, home, RENEWED_AT_ONCE)
        .await
        .unwrap();
    let without_ca = Webhook {
        ca_bundle: None,
        ..webhook
    };
    install_definitions(&env.client, Some(&without_ca))
        .await
        .unwrap();
    install_admission(&env.client, &without_ca).await.unwrap();
}

/// Creates a resource, and marks the CRD as if resources were stored as v1alpha1.
pub(crate) async fn create_unmigrated(env: &TestEnv) {
    let resource: Distribution = serde_json::from_value(named("unmigrated")).unwrap();
    // The API server rejects it until the webhook has a CA bundle.
    until("the webhook is called", DEADLINE, || async {
        Ok(env.api().create(&PostParams::default(), &resource).await?)
    })
    .await
    .unwrap();
    let stored = json!({"status": {"storedVersions": ["v1alpha1", "v1alpha2"]}});
    crds(env)
        .patch_status(
            DISTRIBUTION_CRD_NAME,
            &PatchParams::default(),
            &Patch::Merge(stored),
        )
        .await
        .unwrap();
}

/// Waits until the operator has migrated the resources.
pub(crate) async fn wait_until_migrated(env: &TestEnv) {
    let is_migrated = |one: Option<&CustomResourceDefinition>| {
        one.and_then(|one| one.status.as_ref()?.stored_versions.as_deref())
            == Some(&["v1alpha2".to_owned()])
    };
    eventually(
        &crds(env),
        DISTRIBUTION_CRD_NAME,
        DEADLINE,
        "migrated",
        is_migrated,
    )
    .await
    .unwrap();
}

fn crds(env: &TestEnv) -> Api<CustomResourceDefinition> {
    Api::all(env.client.clone())
}
