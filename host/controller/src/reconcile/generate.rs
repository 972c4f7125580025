//! Step 3, generate: the plugins generate the server's configuration.
//!
//! In: a checked resource and what was gathered for it. Out: the configuration plan. Plugins run on
//! blocking threads, so that they do not delay the asynchronous tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::Checked;
use llsd_api::conditions::reason;
use llsd_api::v1alpha2::DistributionStatus;
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::objects::ConfigPlan;
use llsd_render::{
    GenerateError, Generated, Inputs, PodContext, ProviderPackage, SchemaError, schema_of_release,
};
use serde_json::Value;

use super::gather::{Gathered, Source};
use crate::active_plugins::ActivePlugins;

/// Why no configuration was generated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", explain(.0))]
    Failed(GenerateError),
    /// No plugin supports the schema, and the plugin that the image proposes is not in use.
    #[error(
        "{unsupported}; the image proposes plugin {proposal:?}, which is not in use: check the status of the SchemaPlugin whose proposalPrefix matches it, or create such a SchemaPlugin"
    )]
    ProposalUnused {
        unsupported: Box<SchemaError>,
        proposal: String,
    },
    #[error("the generation panicked or was cancelled: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

impl Error {
    /// Whether a retry with the same input is useless. A faulty plugin may be quarantined meanwhile,
    /// and an interrupted generation may succeed.
    pub(crate) fn waits_for_change(&self) -> bool {
        match self {
            Self::Failed(GenerateError::Fault(_)) | Self::Panicked(_) => false,
            Self::Failed(_) | Self::ProposalUnused { .. } => true,
        }
    }

    /// The reason of the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Failed(GenerateError::Schema(SchemaError::Unsupported { .. }))
            | Self::ProposalUnused { .. } => reason::UNSUPPORTED_CONFIG_VERSION,
            Self::Failed(_) | Self::Panicked(_) => reason::CONFIG_GENERATION_FAILED,
        }
    }

    /// Adds the plugin that the image proposes to the error about an unsupported schema.
    fn with_proposal(self, plugins: &ActivePlugins, gathered: &Gathered) -> Self {
        match (self, gathered.proposed_plugin()) {
            (
                Self::Failed(GenerateError::Schema(unsupported @ SchemaError::Unsupported { .. })),
                Some(proposal),
            ) if !plugins.set.has_proposal(proposal) => Self::ProposalUnused {
                unsupported: Box::new(unsupported),
                proposal: proposal.to_owned(),
            },
            (error, _) => error,
        }
    }
}

/// Generates the configuration, unless the resource uses a complete one.
pub(crate) async fn generate(
    plugins: &ActivePlugins,
    checked: &Checked,
    gathered: &Gathered,
    status: &DistributionStatus,
) -> Result<ConfigPlan, Error> {
    Ok(match &gathered.source {
        Source::Base { config, hints, .. } => {
            let current = plugins.set.current();
            let running = running_release(status, gathered, &current);
            let generated =
                generate_with(current, checked, config, hints, running, &gathered.packages);
            let generated = generated.await;
            match &generated {
                Ok(generated) => plugins.faults.record(Ok(generated)),
                Err(Error::Failed(error)) => plugins.faults.record(Err(error)),
                Err(_) => {}
            }
            let generated = generated.map_err(|error| error.with_proposal(plugins, gathered));
            ConfigPlan::Generated(Box::new(generated?))
        }
        Source::Override { config_map, digest } => ConfigPlan::Override {
            config_map: config_map.clone(),
            digest: digest.clone(),
        },
        Source::DistributionDefault => ConfigPlan::DistributionDefault,
    })
}

