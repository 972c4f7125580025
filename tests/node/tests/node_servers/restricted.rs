//! Namespaces that enforce the restricted Pod Security Standard.

use llsd_node::{Cluster, MODEL, chat, starter_config};
use llsd_testbed::node::STARTER_RELEASE;
use serde_json::json;

/// The user of the image without root.
const USER: u32 = 1001;

#[tokio::test(flavor = "multi_thread")]
async fn servers_by_name_and_with_a_file_of_the_author_run_in_a_restricted_namespace() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("restricted").await.unwrap();
    let enforce = "pod-security.kubernetes.io/enforce=restricted";
    lab.run(["label", "namespace", lab.namespace(), enforce])
        .await
        .unwrap();
    let own_file = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "own-file"},
        "data": {"config.yaml": starter_config().unwrap()},
    });
    lab.apply(&own_file.to_string()).await.unwrap();
    let named = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
        "workload": {"overrides": {"runAsUser": USER}},
    });
    let of_author = json!({
        "distribution": {"image": format!("llsd.test/server:{STARTER_RELEASE}-nonroot")},
        "overrideConfig": {"configMapName": "own-file"},
        "workload": {"overrides": {"runAsUser": USER}},
    });
    lab.apply_resource("named", named).await.unwrap();
    lab.apply_resource("of-author", of_author).await.unwrap();
    chat(&lab.ready("named").await.unwrap()).await.unwrap();
    let server = lab.ready("of-author").await.unwrap();
    server.get("/v1/health").await.unwrap();
}
