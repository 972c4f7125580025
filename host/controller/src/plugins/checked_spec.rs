//! Checks the spec of a `SchemaPlugin` and converts it for the registry client and the sandbox.
//!
//! In: a spec. Out: the checked spec, or every problem at once.

use llsd_api::schema_plugin::{
    NamespacedName, SchemaPluginSpec, SignerIdentity, TrustedRootRef, VerificationLoss, Verify,
    VerifyLevel, World,
};
use llsd_api::{Diagnostic, Diagnostics, FieldPath};
use llsd_plugin::Limits;
use llsd_registry::signature::{Identity, Level, PublicKey, Verification};
use llsd_registry::{Mirror, Reference, Rule};

/// A valid spec of a `SchemaPlugin`.
#[derive(Debug, Clone)]
pub(crate) struct CheckedSpec {
    pub(crate) source: PluginSource,
    /// The rule under which its plugins are pulled.
    pub(crate) rule: Rule,
    pub(crate) grant: Grant,
    pub(crate) pull_secret: Option<NamespacedName>,
    pub(crate) ca_bundle: Option<NamespacedName>,
    /// Where the trusted root of the rule's identities is. It is read before the rule is applied.
    pub(crate) trusted_root: Option<TrustedRootRef>,
    /// The registry to fetch from instead.
    pub(crate) mirror: Option<Mirror>,
    /// What happens to a version in use that is no longer sufficiently signed.
    pub(crate) on_verification_loss: VerificationLoss,
}

/// The worlds and limits that are allowed for a plugin.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) limits: Limits,
    /// The worlds that may be loaded.
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

/// Which plugins a `SchemaPlugin` loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PluginSource {
    /// One plugin.
    Reference(Reference),
    /// The plugins that images propose under a prefix.
    ProposalPrefix(String),
}

impl CheckedSpec {
    /// Checks a spec. Returns every problem at once.
    pub(crate) fn new(spec: &SchemaPluginSpec) -> Result<Self, Diagnostics> {
        let path = FieldPath::spec();
        let source = plugin_source(spec);
        let verification = verification(spec.verify.as_ref(), &path.field("verify"));
        let granted = spec.limits.clone().unwrap_or_default();
        let limits = Limits::granted(&granted, &path.field("limits"));
        let problems = [
            source.as_ref().err(),
            verification.as_ref().err(),
            limits.as_ref().err(),
        ];
        if let Some(problems) = Diagnostics::new(problems.into_iter().flatten().cloned().collect())
        {
            return Err(problems);
        }
        let (source, verification, limits) = (source?, verification?, limits?);
        let prefix = match &source {
            PluginSource::Reference(reference) => reference.name(),
            PluginSource::ProposalPrefix(prefix) => prefix.clone(),
        };
        // A mirror replaces the parent path of the plugin, or the whole prefix.
        let from = match &source {
            PluginSource::Reference(_) => {
                prefix.rsplit_once('/').map_or(&*prefix, |(from, _)| from)
            }
            PluginSource::ProposalPrefix(prefix) => prefix,
        };
        let mirror = spec.mirror.as_ref().map(|to| Mirror {
            from: from.to_owned(),
            to: to.clone(),
        });
        let mut rule = Rule::new(prefix, verification);
        rule.require_digest = spec.require_digest == Some(true);
        rule.max_bytes = limits.component_bytes as u64;
        Ok(Self {
            source,
            rule,
            grant: Grant {
                limits,
                worlds: spec.worlds.clone().unwrap_or(Grant::default().worlds),
            },
            pull_secret: spec.pull_secret_ref.clone(),
            ca_bundle: spec.ca_bundle_ref.clone(),
            trusted_root: spec
                .verify
                .as_ref()
                .and_then(|verify| verify.trusted_root_ref.clone()),
            mirror,
            on_verification_loss: spec
                .verify
                .as_ref()
                .and_then(|verify| verify.on_verification_loss)
                .unwrap_or_default(),
        })
    }
}

fn plugin_source(spec: &SchemaPluginSpec) -> Result<PluginSource, Diagnostic> {
    match (&spec.reference, &spec.proposal_prefix) {
        (Some(text), None) => match text.parse() {
            Ok(reference) => Ok(PluginSource::Reference(reference)),
            Err(error) => Err(reject(
                FieldPath::spec().field("reference"),
                error,
                "correct the reference",
            )),
        },
        (None, Some(prefix)) => Ok(PluginSource::ProposalPrefix(
            prefix.trim_end_matches('/').to_owned(),
        )),
        _ => Err(reject(
            FieldPath::spec(),
            "exactly one of reference and proposalPrefix must be set",
            "set one of reference and proposalPrefix",
        )),
    }
}

