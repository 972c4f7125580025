//! The webhooks' certificate: its rotation under load, and the switch to cert-manager and back.

use std::collections::BTreeSet;
use std::time::Instant;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use llsd_api::{DISTRIBUTION_CRD_NAME, WEBHOOK_NAME};
use llsd_controller::{install_admission, install_definitions};
use llsd_e2e::serve_webhooks;
use llsd_testbed::{CertificateAuthority, Release, Testbed, until};
use llsd_webhook::Periods;
use serde_json::{Value, json};

use crate::test_cluster::{
    DEADLINE, LEGACY, SECRET_NAMESPACE, Target, TestCluster, create, create_legacy_resources,
    dry_run, list, resource,
};

/// The number of complete rotations to wait for: announced, promoted, retired.
const ROTATIONS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_the_certificate_rotates() {
    let cluster = TestCluster::oldest().await;
    let client = cluster.client().await;
    let namespace = cluster.testbed.namespace("rotation").await.unwrap();
    let [old, new] = ["v1alpha1", "v1alpha2"].map(|version| Target {
        namespace: namespace.name(),
        version,
    });
    let valid = resource(
        "v1alpha2",
        "valid",
        &json!({"distribution": {"name": "starter"}}),
    );
    create(&client, &new, &valid).await.unwrap();
    // Only the webhook rejects this resource, so it would be accepted if the webhook were skipped.
    let invalid = resource(
        "v1alpha2",
        "invalid",
        &json!({"distribution": {"name": "unknown"}}),
    );

    let begin = Instant::now();
    let (mut certificates, mut requests) = (BTreeSet::new(), 0);
    while certificates.len() <= ROTATIONS {
        assert!(
            begin.elapsed() < DEADLINE,
            "{} certificates in {DEADLINE:?}",
            certificates.len()
        );
        for _ in 0..10 {
            let shown = list(&client, &old).await;
            assert_eq!(
                shown.map(|shown| shown.len()).unwrap(),
                1,
                "after {requests} requests"
            );
            let rejected = dry_run(&client, namespace.name(), &invalid)
                .await
                .unwrap()
                .unwrap_err();
            assert!(rejected.message.contains("unknown"), "{}", rejected.message);
            requests += 2;
        }
        certificates.insert(served_certificate(&client).await);
    }
    assert!(
        requests > 100,
        "{requests} requests in {:?}",
        begin.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_work_after_a_switch_to_cert_manager_and_back() {
    let testbed = Testbed::start(Release::Oldest).await.unwrap();
    let client = testbed.client("admin").await.unwrap();
    create_legacy_resources(&client).await.unwrap();
    let kubeconfig = testbed.kubeconfig("admin").unwrap();
    let webhook = serve_webhooks(kubeconfig, SECRET_NAMESPACE, Periods::default()).await;
    let webhook = webhook.unwrap();
    install_definitions(&client, Some(&webhook)).await.unwrap();
    install_admission(&client, &webhook).await.unwrap();
    wait_until_converted(&client).await;

    // What cert-manager does: the annotation is set, and it writes certificate and CA bundle.
    let authority = CertificateAuthority::generate().unwrap();
    let bundle = authority.certificate().to_owned();
    let issued = authority.server(&["127.0.0.1"]).unwrap();
    annotate(&client, json!("default/llsd-webhook")).await;
    let secrets = Api::<Secret>::namespaced(client.clone(), SECRET_NAMESPACE);
    let taken_over = json!({
        "metadata": {"annotations": {"cert-manager.io/certificate-name": "llsd-webhook"}},
        "stringData": {"tls.crt": issued.certificate, "tls.key": issued.key, "ca.crt": bundle},
    });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&taken_over));
    let name = llsd_webhook::SECRET_NAME;
    secrets.patch(name, &parameters, &patch).await.unwrap();
    publish(&client, &bundle).await;
    wait_until_converted(&client).await;

    // Back: without the annotation nobody renews that certificate.
    annotate(&client, Value::Null).await;
    until("the operator publishes its own CA", DEADLINE, || async {
        let definition = definitions(&client).get(DISTRIBUTION_CRD_NAME).await?;
        let webhook = definition.spec.conversion.and_then(|one| one.webhook);
        let published = webhook.and_then(|one| one.client_config?.ca_bundle);
        anyhow::ensure!(
            published.unwrap().0 != bundle.as_bytes(),
            "still cert-manager's"
        );
        Ok(())
    })
    .await
    .unwrap();
    wait_until_converted(&client).await;
}

fn definitions(client: &Client) -> Api<CustomResourceDefinition> {
    Api::all(client.clone())
}

/// Sets or removes the annotation with which cert-manager injects its CA bundle.
async fn annotate(client: &Client, value: Value) {
    let change = json!({"metadata": {"annotations": {"cert-manager.io/inject-ca-from": value}}});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&change));
    let configurations = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let definitions = definitions(client);
    let crd = definitions.patch(DISTRIBUTION_CRD_NAME, &parameters, &patch);
    crd.await.unwrap();
    let webhook = configurations.patch(WEBHOOK_NAME, &parameters, &patch);
    webhook.await.unwrap();
}

/// Injects a CA bundle into the definition, as cert-manager does.
async fn publish(client: &Client, bundle: &str) {
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let change =
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&change));
    let definitions = definitions(client);
    let crd = definitions.patch(DISTRIBUTION_CRD_NAME, &parameters, &patch);
    crd.await.unwrap();
}

/// Waits until resources that are stored as v1alpha1 can be read as v1alpha2.
async fn wait_until_converted(client: &Client) {
    let (namespace, name) = LEGACY[0];
    until("resources are converted", DEADLINE, || async {
        let version = "v1alpha2";
        let shown = list(client, &Target { namespace, version }).await?;
        anyhow::ensure!(shown.contains_key(name), "{shown:?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn served_certificate(client: &Client) -> Vec<u8> {
    let api = Api::<Secret>::namespaced(client.clone(), SECRET_NAMESPACE);
    let secret = api.get(llsd_webhook::SECRET_NAME).await.unwrap();
    secret.data.unwrap().remove("tls.crt").unwrap().0
}
