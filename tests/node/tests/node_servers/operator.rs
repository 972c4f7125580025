//! The operator itself, as pods.

use std::time::Duration;

use llsd_node::{Cluster, MODEL};
use llsd_testbed::until;
use serde_json::json;

const NAMESPACE: &str = "llsd-system";

/// Longer than the lease of a leader that does not release it.
const REPLACED_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced_and_changes_are_made() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab("leader").await.unwrap();
    let kubectl = |arguments: Vec<String>| async move {
        let kubectl = cluster
            .node()
            .testbed()
            .kubectl("admin")?
            .namespace(NAMESPACE);
        kubectl.args(arguments).run().await?.success()
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let holder = || {
        kubectl(words(
            "get lease llsd-operator --output=jsonpath={.spec.holderIdentity}",
        ))
    };
    let first = holder().await.unwrap();
    // Without a grace period the operator cannot release the lease.
    kubectl(words(&format!(
        "delete pod {first} --grace-period=0 --force"
    )))
    .await
    .unwrap();
    until("another replica leads", REPLACED_WITHIN, || async {
        let current = holder().await?;
        anyhow::ensure!(!current.is_empty() && current != first, "{current:?} leads");
        Ok(())
    })
    .await
    .unwrap();

    let spec = json!({
        "distribution": {"name": "starter"},
        "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
        "resources": {"models": [MODEL]},
    });
    lab.apply_resource("server", spec).await.unwrap();
    lab.ready("server").await.unwrap();
}
