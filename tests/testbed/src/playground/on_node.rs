//! The playground with a real node: a server that answers, and a fake vLLM behind it.

use std::path::Path;

use anyhow::{Context as _, Result};
use llsd_testbed::Node;
use llsd_testbed::node::{STARTER_RELEASE, ServerPackages};

use super::{READY_WITHIN, link_programs};

/// The resource that the playground starts with, and its Service.
const SAMPLE: &str = "samples/minimal.yaml";
const SERVICE: &str = "service/minimal-service";

/// Starts a node with the operator, a model server and the first sample. Returns the node, which stops
/// when dropped, and what to print.
pub(super) async fn start(llsd: &Path, packages: &ServerPackages) -> Result<(Node, String)> {
    let node = Node::start().await?;
    node.import_server(packages, STARTER_RELEASE, None).await?;
    node.install_operator(llsd).await?;
    node.run_vllm("default", &["llama3.2-8b"], None).await?;
    let kubectl = || node.testbed().kubectl("admin");
    kubectl()?
        .args(["apply", "--filename", SAMPLE])
        .run()
        .await?
        .success()?;
    let ready = kubectl()?.args([
        "wait",
        "--for=jsonpath={.status.phase}=Ready",
        "llamastackdistribution/minimal",
        READY_WITHIN,
    ]);
    ready
        .run()
        .await?
        .success()
        .context("the sample did not become ready")?;
    let address = [
        "get",
        SERVICE,
        "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}",
    ];
    let address = kubectl()?.args(address).run().await?.success()?;
    let folder = node.testbed().state().folder.clone();
    let bin = link_programs(&folder, llsd, &node.testbed().state().kubectl)?;
    let usage = usage(&folder, &bin, &address, &node.registry());
    Ok((node, usage))
}

fn usage(folder: &Path, bin: &Path, address: &str, registry: &str) -> String {
    format!(
        "\
Ready. A server runs on a real node. In another terminal:

  curl http://{address}/v1/chat/completions --json '{{\"model\": \"vllm/llama3.2-8b\", \"messages\": [{{\"role\": \"user\", \"content\": \"hello\"}}]}}'

  export KUBECONFIG='{kubeconfig}' PATH='{bin}':\"$PATH\"
  kubectl get llsd                       # list the resources and their state
  kubectl get pods                       # the server and the fake vLLM behind it
  kubectl logs deployment/minimal        # the log of the server
  kubectl edit llsd minimal              # change something and look again
  llsd render -f samples/minimal.yaml    # the generated server configuration, without a cluster
  kubectl --namespace llsd-system logs deployment/llsd-operator

registry: {registry} (plain HTTP, no authentication)
Ctrl-C stops and removes everything.",
        kubeconfig = folder.join("admin.kubeconfig").display(),
        bin = bin.display(),
    )
}
