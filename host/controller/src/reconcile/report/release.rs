//! Compares the release that the server reports with the dialect of its configuration.
//!
//! A server ignores keys of another dialect silently, or does not start with them. The condition
//! reports it; it decides nothing. Some dialects read the same file: if the dialect of the release would
//! generate exactly what runs, there is no mismatch.

use std::sync::Arc;

use llsd_api::checked::Checked;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::DistributionStatus;
use llsd_plugin::Plugin;
use llsd_render::objects::ConfigPlan;
use llsd_render::{EntryPoint, schema_of_release};

use super::Applied;
use super::conditions::Conditions;
use crate::reconcile::gather::Source;
use crate::reconcile::generate::{as_adapters, generate_with};

/// What is known about the dialect that the server reads.
#[derive(Clone, Copy)]
pub(super) struct ServerDialect<'a> {
    /// The dialect that a release reads, according to the plugins in use.
    pub(super) schema_of: &'a dyn Fn(&str) -> Option<String>,
    /// Whether that dialect gives the same configuration as the generated one.
    pub(super) is_same_file: bool,
}

/// Sets the condition `ReleaseMatches`, or removes it if no configuration is generated or no release is
/// known.
pub(super) fn report(
    conditions: &mut Conditions,
    plan: &ConfigPlan,
    release: Option<&str>,
    ServerDialect {
        schema_of,
        is_same_file,
    }: ServerDialect<'_>,
) {
    let ConfigPlan::Generated(generated) = plan else {
        return conditions.remove(condition::RELEASE_MATCHES);
    };
    let known = release.and_then(|release| Some((release, generated.releases.includes(release)?)));
    let Some((release, matches)) = known else {
        return conditions.remove(condition::RELEASE_MATCHES);
    };
    let (schema, releases) = (&generated.schema.id, &generated.releases);
    if matches || is_same_file {
        let verb = match matches {
            true => "reads",
            false => "reads the same file as",
        };
        let message = format!("the server reports release {release}, which {verb} {schema}");
        conditions.set(
            condition::RELEASE_MATCHES,
            true,
            reason::RELEASE_MATCHED,
            message,
        );
        return;
    }
    let fix = match schema_of(release) {
        Some(schema) => format!(
            "set spec.distribution.schema to \"{schema}\", or label the image with \
             io.llamastack.config.schema={schema}"
        ),
        None => format!(
            "no installed plugin serves release {release}; install one, or use an image with a \
             server of the dialect"
        ),
    };
    let message = format!(
        "the server reports release {release}, but its configuration is written in {schema}, which \
         releases {releases} read; the server may ignore parts of it; {fix}"
    );
    conditions.set(
        condition::RELEASE_MATCHES,
        false,
        reason::RELEASE_MISMATCH,
        message,
    );
}

/// Sets `ReleaseMatches` to false for a server that may ignore the configuration of the user. Images of
/// old releases start it with a file of their own; that the image is one of them was not known when
/// its pods were created. Runs after [`report`].
pub(super) fn report_override(
    conditions: &mut Conditions,
    plan: &ConfigPlan,
    entry_point: EntryPoint,
    release: Option<&str>,
    schema_of: &dyn Fn(&str) -> Option<String>,
) {
    let (ConfigPlan::Override { .. }, EntryPoint::Unknown) = (plan, entry_point) else {
        return;
    };
    let known = release.and_then(|release| Some((release, schema_of(release)?)));
    let Some((release, schema)) = known else {
        return;
    };
    if EntryPoint::of("", Some(&schema)) == EntryPoint::Fixed {
        let message = format!(
            "the server reports release {release}; images of this release may ignore \
             spec.overrideConfig and use their own file; set spec.distribution.schema to \"{schema}\", \
             so that the server is started with the file of the ConfigMap"
        );
        let reason = reason::RELEASE_MISMATCH;
        conditions.set(condition::RELEASE_MATCHES, false, reason, message);
    }
}

