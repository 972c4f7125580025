//! Removing an installation leaves resources, servers and data.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_install::checkout;
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use llsd_testbed::{Finished, Invocation, Release, Testbed, until};

const CRD: &str = "llamastackdistributions.llamastack.io";
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(240);

async fn kubectl(testbed: &Testbed, line: &str) -> Finished {
    let kubectl = testbed.kubectl("admin").unwrap().args(line.split(' '));
    kubectl.run().await.unwrap()
}

async fn helm(testbed: &Testbed, arguments: &[&str]) -> Finished {
    let helm = ensure_built(&cache_dir().unwrap(), &[Tool::Helm]).unwrap();
    let kubeconfig = testbed.kubeconfig("admin").unwrap();
    let helm = Invocation::new(&helm[0]).args(arguments);
    let helm = helm.namespace("llsd-system").env("KUBECONFIG", kubeconfig);
    helm.run().await.unwrap()
}

/// Creates a resource. The webhook cannot be reached in the testbed, and is ignored.
async fn create_resource(testbed: &Testbed) {
    let sample = checkout().join("samples/minimal.yaml");
    let line = format!("apply --namespace default --filename {}", sample.display());
    until("the resource is created", DEADLINE, || async {
        kubectl(testbed, &line).await.success()
    })
    .await
    .unwrap();
}

async fn assert_kept(testbed: &Testbed) {
    let line = format!("get crd {CRD} --output=jsonpath={{.metadata.deletionTimestamp}}");
    assert_eq!(kubectl(testbed, &line).await.success().unwrap(), "");
    let get = "get llsd/minimal --namespace default --output=jsonpath={.metadata.name}";
    assert_eq!(kubectl(testbed, get).await.success().unwrap(), "minimal");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_the_default_manifests_leaves_the_definitions_and_their_resources() {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let default = checkout().join("deploy/kustomize/default");
    let install = format!("apply --server-side --kustomize {}", default.display());
    kubectl(&testbed, &install).await.success().unwrap();
    create_resource(&testbed).await;
    until("the definitions are protected", DEADLINE, || async {
        let attempt = format!("delete crd {CRD} --dry-run=server");
        let denied = kubectl(&testbed, &attempt).await.failure()?;
        anyhow::ensure!(denied.contains("llamastack.io/allow-deletion"), "{denied}");
        Ok(())
    })
    .await
    .unwrap();

    let delete = format!("delete --wait=false --kustomize {}", default.display());
    let denied = kubectl(&testbed, &delete).await.failure().unwrap();
    assert!(denied.contains("deletes every resource"), "{denied}");
    let deployment = "get deployment llsd-operator --namespace llsd-system --ignore-not-found";
    until("the operator is deleted", DEADLINE, || async {
        let found = kubectl(&testbed, deployment).await.success()?;
        anyhow::ensure!(found.is_empty(), "{found}");
        Ok(())
    })
    .await
    .unwrap();
    assert_kept(&testbed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_leaves_the_definitions_when_it_uninstalls_or_stops_to_manage_them() {
    let testbed = Testbed::start(Release::Oldest).await.unwrap();
    let chart = checkout().join("deploy/helm/llsd").display().to_string();
    let install = ["install", "llsd", &chart, "--create-namespace"];
    helm(&testbed, &install).await.success().unwrap();
    create_resource(&testbed).await;
    let upgrade = [
        "upgrade",
        "llsd",
        &chart,
        "--set",
        "definitions.install=false",
    ];
    helm(&testbed, &upgrade).await.success().unwrap();
    assert_kept(&testbed).await;

    let upgrade = ["upgrade", "llsd", &chart];
    helm(&testbed, &upgrade).await.success().unwrap();
    helm(&testbed, &["uninstall", "llsd"])
        .await
        .success()
        .unwrap();
    assert_kept(&testbed).await;
}
