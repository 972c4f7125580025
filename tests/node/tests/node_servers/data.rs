//! What a server keeps, and what it reads from Secrets.

use std::time::Duration;

use llsd_node::{Cluster, MODEL, chat};
use llsd_testbed::until;
use serde_json::json;

/// A new pod starts within a minute, also on a busy machine.
const REPLACED_WITHIN: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_keeps_conversations_over_pods() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("volume").await.unwrap();
    let folder = cluster.node().testbed().state().folder.join("volume");
    std::fs::create_dir_all(&folder).unwrap();
    let hostname = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node"]});
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": lab.namespace()},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
    });
    lab.apply(&volume.to_string()).await.unwrap();
    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
        "workload": {"storage": {"size": "5Gi"}},
    });
    lab.apply_resource("server", spec).await.unwrap();
    let server = lab.ready("server").await.unwrap();
    let conversation = json!({"metadata": {"topic": "volumes"}});
    let created = server
        .post("/v1/conversations", &conversation)
        .await
        .unwrap();
    let path = format!("/v1/conversations/{}", created["id"].as_str().unwrap());

    lab.run([
        "delete",
        "pods",
        "--selector=app.kubernetes.io/instance=server",
    ])
    .await
    .unwrap();
    let kept = until("the new pod answers", REPLACED_WITHIN, || server.get(&path));
    assert_eq!(kept.await.unwrap()["metadata"]["topic"], "volumes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_api_key_is_used() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("rotation").await.unwrap();
    let set_key = |key: &'static str| {
        let lab = &lab;
        async move {
            let node = lab.cluster().node();
            node.run_vllm(lab.namespace(), &[MODEL], Some(key))
                .await
                .unwrap();
            let secret = json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "vllm-creds"},
                "stringData": {"token": key},
            });
            lab.apply(&secret.to_string()).await.unwrap();
        }
    };
    set_key("first").await;
    let key = json!({"name": "vllm-creds", "key": "token"});
    let inference = json!({"provider": "vllm", "endpoint": "http://vllm:8000", "apiKey": key});
    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": inference},
        "resources": {"models": [MODEL]},
    });
    lab.apply_resource("server", spec).await.unwrap();
    let server = lab.ready("server").await.unwrap();
    chat(&server).await.unwrap();
    set_key("second").await;
    let answers = until("the new key is used", REPLACED_WITHIN, || chat(&server));
    answers.await.unwrap();
}
