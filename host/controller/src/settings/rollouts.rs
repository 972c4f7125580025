//! How existing resources follow what the installer changes.

use llsd_api::schema_plugin::Existing;
use serde::Deserialize;

/// How existing resources follow what the installer changes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RolloutSettings {
    /// Resources that are updated at the same time.
    pub(crate) max_concurrent: usize,
    /// The image of a distribution in these settings.
    pub(crate) distributions: Existing,
    /// The platform's CA bundle.
    pub(crate) ca_bundle: Existing,
    /// Templates, built-in adapters and built-in distributions of another release of the operator.
    pub(crate) operator: Existing,
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self {
            max_concurrent: 1,
            distributions: Existing::Follow,
            ca_bundle: Existing::Follow,
            operator: Existing::Keep,
        }
    }
}
