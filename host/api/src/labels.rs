//! Labels of the child objects, and the field manager of server-side apply.

use std::collections::BTreeMap;

/// Label of every child object: its manager.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`], the same as in llama-stack-k8s-operator.
pub const MANAGER: &str = "llama-stack-operator";
/// Label of every child object: the product.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The value of [`PART_OF`].
pub const PRODUCT: &str = "llama-stack";
/// Label of child objects that the operator watches.
pub const WATCH: &str = "llamastack.io/watch";
/// Label of pods, used in all selectors.
pub const APP: &str = "app";
/// Label of pods, used in all selectors: the name of the resource.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Label of child objects with a separate role.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Annotation of a resource whose server was adopted from another operator: the value of [`MANAGED_BY`] that the
/// operator used. It must stay, because the label [`APP`] of the pods depends on it.
pub const ADOPTED_FROM: &str = "llamastack.io/adopted-from";
/// The value of [`MANAGED_BY`], and the field manager, of ogx-k8s-operator.
pub const OGX_MANAGER: &str = "ogx-operator";
/// The label [`APP`] of the pods of ogx-k8s-operator.
pub const OGX_APP: &str = "ogx";
/// Field manager of server-side apply.
pub const FIELD_MANAGER: &str = "llsd";
/// Annotation of a resource: takes every available update when its value changes. A revision records
/// the last value that was answered.
pub const UPDATE: &str = "llamastack.io/update";
/// Annotation of a resource: goes back to the previous revision when its value changes.
pub const UNDO: &str = "llamastack.io/undo";
/// Annotation of a revision: the rollout that created it.
pub const ROLLOUT: &str = "llamastack.io/rollout";
/// The ConfigMap in the operator's namespace with the progress of rollouts.
pub const ROLLOUTS_CONFIG_MAP: &str = "llsd-rollouts";

/// The label [`APP`] of the pods of a resource with these annotations. It is part of selectors, which are
/// immutable.
pub fn pod_app(annotations: &BTreeMap<String, String>) -> &'static str {
    match annotations.get(ADOPTED_FROM).map(String::as_str) {
        Some(OGX_MANAGER) => OGX_APP,
        _ => PRODUCT,
    }
}
