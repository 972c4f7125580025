//! On OpenShift the pods may run under the group that their volume belongs to.

use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};

use super::{ObjectInputs, SERVICE_ACCOUNT_SUFFIX, metadata};

pub(super) const SUFFIX: &str = "-rb";
/// The ClusterRole, which only OpenShift has.
pub const ANY_UID: &str = "system:openshift:scc:anyuid";

pub(super) fn role_binding(inputs: &ObjectInputs<'_>) -> Option<RoleBinding> {
    inputs.cluster.has_any_uid.then(|| RoleBinding {
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
