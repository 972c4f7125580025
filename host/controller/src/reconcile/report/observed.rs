//! The observed state of a resource's objects.

use kube::ResourceExt;
use kube::api::DynamicObject;
use llsd_render::objects::{Kind, Owner, SERVICE_SUFFIX, VOLUME_CLAIM_SUFFIX};

use super::rollout::Rollout;
use crate::cache::{ClusterCache, failing_probe, pod_problem};
use crate::reconcile::apply::belongs_to;

/// The observed state of a resource's objects.
pub(super) struct Observed {
    /// The state of the Deployment; `None` if the resource has none.
    pub(super) rollout: Option<Rollout>,
    /// The PersistentVolumeClaim.
    pub(super) claim: Option<DynamicObject>,
    pub(super) has_service: bool,
    /// Why pods do not run, one line per pod.
    pub(super) problems: Vec<String>,
    /// The probes that running pods have not passed, one line per pod.
    pub(super) failing_probes: Vec<String>,
    /// The Secret with the certificate of the Ingress or Route, if it does not exist.
    pub(super) missing_exposure_secret: Option<String>,
}

impl Observed {
    /// Reads the objects from the cache. `exposure_secret` is the Secret of the Ingress or Route.
    pub(super) fn read(cache: &ClusterCache, owner: &Owner, exposure_secret: Option<&str>) -> Self {
        let Owner {
            namespace, name, ..
        } = owner;
        let child = |kind, suffix: &str| {
            cache
                .child(kind, namespace, &format!("{name}{suffix}"))
                .filter(|object| belongs_to(object, owner))
        };
        let pods = cache.pods.group(namespace, name);
        let lines = |text: fn(&DynamicObject) -> Option<&str>| {
            let line =
                |pod: &DynamicObject| Some(format!("pod {:?}: {}", pod.name_any(), text(pod)?));
            let mut lines: Vec<String> = pods.iter().filter_map(line).collect();
            lines.sort();
            lines
        };
        Self {
            rollout: child(Kind::Deployment, "").map(|deployment| Rollout::of(&deployment)),
            claim: child(Kind::PersistentVolumeClaim, VOLUME_CLAIM_SUFFIX),
            has_service: child(Kind::Service, SERVICE_SUFFIX).is_some(),
            problems: lines(pod_problem),
            failing_probes: lines(failing_probe),
            missing_exposure_secret: exposure_secret
                .filter(|secret| !cache.has_child(Kind::Secret, namespace, secret))
                .map(str::to_owned),
        }
    }
}
