//! Updates that are available to a resource without its author's doing.
//!
//! In: the recorded resolution, and what a resolution made now would use. Out: what would change, why,
//! and which rollout brings it. Compares digests and objects only: no plugin is called and no registry
//! is read.

use std::fmt;

use llsd_api::checked::{Checked, ServerSource};
use llsd_api::conditions::reason;
use llsd_api::v1alpha2::UpdatePolicy;
use llsd_plugin::Plugin;
use llsd_render::Receipt;
use llsd_render::adapter::Adapter;
use llsd_render::digest;
use llsd_render::distributions;
use llsd_render::objects::{ConfigPlan, FrozenObjects};

use super::gather::{CurrentCa, Source, Stated};
use super::revisions::Resolution;
use crate::active_plugins::ActivePlugins;
use crate::settings::{Existing, RolloutSettings};

/// The release of the operator.
pub(crate) const OPERATOR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Characters of an image reference in the name of its rollout.
const MAX_KEY: usize = 200;

/// Something newer than what a resource uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) part: Part,
    /// Identifies the newer version.
    pub(crate) target: String,
    /// What would change: `image a → b`.
    pub(crate) change: String,
    /// Whether existing resources follow without being asked.
    pub(crate) is_followed: bool,
}

/// The part of a resolution that an update replaces, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The image of a distribution in the operator's settings.
    Distribution(String),
    /// The image that a tag points to. Each tag has a rollout of its own.
    Tag(String),
    /// The platform's CA bundle.
    CaBundle,
    /// The component of a `SchemaPlugin`.
    Plugin(String),
    /// The built-in adapters, built-in distributions and pod template of the operator.
    Operator(OperatorPart),
}

/// What a release of the operator brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OperatorPart {
    Distribution,
    Adapter,
    Objects,
}

/// The parts that a new resolution takes from now instead of from the recorded one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Renewed {
    pub(crate) image: bool,
    pub(crate) ca: bool,
    pub(crate) adapter: bool,
    pub(crate) objects: bool,
}

impl Part {
    /// The name of the rollout that brings the part to existing resources.
    pub(crate) fn rollout(&self) -> String {
        match self {
            Self::Distribution(name) => format!("distribution.{name}"),
            Self::Tag(image) => format!("tag.{}", key(image)),
            Self::CaBundle => "ca-bundle".to_owned(),
            Self::Plugin(name) => format!("plugin.{name}"),
            Self::Operator(_) => "operator".to_owned(),
        }
    }

    /// The target of the rollout. A release of the operator is rolled out, and halts, as a whole: a part
    /// that fails for one resource halts the other parts, too.
    fn target(&self, newest: &str) -> String {
        match self {
            Self::Operator(_) => OPERATOR_VERSION.to_owned(),
            _ => newest.to_owned(),
        }
    }

    /// The reason of the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Distribution(_) => reason::DISTRIBUTION_IMAGE_CHANGED,
            Self::Tag(_) => reason::IMAGE_TAG_MOVED,
            Self::CaBundle => reason::CA_BUNDLE_CHANGED,
            Self::Plugin(_) => reason::PLUGIN_CHANGED,
            Self::Operator(_) => reason::OPERATOR_CHANGED,
        }
    }
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match &self.part {
            Part::Distribution(name) => format!("distribution {name:?} in the operator's settings"),
            Part::Tag(_) => "the tag moved".to_owned(),
            Part::CaBundle => "ConfigMap of the platform".to_owned(),
            Part::Plugin(name) => format!("SchemaPlugin {name:?}"),
            Part::Operator(_) => format!("operator {OPERATOR_VERSION}"),
        };
        write!(f, "{} ({whose})", self.change)
    }
}

