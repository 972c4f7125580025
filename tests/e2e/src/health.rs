//! How other tools judge a resource: kstatus, which Flux and Helm use, and Argo CD.

use std::path::Path;

use llsd_testbed::Invocation;
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use serde::Serialize;
use serde_json::Value;

/// The status that kstatus computes for an object: `Current`, `InProgress`, `Failed`, …
pub async fn kstatus(object: &impl Serialize) -> String {
    judge(&["kstatus"], object).await
}

/// The health that Argo CD computes with the shipped script: `Healthy`, `Progressing`, `Degraded`.
pub async fn argocd_health(object: &impl Serialize) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/argocd/health.lua");
    judge(&["argocd", script.to_str().unwrap()], object).await
}

async fn judge(arguments: &[&str], object: &impl Serialize) -> String {
    let program = ensure_built(&cache_dir().unwrap(), &[Tool::Health])
        .unwrap()
        .remove(0);
    let finished = Invocation::new(&program)
        .args(arguments)
        .input(serde_json::to_vec(object).unwrap())
        .run()
        .await;
    let line = finished.unwrap().success().unwrap();
    let health: Value = serde_json::from_str(&line).unwrap();
    health["status"].as_str().unwrap().to_owned()
}
