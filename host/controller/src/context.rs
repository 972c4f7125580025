//! What every reconciliation may use.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use llsd_render::distributions::KnownDistribution;
use llsd_render::objects::Cluster;

use crate::gather::Contents;
use crate::health::Health;
use crate::images::Images;
use crate::metrics::Metrics;
use crate::patience::Patience;
use crate::plugins::Plugins;
use crate::references::References;
use crate::report::{Events, Recent};
use crate::view::View;

/// Shared by all reconciliations of one operator.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// Schema adapters and provider packs.
    pub(crate) plugins: Arc<Plugins>,
    /// What the labels of images say.
    pub(crate) images: Images,
    /// Distributions that a resource can name.
    pub(crate) distributions: BTreeMap<String, KnownDistribution>,
    /// Which resources wait for which Secrets and ConfigMaps.
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
    pub(crate) events: Events,
    /// How often each resource failed.
    pub(crate) patience: Patience,
    /// Which passes are under way.
    pub(crate) health: Arc<Health>,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
}
