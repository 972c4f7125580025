//! Certificates change while requests are running, and no request notices.

use std::collections::BTreeSet;
use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use serde_json::json;

use crate::plane::{DEADLINE, Plane, SECRET_NAMESPACE, Target, attempt, create, list, resource};

/// Whole rotations to see: announced, promoted, retired.
const ROTATIONS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_the_certificate_rotates() {
    let plane = Plane::oldest().await;
    let client = plane.client().await;
    let namespace = plane.testbed.namespace("rotation").await.unwrap();
    let [old, new] = ["v1alpha1", "v1alpha2"].map(|version| Target {
        namespace: namespace.name(),
        version,
    });
    let good = resource(
        "v1alpha2",
        "good",
        &json!({"distribution": {"name": "starter"}}),
    );
    create(&client, &new, &good).await.unwrap();
    // The webhook alone refuses it, so it would pass if the webhook could not be asked.
    let bad = resource(
        "v1alpha2",
        "bad",
        &json!({"distribution": {"name": "nobody"}}),
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
            let refused = attempt(&client, namespace.name(), &bad)
                .await
                .unwrap()
                .unwrap_err();
            assert!(refused.message.contains("nobody"), "{}", refused.message);
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