fn verification(verify: Option<&Verify>, path: &FieldPath) -> Result<Verification, Diagnostic> {
    let Some(Verify {
        level,
        keys,
        identities,
        trusted_root_ref,
        threshold,
        require_repository,
        attestations,
        on_verification_loss: _,
    }) = verify
    else {
        return Ok(Verification::skip());
    };
    let mut trusted = Vec::new();
    for (position, pem) in keys.iter().flatten().enumerate() {
        let key = PublicKey::from_pem(pem).map_err(|error| {
            let field = path.field("keys").index(position);
            reject(field, error, "use the content of cosign.pub")
        })?;
        trusted.push(key);
    }
    let identities = identities.as_deref().unwrap_or_default();
    let field = path.field("identities");
    let identities = identities
        .iter()
        .enumerate()
        .map(|(position, one)| identity(one, &field.index(position)))
        .collect::<Result<Vec<_>, _>>()?;
    if !identities.is_empty() && trusted_root_ref.is_none() {
        return Err(reject(
            path.field("trustedRootRef"),
            "is missing, but required to verify identities",
            "name a ConfigMap with a trusted_root.json",
        ));
    }
    Ok(Verification {
        level: match level {
            VerifyLevel::Enforce => Level::Enforce,
            VerifyLevel::Audit => Level::Audit,
            VerifyLevel::Skip => Level::Skip,
        },
        keys: trusted,
        identities,
        trusted_root: None,
        threshold: threshold.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
        require_repository: *require_repository == Some(true),
        attestations: attestations.iter().flatten().cloned().collect(),
    })
}

fn identity(identity: &SignerIdentity, path: &FieldPath) -> Result<Identity, Diagnostic> {
    let SignerIdentity {
        issuer,
        subject,
        subject_reg_exp,
    } = identity;
    let identity = match (subject, subject_reg_exp) {
        (Some(subject), None) => Identity::exact(issuer, subject),
        (None, Some(pattern)) => Identity::matching(issuer, pattern),
        _ => {
            return Err(reject(
                path.clone(),
                "must have exactly one of subject and subjectRegExp",
                "set one of them",
            ));
        }
    };
    identity.map_err(|error| reject(path.clone(), error, "correct the identity"))
}

fn reject(field: FieldPath, problem: impl ToString, fix: &str) -> Diagnostic {
    Diagnostic::error(field, problem.to_string(), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> SchemaPluginSpec {
        serde_json::from_value(json).expect("a spec")
    }

    #[test]
    fn a_spec_is_converted_to_a_rule_limits_and_a_mirror() {
        let checked = CheckedSpec::new(&spec(serde_json::json!({
            "reference": "quay.io/acme/adapters/x:1",
            "requireDigest": true,
            "limits": { "memory": "32Mi", "component": "1Mi", "fuel": 7 },
            "mirror": "mirror.local:5000/acme",
        })))
        .expect("a valid spec");
        assert_eq!(checked.rule.prefix, "quay.io/acme/adapters/x");
        assert!(checked.rule.require_digest);
        assert_eq!(checked.rule.max_bytes, 1 << 20);
        assert_eq!(
            (checked.grant.limits.memory_bytes, checked.grant.limits.fuel),
            (32 << 20, 7)
        );
        let mirror = checked.mirror.expect("a mirror");
        assert_eq!(mirror.from, "quay.io/acme/adapters");
        assert_eq!(checked.grant.worlds.len(), 2);
    }

    #[test]
    fn every_sample_has_a_valid_spec() {
        for sample in [
            include_str!("../../../../samples/plugins/signed.yaml"),
            include_str!("../../../../samples/plugins/keyless.yaml"),
            include_str!("../../../../samples/plugins/air-gap.yaml"),
            include_str!("../../../../samples/plugins/proposals.yaml"),
        ] {
            let resource = llsd_render::yaml::read(sample).expect("YAML");
            CheckedSpec::new(&spec(resource["spec"].clone())).expect("a valid spec");
        }
    }

    #[test]
    fn every_problem_of_a_spec_is_reported_with_its_field() {
        let diagnostics = CheckedSpec::new(&spec(serde_json::json!({
            "reference": "https://quay.io/x",
            "verify": { "level": "enforce", "keys": ["no key"] },
            "limits": { "memory": "lots" },
        })))
        .expect_err("an invalid spec");
        let fields: Vec<_> = diagnostics
            .iter()
            .map(|one| one.field.to_string())
            .collect();
        assert_eq!(
            fields,
            [
                "spec.limits.memory",
                "spec.reference",
                "spec.verify.keys[0]"
            ]
        );
        let neither = CheckedSpec::new(&SchemaPluginSpec::default()).expect_err("an invalid spec");
        assert!(neither.to_string().contains("reference and proposalPrefix"));
    }

    #[test]
    fn identities_need_a_subject_and_a_trusted_root() {
        let problem = |identity: serde_json::Value, root: serde_json::Value| {
            let checked = CheckedSpec::new(&spec(serde_json::json!({
                "reference": "quay.io/acme/adapters/x:1",
                "verify": { "level": "enforce", "identities": [identity], "trustedRootRef": root },
            })));
            checked.map(|_| ()).map_err(|problems| problems.to_string())
        };
        let root = serde_json::json!({ "name": "sigstore" });
        let ci = serde_json::json!({ "issuer": "https://token.example.com", "subject": "ci" });
        assert_eq!(problem(ci.clone(), root.clone()), Ok(()));
        for (identity, root, expected) in [
            (
                ci,
                serde_json::Value::Null,
                "spec.verify.trustedRootRef: is missing",
            ),
            (
                serde_json::json!({ "issuer": "https://token.example.com" }),
                root.clone(),
                "spec.verify.identities[0]: must have exactly one of subject",
            ),
            (
                serde_json::json!({ "issuer": "https://token.example.com", "subjectRegExp": "(" }),
                root,
                "spec.verify.identities[0]: \"(\" is not a valid regular expression",
            ),
        ] {
            let problem = problem(identity, root).expect_err("an invalid spec");
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
