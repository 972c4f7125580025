//! TLS of a server.

use std::time::Duration;

use llsd_node::{Cluster, MODEL, chat};
use llsd_testbed::{CertificateAuthority, until};
use serde_json::json;

/// The kubelet updates a mounted Secret within seconds, and a new pod starts within a minute.
const ROTATED_WITHIN: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_served_and_a_rotated_certificate_is_used() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("tls").await.unwrap();
    let name = format!("server-service.{}.svc", lab.namespace());
    let rotate = || async {
        let authority = CertificateAuthority::generate().unwrap();
        let identity = authority.server(&[&name]).unwrap();
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "server-tls"},
            "stringData": {
                "tls.crt": identity.certificate,
                "tls.key": identity.key,
                "ca.crt": authority.certificate(),
            },
        });
        lab.apply(&secret.to_string()).await.unwrap();
        authority.certificate().to_owned()
    };
    let first = rotate().await;
    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
        "networking": {"port": 8443, "tls": {"enabled": true, "secretName": "server-tls"}},
    });
    lab.apply_resource("server", spec).await.unwrap();
    let server = lab.ready("server").await.unwrap();
    chat(&server.over_tls(&first, &name).unwrap())
        .await
        .unwrap();

    let second = rotate().await;
    let server = server.over_tls(&second, &name).unwrap();
    let answers = until("the new certificate is served", ROTATED_WITHIN, || {
        chat(&server)
    });
    answers.await.unwrap();
}
