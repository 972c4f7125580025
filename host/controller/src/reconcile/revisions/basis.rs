//! What plugins generated a recorded configuration from, in a few bytes.

use llsd_render::digest;
use llsd_render::objects::ConfigPlan;

use super::Resolution;
use crate::reconcile::gather::{Gathered, Source};

/// What plugins generated a recorded configuration from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basis {
    /// The generation of the spec.
    generation: Option<i64>,
    /// The digest of what was gathered.
    gathered: String,
    /// The digests of the plugins.
    plugins: Vec<String>,
}

impl Basis {
    /// `None` if no plugin generated the configuration, or if someone went back to it: it is of an older spec.
    pub(super) fn of(resolution: &Resolution) -> Option<Self> {
        let ConfigPlan::Generated(generated) = &resolution.plan else {
            return None;
        };
        let packs = generated.packs.values();
        let plugins = packs.chain([&generated.receipt.component]);
        (!resolution.is_held).then(|| Self {
            generation: resolution.author.generation,
            gathered: digest_of(&resolution.gathered),
            plugins: plugins.cloned().collect(),
        })
    }

    /// Whether the plugins in use generate the same configuration from a spec and from what is gathered now.
    pub(crate) fn is_current(
        &self,
        generation: Option<i64>,
        now: &Gathered,
        is_in_use: impl Fn(&str) -> bool,
    ) -> bool {
        self.generation == generation
            && self.plugins.iter().all(|plugin| is_in_use(plugin))
            && self.gathered == digest_of(now)
    }
}

/// The digest of everything that a configuration is generated from besides the spec.
fn digest_of(gathered: &Gathered) -> String {
    let Gathered {
        image,
        source,
        facts,
        packages,
        has_ca_bundle,
        // These matter to the objects only.
        server: _,
        network_policy: _,
        allows_any_uid: _,
        allows_privileged_pods: _,
        kept_privileges: _,
        warnings: _,
    } = gathered;
    let base = match source {
        Source::Base {
            // It has the digest.
            config: _,
            hints,
            kind,
            digest,
        } => Some((hints, kind, digest)),
        Source::Override { .. } | Source::DistributionDefault => None,
    };
    let all = (image, base, facts, packages, has_ca_bundle);
    // Writing to memory cannot fail, and all keys are strings.
    digest::of(serde_json::to_vec(&all).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with_base(resolution: Resolution, base: Value) -> Resolution {
        let digest = digest::of(base.to_string());
        let source = json!({"Base": {
            "config": base, "hints": {}, "kind": "ImageLabels", "digest": digest,
        }});
        Resolution {
            gathered: Gathered {
                source: serde_json::from_value(source).unwrap(),
                ..resolution.gathered
            },
            ..resolution
        }
    }

    fn generated() -> Resolution {
        let generated = json!({"Generated": {
            "yaml": "", "variables": [], "startup": {}, "models": [], "warnings": [],
            "counts": {"providers": 0, "models": 0, "tools": 0, "shields": 0},
            "schema": {"id": "acme/1", "source": "Stated"}, "releases": {"from": "1", "before": null},
            "receipt": {"plugin": "acme", "version": "1", "component": "sha256:a", "input": "",
                        "output": "", "fuel": 0},
            "packs": {"pack": "sha256:p"},
        }});
        let recorded = Resolution {
            plan: serde_json::from_value(generated).unwrap(),
            ..Resolution::example()
        };
        with_base(recorded, json!({"version": 2}))
    }

    #[test]
    fn a_basis_is_current_while_everything_that_it_was_generated_from_is_the_same() {
        let recorded = generated();
        let basis = Basis::of(&recorded).unwrap();
        let generation = recorded.author.generation;
        let is_current = |now: &Gathered, in_use: &[&str]| {
            basis.is_current(generation, now, |plugin| in_use.contains(&plugin))
        };
        let now = &recorded.gathered;
        let in_use = ["sha256:a", "sha256:p"];
        assert!(is_current(now, &in_use));
        assert!(!is_current(now, &in_use[..1]), "another pack is in use");
        assert!(!is_current(now, &in_use[1..]), "another adapter is in use");
        assert!(
            !basis.is_current(Some(4), now, |_| true),
            "the spec changed"
        );
        let other_image = Gathered {
            image: "acme/stack:2".to_owned(),
            ..now.clone()
        };
        assert!(!is_current(&other_image, &in_use));
        let with_certificates = Gathered {
            has_ca_bundle: true,
            ..now.clone()
        };
        assert!(!is_current(&with_certificates, &in_use));
        let other_base = with_base(recorded.clone(), json!({"version": 3}));
        assert!(!is_current(&other_base.gathered, &in_use));
        let mut of_other_release = recorded.clone();
        let Source::Base { hints, .. } = &mut of_other_release.gathered.source else {
            panic!("the source is a base");
        };
        hints.server_version = Some("0.7.3".to_owned());
        assert!(!is_current(&of_other_release.gathered, &in_use));
    }

    #[test]
    fn nothing_and_an_older_spec_are_no_basis() {
        let undone = Resolution {
            is_held: true,
            ..generated()
        };
        assert_eq!(Basis::of(&undone), None);
        assert_eq!(Basis::of(&Resolution::example()), None);
    }
}
