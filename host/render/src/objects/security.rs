//! The security contexts of the pod and its containers.
//!
//! They meet the restricted Pod Security Standard if the user of the server image is known. An image
//! whose user is not known may run as root, so `runAsNonRoot` is not set for it.

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

use super::ObjectInputs;

/// The group of the published images, which must be able to write to the volume.
const FS_GROUP: i64 = 1001;
/// The user of init containers that only copy files. It can be any user but root.
const COPY_USER: i64 = 1001;

/// The context of the pod. The user of the resource applies to the server and to the init container
/// that runs the server image.
pub(super) fn pod_context(inputs: &ObjectInputs<'_>) -> PodSecurityContext {
    PodSecurityContext {
        // Where users are restricted, OpenShift chooses the group and rejects any other.
        fs_group: (!inputs.restricts_users()).then_some(FS_GROUP),
        run_as_user: inputs.checked.workload.overrides.run_as_user,
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

/// The context of a container with the server image.
pub(super) fn server_context(inputs: &ObjectInputs<'_>) -> SecurityContext {
    SecurityContext {
        run_as_non_root: is_unprivileged(inputs).then_some(true),
        ..restricted()
    }
}

/// The context of a container that copies the files of another image.
pub(super) fn copy_context(inputs: &ObjectInputs<'_>) -> SecurityContext {
    SecurityContext {
        run_as_non_root: Some(true),
        // OpenShift chooses the user, too.
        run_as_user: (!inputs.restricts_users()).then_some(COPY_USER),
        ..restricted()
    }
}

fn restricted() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: None,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    }
}

/// Whether the server runs as a numeric user other than root. The kubelet can verify `runAsNonRoot`
/// only for a numeric user, and would not start an image with a user name.
fn is_unprivileged(inputs: &ObjectInputs<'_>) -> bool {
    if let Some(user) = inputs.checked.workload.overrides.run_as_user {
        return user != 0;
    }
    let user = inputs.server.user.as_deref();
    user.and_then(|user| user.split(':').next()?.parse::<u32>().ok())
        .is_some_and(|id| id != 0)
}
