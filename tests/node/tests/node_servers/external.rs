//! Providers that are not part of the server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use llsd_node::{Cluster, Lab, Server};
use llsd_testbed::until;
use serde_json::json;

/// The kubelet notices within seconds, and the server starts again.
const BACK_WITHIN: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn an_external_provider_is_installed_and_again_after_the_sandbox_of_its_pod_is_lost() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("external").await.unwrap();
    let image = cluster.push_provider().await.unwrap();
    let provider = json!({
        "providerId": "acme",
        "image": image,
        "config": {"url": "http://vllm:8000/v1"},
    });
    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "externalProviders": {"inference": [provider]},
    });
    lab.apply_resource("server", spec).await.unwrap();
    let server = lab.ready("server").await.unwrap();
    is_installed(&server).await.unwrap();

    kill_sandbox(&lab).await.unwrap();
    let selector = "--selector=app.kubernetes.io/instance=server";
    until("the sandbox is replaced", BACK_WITHIN, || async {
        let started = "--output=jsonpath={.items[0].status.containerStatuses[0].restartCount}";
        let count = lab.run(["get", "pods", selector, started]).await?;
        ensure!(count != "0", "the server was not restarted");
        is_installed(&server).await
    })
    .await
    .unwrap();
}

/// Whether the server runs the provider.
async fn is_installed(server: &Server) -> Result<()> {
    let providers = server.get("/v1/providers").await?;
    let mut all = providers["data"].as_array().into_iter().flatten();
    let acme = all.find(|one| one["provider_id"] == "acme");
    let acme = acme.with_context(|| format!("the server has no provider acme: {providers}"))?;
    ensure!(acme["provider_type"] == "remote::acme", "{acme}");
    Ok(())
}

/// Ends the process that holds the namespaces of the server's pod.
async fn kill_sandbox(lab: &Lab) -> Result<()> {
    let node = lab.cluster().node();
    let filter = [
        format!(
            "labels.\"io.kubernetes.pod.namespace\"=={}",
            lab.namespace()
        ),
        "labels.\"io.cri-containerd.kind\"==sandbox".to_owned(),
    ]
    .join(",");
    let list = node.ctr().args(["containers", "list", "--quiet", &filter]);
    let sandboxes = list.run().await?.success()?;
    let pod = lab.run([
        "get",
        "pods",
        "--selector=app.kubernetes.io/instance=server",
        "--output=jsonpath={.items[0].metadata.name}",
    ]);
    let pod = pod.await?;
    for sandbox in sandboxes.split_whitespace() {
        let info = node.ctr().args(["containers", "info", sandbox]);
        if info.run().await?.success()?.contains(&pod) {
            let kill = ["tasks", "kill", "--signal", "SIGKILL", sandbox];
            node.ctr().args(kill).run().await?.success()?;
            return Ok(());
        }
    }
    anyhow::bail!("no sandbox of {pod} in {sandboxes:?}")
}
