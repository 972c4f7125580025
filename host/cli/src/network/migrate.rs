//! `llsd migrate`: rewrites resources that are stored as v1alpha1, so that they are stored as v1alpha2.

use llsd_controller::{Migration, migrate_storage};

use crate::network::cluster::ClusterOptions;
use crate::{Exit, output};

/// Migrates the cluster of the current kubeconfig. Can be interrupted and run again.
pub(crate) fn run() -> anyhow::Result<Exit> {
    ClusterOptions::default().run(async |client| {
        output::print(&match migrate_storage(&client).await? {
            Migration::NothingToDo => {
                "nothing to migrate: all resources are stored as v1alpha2".to_owned()
            }
            Migration::Done(1) => "migrated 1 resource to v1alpha2".to_owned(),
            Migration::Done(count) => format!("migrated {count} resources to v1alpha2"),
        });
        Ok(Exit::Success)
    })
}
