//! The RoleBinding that lets the pods run as any user on OpenShift.
//!
//! Everyone who may create pods in the namespace can use the ServiceAccount, and so run a pod as root.
//! So the binding exists only in the namespaces for which the installer allows it.

use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};

use super::metadata::metadata;
use super::{ObjectInputs, SERVICE_ACCOUNT_SUFFIX};

pub(super) const SUFFIX: &str = "-rb";
/// The ClusterRole, which exists only on OpenShift.
pub const ANY_UID: &str = "system:openshift:scc:anyuid";

pub(super) fn role_binding(inputs: &ObjectInputs<'_>) -> Option<RoleBinding> {
    let is_allowed = inputs.cluster.has_any_uid && inputs.allows_any_uid;
    is_allowed.then(|| RoleBinding {
        metadata: metadata(inputs.owner, SUFFIX),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: ANY_UID.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: format!("{}{SERVICE_ACCOUNT_SUFFIX}", inputs.owner.name),
            namespace: Some(inputs.owner.namespace.clone()),
            api_group: None,
        }]),
    })
}
