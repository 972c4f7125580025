//! Releases of the server whose adapter is built in: the oldest, and the newest of each product.
//!
//! `tests/servers` starts the server of every release, without a node.

use llsd_node::{Cluster, MODEL, chat};
use llsd_servers::{NEWEST_LLAMA_STACK, RELEASES, Release};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_of_the_oldest_and_newest_releases_answer_a_chat_on_another_port() {
    let [oldest, .., newest_ogx] = RELEASES;
    for release in [oldest, NEWEST_LLAMA_STACK, newest_ogx] {
        let answer = run(release).await;
        answer.unwrap_or_else(|error| panic!("release {}: {error:#}", release.name));
    }
}

/// The resource describes the same server for each release; the operator generates its configuration in
/// the dialect of the release.
async fn run(release: Release) -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    cluster.import(release.name).await?;
    let lab = cluster.lab("release").await?;
    let base = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "base"},
        "data": {"config.yaml": release.inference_base()?},
    });
    lab.apply(&base.to_string()).await?;
    let spec = json!({
        "distribution": {
            "image": format!("llsd.test/server:{}", release.name),
            "schema": release.schema,
            "baseConfig": {"configMapName": "base"},
        },
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
        "networking": {"port": 8500},
    });
    lab.apply_resource("server", spec).await?;
    chat(&lab.ready("server").await?).await
}