impl Renewed {
    /// The parts that updates replace.
    pub(crate) fn by<'a>(updates: impl IntoIterator<Item = &'a Update>) -> Self {
        let mut renewed = Self::default();
        for update in updates {
            match update.part {
                Part::Distribution(_)
                | Part::Tag(_)
                | Part::Operator(OperatorPart::Distribution) => {
                    renewed.image = true;
                }
                Part::CaBundle => renewed.ca = true,
                Part::Plugin(_) | Part::Operator(OperatorPart::Adapter) => renewed.adapter = true,
                Part::Operator(OperatorPart::Objects) => renewed.objects = true,
            }
        }
        renewed
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The end of an image reference as a part of a ConfigMap key, which has at most 253 characters.
fn key(image: &str) -> String {
    let is_allowed = |one: &char| one.is_ascii_alphanumeric() || "-._".contains(*one);
    let mut key: Vec<char> = image
        .chars()
        .map(|one| if is_allowed(&one) { one } else { '_' })
        .collect();
    key.drain(..key.len().saturating_sub(MAX_KEY));
    key.into_iter().collect()
}

/// What a resolution made now would use.
pub(crate) struct Now<'a> {
    pub(crate) checked: &'a Checked,
    pub(crate) stated: &'a Stated,
    pub(crate) ca: &'a CurrentCa,
    pub(crate) plugins: &'a ActivePlugins,
    /// The digest that the image's tag points to, as far as it is known.
    pub(crate) tag: Option<&'a str>,
    /// The objects that this release builds from the recorded inputs.
    pub(crate) objects: Option<&'a FrozenObjects>,
    pub(crate) settings: &'a RolloutSettings,
}

/// The updates that are available to a resource.
pub(crate) fn available(recorded: &Resolution, now: &Now<'_>) -> Vec<Update> {
    let image = image(recorded, now);
    // A tag of another image is of no interest.
    let tag = image.is_none().then(|| tag(recorded, now)).flatten();
    let before = [image, tag, ca(recorded, now)].into_iter().flatten();
    let before = before.chain(plugins(recorded, now));
    before.chain(objects(recorded, now)).collect()
}

/// The image of a named distribution, or its base configuration.
fn image(recorded: &Resolution, now: &Now<'_>) -> Option<Update> {
    let ServerSource::Named(name) = &now.checked.server else {
        return None;
    };
    let known = now.stated.known.as_ref()?;
    let gathered = &recorded.gathered;
    let is_same_base = match (&gathered.source, &known.base) {
        (
            Source::Base {
                kind: llsd_api::v1alpha2::ConfigSourceKind::Embedded,
                digest,
                ..
            },
            Some(base),
        ) => *digest == digest::of(base),
        _ => true,
    };
    if known.image == gathered.image && is_same_base {
        return None;
    }
    let is_builtin = distributions::builtin().get(name) == Some(known);
    let (part, existing) = match is_builtin {
        true => (
            Part::Operator(OperatorPart::Distribution),
            now.settings.operator,
        ),
        false => (Part::Distribution(name.clone()), now.settings.distributions),
    };
    let change = match known.image == gathered.image {
        true => format!("base configuration of {}", known.image),
        false => format!("image {} → {}", gathered.image, known.image),
    };
    Some(Update {
        target: part.target(&known.image),
        part,
        change,
        is_followed: existing == Existing::Follow,
    })
}

fn tag(recorded: &Resolution, now: &Now<'_>) -> Option<Update> {
    let (running, newest) = (recorded.gathered.digest()?, now.tag?);
    (running != newest).then(|| Update {
        part: Part::Tag(recorded.gathered.image.clone()),
        target: newest.to_owned(),
        change: format!("image {}: {running} → {newest}", recorded.gathered.image),
        is_followed: now.checked.updates == UpdatePolicy::Automatic,
    })
}

fn ca(recorded: &Resolution, now: &Now<'_>) -> Option<Update> {
    let newest = &now.ca.platform;
    let name = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "none".to_owned());
    (recorded.platform_ca != *newest).then(|| Update {
        part: Part::CaBundle,
        target: name(newest),
        change: format!(
            "CA bundle {} → {}",
            name(&recorded.platform_ca),
            name(newest)
        ),
        is_followed: now.settings.ca_bundle == Existing::Follow,
    })
}

