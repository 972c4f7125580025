//! The operator is installed, upgraded and removed while a server answers.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use llsd_node::{Cluster, Lab, Load, MODEL};
use llsd_testbed::node::OPERATOR_IMAGE;
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use llsd_testbed::{Finished, Invocation, until};
use serde_json::json;

const NAMESPACE: &str = "llsd-system";
/// The tag under which the same binary is installed first. Helm replaces every pod of the operator.
const OTHER_TAG: &str = "previous";
/// The operator compiles its plugins first, which is slow in an unoptimised build.
const WITHIN: &str = "--timeout=110s";
/// How many each of the servers answers meanwhile.
const REQUESTS: usize = 1000;
/// The servers, with their numbers of pods.
const SERVERS: [(&str, u32); 2] = [("one", 1), ("two", 2)];
const READS_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_while_the_operator_is_upgraded_removed_and_installed_again() {
    let cluster = Cluster::shared_without_operator().await.unwrap();
    cluster.import_operator().await.unwrap();
    let (name, _) = OPERATOR_IMAGE.rsplit_once(':').unwrap();
    let other = format!("{name}:{OTHER_TAG}");
    let tag = ["images", "tag", OPERATOR_IMAGE, &other];
    let tagged = cluster.node().ctr().args(tag).run().await.unwrap();
    tagged.success().unwrap();

    let chart = checkout().join("deploy/helm/llsd").display().to_string();
    let image = format!("image.tag={OTHER_TAG}");
    let install = ["install", "llsd", &chart, "--create-namespace", "--wait"];
    let install = install.into_iter().chain([WITHIN, "--set", &image]);
    helm(cluster, install).await.unwrap();

    let lab = cluster.lab("installed").await.unwrap();
    let mut running = Vec::new();
    for (name, replicas) in SERVERS {
        let spec = json!({
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
            "resources": {"models": [MODEL]},
            "workload": {"replicas": replicas},
        });
        lab.apply_resource(name, spec).await.unwrap();
        let server = lab.ready(name).await.unwrap();
        let pods = lab.pod_uids(name).await.unwrap();
        running.push((name, pods, Load::start(&server).await.unwrap()));
    }
    replace_operator(cluster, &lab, &chart).await;
    for (name, pods, load) in running {
        if let Err(error) = load.stop(REQUESTS).await {
            panic!("{error:#}\n{}", lab.explain(name).await);
        }
        assert_eq!(lab.pod_uids(name).await.unwrap(), pods, "{name}");
    }
}

/// Upgrades the operator, removes it, installs it from the manifests, and removes it again.
async fn replace_operator(cluster: &Cluster, lab: &Lab, chart: &str) {
    // Reading the older version goes through a webhook of the operator.
    let upgrade = helm(cluster, ["upgrade", "llsd", chart, "--wait", WITHIN]);
    tokio::select! {
        upgraded = upgrade => upgraded.unwrap(),
        error = reads_always(lab) => panic!("{error:#}"),
    };
    read_older_version(lab).await.unwrap();

    helm(cluster, ["uninstall", "llsd", "--wait"])
        .await
        .unwrap();
    let current = lab.get("llamastackdistribution/one").await.unwrap();
    assert_eq!(current["metadata"]["name"], "one");

    let manifests = checkout().join("deploy/kustomize/default");
    let manifests = manifests.display().to_string();
    let apply = ["apply", "--server-side", "--force-conflicts", "--kustomize"];
    let apply = apply.into_iter().chain([manifests.as_str()]);
    kubectl(cluster, apply).await.success().unwrap();
    let rollout = ["rollout", "status", "deployment/llsd-operator", WITHIN];
    let rollout = rollout.into_iter().chain(["--namespace", NAMESPACE]);
    kubectl(cluster, rollout).await.success().unwrap();
    until("the webhook answers again", READS_WITHIN, || {
        read_older_version(lab)
    })
    .await
    .unwrap();
    for (name, _) in SERVERS {
        lab.ready(name).await.unwrap();
    }

    // An admission policy rejects the deletion of the definitions, so kubectl fails at the end.
    let delete = ["delete", "--kustomize", &manifests];
    let denied = kubectl(cluster, delete).await.failure().unwrap();
    assert!(denied.contains("llamastack.io/allow-deletion"), "{denied}");
}

async fn read_older_version(lab: &Lab) -> Result<()> {
    let resource = "llamastackdistributions.v1alpha1.llamastack.io/one";
    lab.get(resource).await.map(drop)
}

/// Ends only if the resource cannot be read.
async fn reads_always(lab: &Lab) -> anyhow::Error {
    loop {
        if let Err(error) = read_older_version(lab).await {
            return error;
        }
    }
}

async fn kubectl<'a>(cluster: &Cluster, arguments: impl IntoIterator<Item = &'a str>) -> Finished {
    let kubectl = cluster.node().testbed().kubectl("admin").unwrap();
    kubectl.args(arguments).run().await.unwrap()
}

async fn helm<'a>(cluster: &Cluster, arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let helm = ensure_built(&cache_dir()?, &[Tool::Helm])?;
    let kubeconfig = cluster.node().testbed().kubeconfig("admin")?;
    let helm = Invocation::new(&helm[0]).args(arguments);
    let helm = helm.namespace(NAMESPACE).env("KUBECONFIG", kubeconfig);
    helm.run().await?.success().map(drop)
}

fn checkout() -> PathBuf {
    llsd_servers::root()
}
