//! A soak: random changes for a while, with a restart of the operator every few minutes.
//!
//! At the end every Deployment must have the last value of its resource, the operator may have written no more
//! Deployments and statuses than there were changes, and it may need little more memory than at first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use llsd_bench::{Operator, by_verb, requests, settle};
use llsd_testbed::AuditedRequest;
use serde_json::json;

use crate::{Fleet, is_write_of_resource};

/// How often the operator is restarted.
const RESTART: Duration = Duration::from_secs(180);
/// When the first memory is measured: after everything was used.
const WARM: Duration = Duration::from_secs(300);
/// The most memory at the end, as a ratio to the first one.
const GROWTH: f64 = 1.1;
/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(100);

/// Changes the resources of a fleet at random, and returns the result as text.
pub(crate) async fn soak(fleet: &Fleet<'_>, length: Duration) -> anyhow::Result<String> {
    let mut operator = fleet.start("soak-0", Some(fleet.webhooks), &[])?;
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
            let minutes = started.elapsed().as_secs() / 60;
            let memory = operator.memory()?.now;
            println!("minute {minutes}: {changes} changes, {touches} touches, {memory:.0} MiB");
            operator.stop()?;
            restarts += 1;
            operator = fleet.start(&format!("soak-{restarts}"), Some(fleet.webhooks), &[])?;
            restarted = Instant::now();
        }
        tokio::time::sleep(PAUSE).await;
    }
    settle(fleet.testbed).await?;
    let warm = warm.context("the soak is too short")?;
    let end = operator.memory()?.now;
    check(fleet, &values).await?;
    let sent = requests(fleet.testbed, mark)?;
    println!("requests: {}", by_verb(&sent));
    // A status of an old version of its resource is rejected, and changes nothing.
    let accepted = |one: &&AuditedRequest| is_write_of_resource(one) && one.code < 300;
    let writes = |resource: &str| {
        let of_resource = sent.iter().filter(|one| one.resource == resource);
        of_resource.filter(accepted).count()
    };
    let (deployments, statuses) = (writes("deployments"), writes("llamastackdistributions"));
    ensure!(
        deployments <= changes && statuses <= changes,
        "{deployments} writes of Deployments and {statuses} of statuses for {changes} changes"
    );
    ensure!(
        end <= warm * GROWTH,
        "memory grew from {warm:.0} to {end:.0} MiB"
    );
    drop::<Operator>(operator);
    Ok(format!(
        "{changes} changes, {touches} touches and {restarts} restarts in {:.0?}: {deployments} writes of \
         Deployments and {statuses} of statuses, nothing lost; memory {warm:.0} MiB at first, {end:.0} MiB at the end ({:+.0} %)",
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
