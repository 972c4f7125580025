//! Names of the ConfigMaps that hold CA certificates for a server.

use llsd_api::v1alpha2::CaBundle;
use llsd_render::objects::Owner;

/// The ConfigMap in which Open Data Hub publishes its CA bundle in every namespace.
pub(crate) const PLATFORM_BUNDLE: &str = "odh-trusted-ca-bundle";

/// The namespace of the CA bundle that a resource refers to.
pub(crate) fn bundle_namespace<'a>(bundle: &'a CaBundle, owner: &'a Owner) -> &'a str {
    let other = bundle.config_map_namespace.as_deref();
    other
        .filter(|name| !name.is_empty())
        .unwrap_or(&owner.namespace)
}