/// Whether the dialect of the release that the server reports gives exactly the configuration that was
/// generated.
pub(super) async fn is_same_file(
    plugins: &Arc<[Plugin]>,
    applied: &Applied,
    status: &DistributionStatus,
) -> bool {
    let Applied {
        checked,
        gathered,
        plan,
        ..
    } = applied;
    let (Source::Base { config, hints, .. }, ConfigPlan::Generated(generated)) =
        (&gathered.source, plan)
    else {
        return false;
    };
    let versions = status.version.as_ref();
    let release = versions.and_then(|one| one.llama_stack_server_version.as_deref());
    let schema = release.and_then(|release| schema_of_release(&as_adapters(plugins), release));
    let Some(schema) = schema else {
        return false;
    };
    let checked = Checked {
        schema: Some(schema),
        ..checked.clone()
    };
    // The schema is stated, so that the status decides nothing.
    match generate_with(plugins.clone(), &checked, gathered, config, hints, status).await {
        Ok(other) => {
            (&other.yaml, &other.variables, &other.startup)
                == (&generated.yaml, &generated.variables, &generated.startup)
        }
        Err(_) => false,
    }
}

/// Whether an old status has the same condition as a new one.
pub(super) fn is_known(old: &DistributionStatus, new: &DistributionStatus) -> bool {
    let find = |status: &DistributionStatus| {
        let mut conditions = status.conditions.iter();
        let found = conditions.find(|one| one.type_ == condition::RELEASE_MATCHES);
        found.map(|one| (one.status.clone(), one.message.clone()))
    };
    find(old) == find(new)
}

