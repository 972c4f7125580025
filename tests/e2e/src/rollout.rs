//! What of a server must not change while its operator is in trouble.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::Stage;

/// The Deployment's generation and the identities of its pods: as long as they are the same, nothing
/// was written and nothing was started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    generation: Option<i64>,
    pods: BTreeSet<String>,
}

impl Footprint {
    /// That of one server, now.
    pub async fn of(stage: &Stage, name: &str) -> Self {
        let deployment = stage.api::<Deployment>().get(name).await.unwrap();
        let own = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
        let pods = stage.api::<Pod>().list_metadata(&own).await.unwrap();
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