/// The adapter of the recorded dialect, and the provider packs that expanded entries.
fn plugins(recorded: &Resolution, now: &Now<'_>) -> Vec<Update> {
    let ConfigPlan::Generated(generated) = &recorded.plan else {
        return Vec::new();
    };
    let plugins = now.plugins.set.current();
    let adapter = plugins.iter().find(|plugin| {
        let mut schemas = plugin.description().schemas.iter();
        plugin.is_schema_adapter() && schemas.any(|schema| schema.id == generated.schema.id)
    });
    let Receipt {
        plugin,
        version,
        component,
        ..
    } = &generated.receipt;
    let adapter = adapter
        .filter(|newest| newest.digest() != component)
        .map(|newest| {
            let running = format!("adapter {plugin} {version} ({component})");
            // The plugin of the resource is not in use: it was deleted, or could not be restored.
            let builtin = match recorded.schema_plugin {
                Some(_) => Existing::Keep,
                None => now.settings.operator,
            };
            plugin_update(newest, running, builtin, now)
        });
    let packs = generated.packs.iter().filter_map(|(name, digest)| {
        let newest = plugins
            .iter()
            .find(|plugin| !plugin.is_schema_adapter() && plugin.description().name == *name)?;
        let running = format!("provider pack {name} ({digest})");
        (newest.digest() != digest)
            .then(|| plugin_update(newest, running, now.settings.operator, now))
    });
    let mut updates: Vec<Update> = adapter.into_iter().chain(packs).collect();
    // A generation uses the newest version of all of them.
    let are_followed = updates.iter().all(|update| update.is_followed);
    for update in &mut updates {
        update.is_followed = are_followed;
    }
    updates
}

/// The update to a plugin. `builtin` says whether existing resources follow it if it is built in.
fn plugin_update(newest: &Plugin, running: String, builtin: Existing, now: &Now<'_>) -> Update {
    let (part, existing) = match now.plugins.set.schema_plugin_of(newest.digest()) {
        Some((name, existing)) => (Part::Plugin(name), existing),
        None => (Part::Operator(OperatorPart::Adapter), builtin),
    };
    let description = newest.description();
    let change = format!(
        "{running} → {} {} ({})",
        description.name,
        description.version,
        newest.digest(),
    );
    Update {
        target: part.target(newest.digest()),
        part,
        change,
        is_followed: existing == Existing::Follow,
    }
}

fn objects(recorded: &Resolution, now: &Now<'_>) -> Option<Update> {
    let differences = recorded.objects.differences(now.objects?);
    (!differences.is_empty()).then(|| Update {
        part: Part::Operator(OperatorPart::Objects),
        target: OPERATOR_VERSION.to_owned(),
        change: format!("template of {}", differences.join(", ")),
        is_followed: now.settings.operator == Existing::Follow,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rollout_of_a_tag_has_a_name_that_is_a_config_map_key() {
        let tag = |image: &str| Part::Tag(image.to_owned()).rollout();
        let short = "quay.io:5000/acme/my-stack:1.0";
        assert_eq!(tag(short), "tag.quay.io_5000_acme_my-stack_1.0");
        let long = format!("{}/{short}", "a".repeat(300));
        assert_eq!(tag(&long).len(), "tag.".len() + MAX_KEY);
        assert!(tag(&long).ends_with("_acme_my-stack_1.0"));
    }

    #[test]
    fn all_parts_of_a_release_of_the_operator_are_one_target() {
        let parts = [
            OperatorPart::Distribution,
            OperatorPart::Adapter,
            OperatorPart::Objects,
        ];
        for part in parts.map(Part::Operator) {
            assert_eq!(part.rollout(), "operator");
            assert_eq!(part.target("sha256:1"), OPERATOR_VERSION);
        }
        let plugin = Part::Plugin("acme".to_owned());
        assert_eq!(plugin.target("sha256:1"), "sha256:1");
    }
}
