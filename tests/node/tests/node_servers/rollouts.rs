//! Servers while their pods are replaced or evicted.

use anyhow::Result;
use llsd_node::{Cluster, Lab, Load, MODEL};
use serde_json::json;

/// Enough for several during the second in which kube-proxy learns that a pod ends.
const REQUESTS: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_while_the_pods_of_one_or_two_replicas_are_replaced() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab_alone("replaced").await.unwrap();
    replace_under_load(&lab, "one", 1).await.unwrap();
    replace_under_load(&lab, "two", 2).await.unwrap();
}

async fn replace_under_load(lab: &Lab, name: &str, replicas: u32) -> Result<()> {
    apply_server(lab, name, replicas).await?;
    let server = lab.ready(name).await?;
    let load = Load::start(&server).await?;
    let replaced = lab.replace_pods(name, "1").await;
    match replaced.and(load.stop(REQUESTS).await) {
        Err(error) => Err(error.context(lab.explain(name).await)),
        result => result,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_keeps_one_of_two_pods_until_the_other_runs_elsewhere() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab_alone("drained").await.unwrap();
    apply_server(&lab, "server", 2).await.unwrap();
    let server = lab.ready("server").await.unwrap();
    let load = Load::start(&server).await.unwrap();
    let selector = "--pod-selector=app.kubernetes.io/instance=server";
    let drain = ["drain", "node", selector, "--delete-emptydir-data"];
    let drain = drain.into_iter().chain(["--timeout=20s"]);
    let drain = lab.kubectl(drain).unwrap().run().await.unwrap();
    let uncordoned = lab.run(["uncordon", "node"]).await;
    let result = load.stop(1).await;
    uncordoned.unwrap();
    result.unwrap();
    // There is no other node, so the budget of the server forbids to evict the second pod.
    let output = format!("{}{}", drain.stdout, drain.stderr);
    assert!(output.contains("disruption budget"), "{output}");
    lab.ready("server").await.unwrap();
}

async fn apply_server(lab: &Lab, name: &str, replicas: u32) -> Result<()> {
    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
        "workload": {"replicas": replicas},
    });
    lab.apply_resource(name, spec).await
}
