//! `llsd migrate`: resources that are still stored as v1alpha1 are stored as v1alpha2.

use anyhow::Context;
use kube::Client;
use llsd_controller::{Migration, migrate_storage};

use crate::{Verdict, talk};

/// Runs against the cluster of the current kubeconfig; may be interrupted and run again.
pub(crate) fn run() -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no thread to run on")?;
    runtime.block_on(async {
        let client = Client::try_default()
            .await
            .context("no cluster to talk to; set KUBECONFIG")?;
        talk::data(&match migrate_storage(&client).await? {
            Migration::NothingToDo => "nothing to do: everything is stored as v1alpha2".to_owned(),
            Migration::Done(1) => "1 resource stored as v1alpha2".to_owned(),
            Migration::Done(count) => format!("{count} resources stored as v1alpha2"),
        });
        Ok(Verdict::Done)
    })
}
