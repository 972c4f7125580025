//! The API group, the kind and the versions of `LlamaStackDistribution`.

/// The group of every kind in this crate.
pub const GROUP: &str = "llamastack.io";
/// The kind of the resource.
pub const KIND: &str = "LlamaStackDistribution";
/// The `apiVersion` of a v1alpha1 resource.
pub const API_VERSION_V1ALPHA1: &str = "llamastack.io/v1alpha1";
/// The `apiVersion` of a v1alpha2 resource.
pub const API_VERSION_V1ALPHA2: &str = "llamastack.io/v1alpha2";
