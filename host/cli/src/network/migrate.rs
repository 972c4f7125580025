//! `llsd migrate`: resources that are still stored as v1alpha1 are stored as v1alpha2.

use llsd_controller::{Migration, migrate_storage};

use crate::network::cluster::ClusterOptions;
use crate::{Verdict, talk};

/// Runs against the cluster of the current kubeconfig; may be interrupted and run again.
pub(crate) fn run() -> anyhow::Result<Verdict> {
    ClusterOptions::default().ask(async |client| {
        talk::data(&match migrate_storage(&client).await? {
            Migration::NothingToDo => "nothing to do: everything is stored as v1alpha2".to_owned(),
            Migration::Done(1) => "1 resource stored as v1alpha2".to_owned(),
            Migration::Done(count) => format!("{count} resources stored as v1alpha2"),
        });
        Ok(Verdict::Done)
    })
}
