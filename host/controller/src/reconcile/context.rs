//! What every reconciliation may use.

use std::sync::Arc;

use kube::Client;
use llsd_render::objects::Cluster;

use crate::configuration::Configurations;
use crate::gather::Contents;
use crate::health::Health;
use crate::images::Images;
use crate::metrics::Metrics;
use crate::patience::Patience;
use crate::plugins::Plugins;
use crate::polling::Polls;
use crate::references::References;
use crate::report::{Events, Recent};
use crate::turns::Turns;
use crate::view::{View, Wake};

/// Shared by all reconciliations of one operator.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// Schema adapters and provider packs.
    pub(crate) plugins: Arc<Plugins>,
    /// What the labels of images say.
    pub(crate) images: Images,
    /// What the operator's own ConfigMap says.
    pub(crate) configurations: Arc<Configurations>,
    /// Which resources wait for what.
    pub(crate) references: Arc<References>,
    /// What the cluster offers.
    pub(crate) cluster: Cluster,
    /// What is known of the cluster.
    pub(crate) view: Arc<View>,
    /// What referenced objects hold.
    pub(crate) contents: Contents,
    /// What was written on statuses.
    pub(crate) recent: Recent,
    /// Where events go.
    pub(crate) events: Arc<Events>,
    /// How often each resource failed.
    pub(crate) patience: Patience,
    /// Whose turn it is.
    pub(crate) turns: Turns,
    /// What running servers say about themselves.
    pub(crate) polls: Polls,
    /// Asks for passes.
    pub(crate) wake: Wake,
    /// Which passes are under way.
    pub(crate) health: Arc<Health>,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
}

impl Context {
    /// Forgets a resource that is gone.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.references.forget(namespace, name);
        self.patience.regain(namespace, name);
        self.polls.forget(namespace, name);
        self.contents.forget_absent();
    }
}
