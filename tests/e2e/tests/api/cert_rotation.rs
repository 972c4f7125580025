//! Rotation of the webhooks' certificate under load.

use std::collections::BTreeSet;
use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use serde_json::json;

use crate::test_cluster::{
    DEADLINE, SECRET_NAMESPACE, Target, TestCluster, create, dry_run, list, resource,
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

async fn served_certificate(client: &Client) -> Vec<u8> {
    let api = Api::<Secret>::namespaced(client.clone(), SECRET_NAMESPACE);
    let secret = api.get(llsd_webhook::SECRET_NAME).await.unwrap();
    secret.data.unwrap().remove("tls.crt").unwrap().0
}
