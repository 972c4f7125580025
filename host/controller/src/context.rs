//! What every reconciliation may use.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use llsd_plugin::Plugin;
use llsd_render::distributions::KnownDistribution;

use crate::references::References;

/// Shared by all reconciliations of one operator.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// Those that come first are asked first.
    pub(crate) plugins: Arc<[Plugin]>,
    /// Distributions that a resource can name.
    pub(crate) distributions: BTreeMap<String, KnownDistribution>,
    /// Which resources wait for which Secrets and ConfigMaps.
    pub(crate) references: Arc<References>,
}
