//! Servers with several processes.

use llsd_node::{Cluster, MODEL, chat};
use serde_json::json;

/// A worker of uvicorn has this in its command line.
const WORKER: &str = "multiprocessing.spawn";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_two_workers_answers() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("workers").await.unwrap();
    let resources = json!({
        "requests": {"cpu": "50m", "memory": "200Mi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    });
    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
        "workload": {"workers": 2, "resources": resources},
    });
    lab.apply_resource("server", spec).await.unwrap();
    chat(&lab.ready("server").await.unwrap()).await.unwrap();
    let search = format!("grep -l {WORKER} /proc/[0-9]*/cmdline");
    let found = lab.run(["exec", "deployment/server", "--", "sh", "-c", &search]);
    let found = found.await.unwrap();
    // The shell that searches has the word in its own command line, too.
    assert!(found.lines().count() >= 3, "{found}");
}
