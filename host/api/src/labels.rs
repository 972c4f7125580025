//! Labels, annotations and the field manager of everything that is ours.

/// Label of every child: who manages it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`], which the first operator chose.
pub const MANAGER: &str = "llama-stack-operator";
/// Label of every child: what it is a part of.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The value of [`PART_OF`].
pub const PRODUCT: &str = "llama-stack";
/// Label of every child that is watched.
pub const WATCH: &str = "llamastack.io/watch";
/// Label of pods and of all selectors.
pub const APP: &str = "app";
/// Label of pods and of all selectors: the name of the resource.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Label of a child that has a role of its own.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// The manager of every field that we apply.
pub const FIELD_MANAGER: &str = "llsd";
