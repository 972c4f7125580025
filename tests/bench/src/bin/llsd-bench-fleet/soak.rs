//! A soak: random changes for a while, with a restart of the operator every few minutes.
//!
//! At the end every Deployment must have the last value of its resource, and the operator may have written no
//! Deployment more often than its resource changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use llsd_bench::{Operator, requests, settle};
use serde_json::json;

use crate::Fleet;

/// How often the operator is restarted.
const RESTART: Duration = Duration::from_secs(180);
/// When the first memory is measured: after everything was used.
const WARM: Duration = Duration::from_secs(300);
/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(100);

/// Changes the resources of a fleet at random, and returns the result as text.
pub(crate) async fn soak(fleet: &Fleet<'_>, length: Duration) -> anyhow::Result<String> {
    let mut operator = fleet.start("soak-0", true)?;
    fleet.installed().await?;
    fleet.create(fleet.size).await?;
    fleet.wait_for_deployments(fleet.size).await?;
    settle(fleet.testbed).await?;

    let mark = fleet.testbed.audit().mark()?;
    let (started, mut restarted) = (Instant::now(), Instant::now());
    let mut values: BTreeMap<String, usize> = BTreeMap::new();
    let (mut changes, mut touches, mut restarts) = (0, 0, 0);
    let mut warm = None;
    while started.elapsed() < length {
        let name = format!("fleet-{}", fastrand::usize(..fleet.size));
        if fastrand::bool() {
            changes += 1;
            fleet.patch(&name, change(changes)).await?;
            values.insert(name, changes);
        } else {
            touches += 1;
            let label = json!({"metadata": {"labels": {"touched": touches.to_string()}}});
            fleet.patch(&name, label).await?;
        }
        if warm.is_none() && started.elapsed() > WARM.min(length / 2) {
            warm = Some(operator.memory()?.now);
        }
        if restarted.elapsed() > RESTART {
            operator.stop()?;
            restarts += 1;
            operator = fleet.start(&format!("soak-{restarts}"), true)?;
            restarted = Instant::now();
        }
        tokio::time::sleep(PAUSE).await;
    }
    settle(fleet.testbed).await?;
    let warm = warm.context("the soak is too short")?;
    let end = operator.memory()?.now;
    check(fleet, &values).await?;
    let writes = requests(fleet.testbed, mark)?;
    let writes = writes
        .iter()
        .filter(|one| one.resource == "deployments" && one.verb != "get" && one.verb != "list")
        .count();
    ensure!(
        writes <= changes,
        "{writes} writes of Deployments for {changes} changes"
    );
    drop::<Operator>(operator);
    Ok(format!(
        "{changes} changes, {touches} touches and {restarts} restarts in {:.0?}: {writes} writes of Deployments, \
         nothing lost; memory {warm:.0} MiB at first, {end:.0} MiB at the end ({:+.0} %)",
        started.elapsed(),
        (end / warm - 1.0) * 100.0,
    ))
}

fn change(value: usize) -> serde_json::Value {
    let variable = json!([{"name": "CHANGED", "value": value.to_string()}]);
    json!({"spec": {"workload": {"overrides": {"env": variable}}}})
}

/// Checks that every Deployment has the last value of its resource.
async fn check(fleet: &Fleet<'_>, values: &BTreeMap<String, usize>) -> anyhow::Result<()> {
    let api: Api<Deployment> = fleet.namespace.api(&fleet.client);
    let deployments = api.list(&ListParams::default()).await?;
    for deployment in deployments {
        let name = deployment.metadata.name.clone().unwrap_or_default();
        if let Some(value) = values.get(&name) {
            let wanted = json!({"name": "CHANGED", "value": value.to_string()}).to_string();
            let spec = json!(deployment.spec).to_string();
            ensure!(spec.contains(&wanted), "{name} lost its last change");
        }
    }
    Ok(())
}