/// The release that the running server reports, if it helps to select the dialect: the server runs the
/// image that the resource uses now, and what runs was not generated in another dialect. Otherwise a
/// question would be answered by changing what runs.
pub(crate) fn running_release(
    status: &DistributionStatus,
    gathered: &Gathered,
    plugins: &[Plugin],
) -> Option<String> {
    let resolved = status.resolved_distribution.as_ref()?;
    let digest = gathered
        .labels
        .as_ref()
        .map(|labels| labels.image_digest.to_string());
    let is_same_digest = match (&resolved.digest, &digest) {
        (Some(running), Some(read)) => running == read,
        _ => true,
    };
    if resolved.image.as_ref() != Some(&gathered.image) || !is_same_digest {
        return None;
    }
    let release = status
        .version
        .as_ref()?
        .llama_stack_server_version
        .clone()?;
    let generation = status.config_generation.as_ref();
    match generation.and_then(|generation| generation.schema.as_ref()) {
        Some(running) => {
            let schema = schema_of_release(&as_adapters(plugins), &release);
            (schema.as_ref() == Some(running)).then_some(release)
        }
        None => Some(release),
    }
}

/// The plugins as the functions of `llsd_render` take them.
pub(crate) fn as_adapters(plugins: &[Plugin]) -> Vec<&dyn Adapter> {
    plugins
        .iter()
        .map(|plugin| plugin as &dyn Adapter)
        .collect()
}

/// Generates the configuration with a set of plugins. `running` is the release that the running server
/// reports.
pub(crate) async fn generate_with(
    plugins: Arc<[Plugin]>,
    checked: &Checked,
    base: &Value,
    hints: &Hints,
    running: Option<String>,
    packages: &BTreeMap<String, ProviderPackage>,
) -> Result<Generated, Error> {
    let (checked, base) = (checked.clone(), base.clone());
    let hints = Hints {
        schema: checked.schema.clone().or_else(|| hints.schema.clone()),
        ..hints.clone()
    };
    let pod_context = PodContext {
        packages: packages.clone(),
        ..PodContext::default()
    };
    let generating = tokio::task::spawn_blocking(move || {
        let adapters = as_adapters(&plugins);
        let inputs = Inputs {
            checked: &checked,
            base: &base,
            hints: &hints,
            running_release: running.as_deref(),
            pod_context: &pod_context,
        };
        llsd_render::generate(&adapters, &inputs)
    });
    generating.await?.map_err(Error::Failed)
}

/// The message of an error; for a rejected resource every problem, one per line.
fn explain(error: &GenerateError) -> String {
    let GenerateError::Rejected(found) = error else {
        return error.to_string();
    };
    let errors = found.iter().filter(|one| one.is_error());
    errors
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use llsd_api::v1alpha2::{ConfigGeneration, ResolvedDistribution, Versions};

    use super::*;

    fn status(image: &str, release: Option<&str>, schema: Option<&str>) -> DistributionStatus {
        DistributionStatus {
            resolved_distribution: Some(ResolvedDistribution {
                image: Some(image.to_owned()),
                ..ResolvedDistribution::default()
            }),
            version: Some(Versions {
                llama_stack_server_version: release.map(str::to_owned),
                ..Versions::default()
            }),
            config_generation: schema.map(|schema| ConfigGeneration {
                schema: Some(schema.to_owned()),
                ..ConfigGeneration::default()
            }),
            ..DistributionStatus::default()
        }
    }

    /// Issue H, wanted 2.
    #[test]
    fn the_running_release_counts_only_for_its_own_image_and_its_own_dialect() {
        let gathered = Gathered {
            image: "acme/stack:1".to_owned(),
            source: Source::DistributionDefault,
            ca_bundle: None,
            labels: None,
            packages: BTreeMap::new(),
            network_policy: None,
            warnings: Vec::new(),
        };
        let release = |status: &DistributionStatus| running_release(status, &gathered, &[]);
        let same = status("acme/stack:1", Some("0.3.5"), None);
        assert_eq!(release(&same).as_deref(), Some("0.3.5"));
        for (case, status) in [
            ("nothing runs yet", DistributionStatus::default()),
            ("another image", status("acme/stack:2", Some("0.3.5"), None)),
            ("not known", status("acme/stack:1", None, None)),
            (
                "generated in another dialect",
                status("acme/stack:1", Some("0.3.5"), Some("llama-stack/0.5")),
            ),
        ] {
            assert_eq!(release(&status), None, "{case}");
        }
    }
}
