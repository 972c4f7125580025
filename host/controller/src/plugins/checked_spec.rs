//! What an installer's `SchemaPlugin` means: where from, on what terms, with which limits.
//!
//! In: a spec. Out: terms that the registry client and the sandbox understand, or every reason why
//! there are none. Pure.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use llsd_api::schema_plugin::{
    NamespacedName, PluginLimits, SchemaPluginSpec, Verify, VerifyLevel, World,
};
use llsd_api::{FieldPath, Rejection, Rejections};
use llsd_plugin::Limits;
use llsd_registry::signature::{Level, PublicKey, Verification};
use llsd_registry::{Mirror, Reference, Rule};

/// What a `SchemaPlugin` allows.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) subject: Subject,
    /// The rule under which its plugins are pulled.
    pub(crate) rule: Rule,
    pub(crate) grant: Grant,
    pub(crate) pull_secret: Option<NamespacedName>,
    pub(crate) ca_bundle: Option<NamespacedName>,
    /// Where to fetch from instead.
    pub(crate) mirror: Option<Mirror>,
}

/// What a plugin may be and use.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) limits: Limits,
    /// Worlds that may be loaded.
    pub(crate) worlds: Vec<World>,
}

impl Default for Grant {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            worlds: vec![World::SchemaAdapter, World::ProviderPack],
        }
    }
}

/// What a `SchemaPlugin` is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// One plugin.
    Plugin(Reference),
    /// Whatever images propose under a prefix.
    Proposals(String),
}

impl Terms {
    /// Reads a spec; every problem at once.
    pub(crate) fn of(spec: &SchemaPluginSpec) -> Result<Self, Rejections> {
        let path = FieldPath::spec();
        let subject = subject(spec);
        let verification = verification(spec.verify.as_ref(), &path.field("verify"));
        let limits = limits(spec.limits.as_ref(), &path.field("limits"));
        let problems = [
            subject.as_ref().err(),
            verification.as_ref().err(),
            limits.as_ref().err(),
        ];
        if let Some(problems) = Rejections::new(problems.into_iter().flatten().cloned().collect()) {
            return Err(problems);
        }
        let (subject, verification, limits) = (subject?, verification?, limits?);
        let prefix = match &subject {
            Subject::Plugin(reference) => reference.name(),
            Subject::Proposals(prefix) => prefix.clone(),
        };
        // A mirror stands for the folder that the plugin lies in, or for the whole prefix.
        let from = match &subject {
            Subject::Plugin(_) => prefix.rsplit_once('/').map_or(&*prefix, |(from, _)| from),
            Subject::Proposals(prefix) => prefix,
        };
        let mirror = spec.mirror.as_ref().map(|to| Mirror {
            from: from.to_owned(),
            to: to.clone(),
        });
        let mut rule = Rule::new(prefix, verification);
        rule.require_digest = spec.require_digest == Some(true);
        rule.max_bytes = limits.component_bytes as u64;
        Ok(Self {
            subject,
            rule,
            grant: Grant {
                limits,
                worlds: spec.worlds.clone().unwrap_or(Grant::default().worlds),
            },
            pull_secret: spec.pull_secret_ref.clone(),
            ca_bundle: spec.ca_bundle_ref.clone(),
            mirror,
        })
    }
}

fn subject(spec: &SchemaPluginSpec) -> Result<Subject, Rejection> {
    match (&spec.reference, &spec.proposal_prefix) {
        (Some(text), None) => match text.parse() {
            Ok(reference) => Ok(Subject::Plugin(reference)),
            Err(error) => Err(refuse(
                FieldPath::spec().field("reference"),
                error,
                "correct the reference",
            )),
        },
        (None, Some(prefix)) => Ok(Subject::Proposals(prefix.trim_end_matches('/').to_owned())),
        _ => Err(refuse(
            FieldPath::spec(),
            "it names neither a plugin nor a prefix, or both",
            "set one of reference and proposalPrefix",
        )),
    }
}

