//! What a server keeps, and what it reads from Secrets.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use llsd_node::{Cluster, Lab, MODEL, chat, starter_config};
use llsd_testbed::until;
use serde_json::{Value, json};

/// A new pod starts within a minute, also on a busy machine.
const REPLACED_WITHIN: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_keeps_conversations_over_pods_whoever_writes_the_configuration() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("volume").await.unwrap();
    let own_file = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "own-file"},
        "data": {"config.yaml": starter_config().unwrap()},
    });
    lab.apply(&own_file.to_string()).await.unwrap();
    let generated = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
    });
    let of_author = json!({
        "distribution": {"name": "starter"},
        "overrideConfig": {"configMapName": "own-file"},
    });
    let of_image = json!({"distribution": {"name": "starter"}});
    tokio::try_join!(
        check_volume(&lab, "generated", generated),
        check_volume(&lab, "of-author", of_author),
        check_volume(&lab, "of-image", of_image),
    )
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_in_postgres_survive_pods_without_a_volume() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("postgres").await.unwrap();
    lab.run_postgres("secret").await.unwrap();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pg-creds"},
        "stringData": {"user": "postgres", "password": "secret"},
    });
    lab.apply(&secret.to_string()).await.unwrap();
    let value = |key: &str| json!({"name": "pg-creds", "key": key});
    let sql = json!({
        "type": "postgres",
        "host": "postgres",
        "port": 5432,
        "database": "postgres",
        "user": value("user"),
        "password": value("password"),
    });
    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
        "storage": {"sql": sql},
    });
    lab.apply_resource("server", spec).await.unwrap();
    check_conversation(&lab, "server").await.unwrap();
}

/// Gives a server a volume of its own, and checks that it keeps a conversation.
async fn check_volume(lab: &Lab, name: &str, mut spec: Value) -> Result<()> {
    let volume = format!("{}-{name}", lab.namespace());
    let folder = lab.cluster().node().testbed().state().folder.join(&volume);
    std::fs::create_dir_all(&folder)?;
    let hostname = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node"]});
    let claim = json!({"namespace": lab.namespace(), "name": format!("{name}-pvc")});
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": claim,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
    });
    lab.apply(&volume.to_string()).await?;
    spec["workload"] = json!({"storage": {"size": "5Gi"}});
    lab.apply_resource(name, spec).await?;
    check_conversation(lab, name).await
}

/// Replaces the pod of a server, which must still know a conversation.
async fn check_conversation(lab: &Lab, name: &str) -> Result<()> {
    let server = lab.ready(name).await?;
    let conversation = json!({"metadata": {"topic": "volumes"}});
    let created = server.post("/v1/conversations", &conversation).await?;
    let id = created["id"]
        .as_str()
        .context("the conversation has no id")?;
    let path = format!("/v1/conversations/{id}");

    let pods = format!("--selector=app.kubernetes.io/instance={name}");
    lab.run(["delete", "pods", &pods]).await?;
    let kept = until("the new pod answers", REPLACED_WITHIN, || server.get(&path)).await;
    let kept = kept.with_context(|| format!("server {name}"))?;
    ensure!(kept["metadata"]["topic"] == "volumes", "{name}: {kept}");
    Ok(())
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
