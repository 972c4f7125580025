//! The part of a server's state that changes when the operator writes to it or replaces pods.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::TestEnv;

/// The generation of a Deployment and the uids of its pods. Two equal states mean that in between the
/// Deployment did not change and no pod was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutState {
    generation: Option<i64>,
    pods: BTreeSet<String>,
}

impl RolloutState {
    /// The current state of one server.
    pub async fn of(env: &TestEnv, name: &str) -> Self {
        let deployment = env.api::<Deployment>().get(name).await.unwrap();
        let own = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
        let pods = env.api::<Pod>().list_metadata(&own).await.unwrap();
        let pods: BTreeSet<_> = pods
            .into_iter()
            .filter_map(|one| one.metadata.uid)
            .collect();
        assert!(!pods.is_empty(), "{name} has no pods to compare");
        Self {
            generation: deployment.metadata.generation,
            pods,
        }
    }
}