fn verification(verify: Option<&Verify>, path: &FieldPath) -> Result<Verification, Rejection> {
    let Some(Verify {
        level,
        keys,
        threshold,
    }) = verify
    else {
        return Ok(Verification::skip());
    };
    let mut trusted = Vec::new();
    for (position, pem) in keys.iter().flatten().enumerate() {
        let key = PublicKey::from_pem(pem).map_err(|error| {
            let field = path.field("keys").index(position);
            refuse(field, error, "put the content of cosign.pub there")
        })?;
        trusted.push(key);
    }
    Ok(Verification {
        level: match level {
            VerifyLevel::Enforce => Level::Enforce,
            VerifyLevel::Audit => Level::Audit,
            VerifyLevel::Skip => Level::Skip,
        },
        keys: trusted,
        threshold: threshold.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
    })
}

fn limits(asked: Option<&PluginLimits>, path: &FieldPath) -> Result<Limits, Rejection> {
    let mut limits = Limits::default();
    let Some(PluginLimits {
        fuel,
        memory,
        wall_clock_millis,
        output,
        component,
    }) = asked
    else {
        return Ok(limits);
    };
    if let Some(fuel) = fuel.and_then(|fuel| u64::try_from(fuel).ok()) {
        limits.fuel = fuel;
    }
    if let Some(millis) = wall_clock_millis.and_then(|millis| u64::try_from(millis).ok()) {
        limits.wall_clock = Duration::from_millis(millis);
    }
    for (name, quantity, limit) in [
        ("memory", memory, &mut limits.memory_bytes),
        ("output", output, &mut limits.output_bytes),
        ("component", component, &mut limits.component_bytes),
    ] {
        if let Some(Quantity(text)) = quantity {
            *limit = bytes_of(text).ok_or_else(|| {
                let problem = format!("{text:?} is no size in bytes");
                refuse(path.field(name), problem, "write it as 4Mi")
            })?;
        }
    }
    Ok(limits)
}

/// A size as Kubernetes writes it.
fn bytes_of(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match &text[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

fn refuse(field: FieldPath, problem: impl ToString, fix: &str) -> Rejection {
    Rejection {
        field,
        problem: problem.to_string(),
        fix: fix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> SchemaPluginSpec {
        serde_json::from_value(json).expect("a spec")
    }

    #[test]
    fn a_spec_becomes_a_rule_limits_and_a_mirror_of_its_folder() {
        let terms = Terms::of(&spec(serde_json::json!({
            "reference": "quay.io/acme/adapters/x:1",
            "requireDigest": true,
            "limits": { "memory": "32Mi", "component": "1Mi", "fuel": 7 },
            "mirror": "mirror.local:5000/acme",
        })))
        .expect("good terms");
        assert_eq!(terms.rule.prefix, "quay.io/acme/adapters/x");
        assert!(terms.rule.require_digest);
        assert_eq!(terms.rule.max_bytes, 1 << 20);
        assert_eq!(
            (terms.grant.limits.memory_bytes, terms.grant.limits.fuel),
            (32 << 20, 7)
        );
        let mirror = terms.mirror.expect("a mirror");
        assert_eq!(mirror.from, "quay.io/acme/adapters");
        assert_eq!(terms.grant.worlds.len(), 2);
    }

    #[test]
    fn every_sample_has_good_terms() {
        for sample in [
            include_str!("../../../../samples/plugins/signed.yaml"),
            include_str!("../../../../samples/plugins/air-gap.yaml"),
            include_str!("../../../../samples/plugins/proposals.yaml"),
        ] {
            let resource = llsd_render::yaml::read(sample).expect("YAML");
            Terms::of(&spec(resource["spec"].clone())).expect("good terms");
        }
    }

    #[test]
    fn every_problem_of_a_spec_is_named_by_its_field() {
        let refused = Terms::of(&spec(serde_json::json!({
            "reference": "https://quay.io/x",
            "verify": { "level": "enforce", "keys": ["no key"] },
            "limits": { "memory": "lots" },
        })))
        .expect_err("bad terms");
        let fields: Vec<_> = refused.iter().map(|one| one.field.to_string()).collect();
        assert_eq!(
            fields,
            [
                "spec.limits.memory",
                "spec.reference",
                "spec.verify.keys[0]"
            ]
        );
        let neither = Terms::of(&SchemaPluginSpec::default()).expect_err("nothing named");
        assert!(neither.to_string().contains("reference and proposalPrefix"));
    }
}
