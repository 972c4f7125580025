//! What the reconciliations of `SchemaPlugin`s share.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use llsd_api::SchemaPlugin;
use llsd_plugin::Host;
use tokio::sync::watch;

use super::checked_spec::{CheckedSpec, PluginSource};
use super::restore::Restorer;
use super::shadow::Resources;
use crate::active_plugins::ActivePlugins;
use crate::images::Registries;
use crate::process::{Events, Metrics};

/// A `SchemaPlugin` as the watch delivers it.
pub(super) type Guarded = DeserializeGuard<SchemaPlugin>;

/// The options of the `SchemaPlugin` controller.
pub(crate) struct SchemaPluginOptions {
    pub(crate) client: Client,
    pub(crate) registries: Arc<Registries>,
    pub(crate) host: Host,
    /// The operator's own namespace: for stored components, and for references without a namespace.
    pub(crate) namespace: String,
    /// Label selector of the `SchemaPlugin`s to serve; all if `None`.
    pub(crate) selector: Option<String>,
    /// The resources by which a new version is compared with the one in use.
    pub(crate) resources: Resources,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Arc<Metrics>,
}

impl SchemaPluginOptions {
    pub(super) fn restorer<'a>(&'a self, plugins: &'a ActivePlugins) -> Restorer<'a> {
        Restorer {
            client: &self.client,
            host: &self.host,
            namespace: &self.namespace,
            plugins,
        }
    }
}

pub(super) struct Context {
    pub(super) options: SchemaPluginOptions,
    pub(super) plugins: Arc<ActivePlugins>,
    /// Every `SchemaPlugin`, because the longest prefix among them decides about a proposal.
    pub(super) store: Store<Guarded>,
    /// Whether this replica is the leader.
    pub(super) is_leader: watch::Receiver<bool>,
    /// The uids of deleted `SchemaPlugin`s, which `store` may still contain.
    pub(super) deleted: watch::Receiver<BTreeSet<String>>,
}

impl Context {
    /// The prefixes under which images may propose plugins.
    pub(super) fn proposal_prefixes(&self) -> BTreeSet<String> {
        let specs = self.proposal_specs().into_iter();
        specs.map(|spec| spec.rule.prefix).collect()
    }

    /// The specs of every `SchemaPlugin` that allows proposals.
    pub(super) fn proposal_specs(&self) -> Vec<CheckedSpec> {
        let all = self.store.state();
        let resources = all.iter().filter_map(|one| one.0.as_ref().ok());
        let specs = resources.filter_map(|one| CheckedSpec::new(&one.spec).ok());
        specs
            .filter(|spec| matches!(spec.source, PluginSource::ProposalPrefix(_)))
            .collect()
    }
}