/// Whether a status reports a mismatch.
pub(super) fn is_mismatch(status: &DistributionStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|one| one.type_ == condition::RELEASE_MATCHES && one.status == "False")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use llsd_adapter_sdk::documents::{Counts, Startup};
    use llsd_render::{Generated, Receipt, ReleaseRange, SchemaChoice, SchemaSource};
    use serde_json::Value;

    use super::*;

    fn plan(schema: &str, from: &str, before: Option<&str>) -> ConfigPlan {
        ConfigPlan::Generated(Box::new(Generated {
            yaml: String::new(),
            config: Value::Null,
            variables: Vec::new(),
            startup: Startup::default(),
            counts: Counts::default(),
            models: Vec::new(),
            warnings: Vec::new(),
            schema: SchemaChoice {
                id: schema.to_owned(),
                source: SchemaSource::Detected,
            },
            releases: ReleaseRange {
                from: from.to_owned(),
                before: before.map(str::to_owned),
            },
            skipped: Vec::new(),
            packs: Default::default(),
            receipt: Receipt {
                plugin: String::new(),
                version: String::new(),
                component: String::new(),
                input: String::new(),
                output: String::new(),
                fuel: 0,
                engine: String::new(),
            },
        }))
    }

    /// The condition after a report: status, reason and message.
    fn reported(
        conditions: &mut Conditions,
        plan: &ConfigPlan,
        release: Option<&str>,
    ) -> Option<(String, String, String)> {
        let schema_of = |release: &str| {
            release
                .starts_with("0.3.")
                .then(|| "llama-stack/0.3".to_owned())
        };
        let dialect = ServerDialect {
            schema_of: &schema_of,
            is_same_file: false,
        };
        report(conditions, plan, release, dialect);
        let all = Conditions::new(&[], None, Timestamp::UNIX_EPOCH);
        let all = std::mem::replace(conditions, all).into_vec();
        *conditions = Conditions::new(&all, Some(1), Timestamp::UNIX_EPOCH);
        let found = all
            .into_iter()
            .find(|one| one.type_ == condition::RELEASE_MATCHES)?;
        Some((found.status, found.reason, found.message))
    }

    fn empty() -> Conditions {
        Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_release_outside_the_dialect_is_a_mismatch_that_names_the_right_dialect() {
        let plan = plan("llama-stack/0.5", "0.5.0", Some("0.7.0"));
        let (status, reason, message) = reported(&mut empty(), &plan, Some("0.3.5")).unwrap();
        assert_eq!((&*status, &*reason), ("False", "ReleaseMismatch"));
        assert_eq!(
            message,
            "the server reports release 0.3.5, but its configuration is written in llama-stack/0.5, \
             which releases from 0.5.0 to before 0.7.0 read; the server may ignore parts of it; set \
             spec.distribution.schema to \"llama-stack/0.3\", or label the image with \
             io.llamastack.config.schema=llama-stack/0.3"
        );
        let (_, _, message) = reported(&mut empty(), &plan, Some("9.0")).unwrap();
        assert!(
            message.contains("no installed plugin serves release 9.0"),
            "{message}"
        );
    }

    #[test]
    fn every_release_of_the_dialect_matches_pre_releases_and_vendors_builds_included() {
        let plan = plan("llama-stack/0.5", "0.5.0", Some("0.7.0"));
        for release in ["0.5.0", "0.6.1", "0.5.0rc1", "0.6.0.1+rhai0"] {
            let (status, reason, _) = reported(&mut empty(), &plan, Some(release)).unwrap();
            assert_eq!(
                (&*status, &*reason),
                ("True", "ReleaseMatched"),
                "{release}"
            );
        }
    }

    #[test]
    fn a_dialect_that_gives_the_same_file_matches() {
        let plan = plan("llama-stack/0.4", "0.4.0", Some("0.5.0"));
        let mut conditions = empty();
        let dialect = ServerDialect {
            schema_of: &|_| Some("llama-stack/0.5".to_owned()),
            is_same_file: true,
        };
        report(&mut conditions, &plan, Some("0.6.1"), dialect);
        let conditions = conditions.into_vec();
        assert_eq!(conditions[0].status, "True");
        assert_eq!(
            conditions[0].message,
            "the server reports release 0.6.1, which reads the same file as llama-stack/0.4"
        );
    }

    #[test]
    fn without_a_release_or_a_generated_configuration_there_is_no_condition() {
        let generated = plan("llama-stack/0.5", "0.5.0", Some("0.7.0"));
        for (plan, release) in [
            (&generated, None),
            (&generated, Some("unknown")),
            (&ConfigPlan::DistributionDefault, Some("0.3.5")),
        ] {
            let mut conditions = empty();
            assert!(reported(&mut conditions, &generated, Some("0.3.5")).is_some());
            assert_eq!(
                reported(&mut conditions, plan, release),
                None,
                "{release:?}"
            );
        }
    }

    #[test]
    fn an_override_that_an_old_image_may_ignore_is_reported_until_the_dialect_is_known() {
        let plan = ConfigPlan::Override {
            config_map: "mine".to_owned(),
            digest: "sha256:00".to_owned(),
        };
        let schema_of = |release: &str| {
            let old = release.starts_with("0.2.");
            Some(
                if old {
                    "llama-stack/0.1.3"
                } else {
                    "llama-stack/0.7"
                }
                .to_owned(),
            )
        };
        let message = |entry_point, release: Option<&str>| {
            let mut conditions = empty();
            report_override(&mut conditions, &plan, entry_point, release, &schema_of);
            let conditions = conditions.into_vec();
            conditions
                .first()
                .map(|one| (one.status.clone(), one.message.clone()))
        };
        let (status, text) = message(EntryPoint::Unknown, Some("0.2.12")).expect("a condition");
        assert!(
            status == "False" && text.contains("0.2.12") && text.contains("\"llama-stack/0.1.3\""),
            "{text}"
        );
        assert_eq!(message(EntryPoint::Fixed, Some("0.2.12")), None);
        assert_eq!(message(EntryPoint::Unknown, Some("0.7.1")), None);
        assert_eq!(message(EntryPoint::Unknown, None), None);
    }

    #[test]
    fn the_same_release_reported_again_changes_nothing() {
        let plan = plan("llama-stack/0.5", "0.5.0", Some("0.7.0"));
        let mut conditions = empty();
        let first = reported(&mut conditions, &plan, Some("0.3.5"));
        assert_eq!(reported(&mut conditions, &plan, Some("0.3.5")), first);
    }
}
