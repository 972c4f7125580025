//! Asks the plugins, away from the threads that serve the cluster.
//!
//! In: a checked resource and what was gathered for it. Out: what configures the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use llsd_adapter_sdk::Severity;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::Checked;
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::objects::ConfigPlan;
use llsd_render::{Generated, Inputs, ProviderPackage, Refusal, Surroundings, Undecided, generate};
use serde_json::Value;

use crate::gather::{Gathered, Source};
use crate::plugins::Plugins;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", explain(.0))]
    Refused(Refusal),
    /// Nobody serves the dialect, and the plugin that the image proposes is not in use.
    #[error(
        "{refusal}; the image proposes the plugin {proposal}, which is not in use: the status of the SchemaPlugin whose proposalPrefix it lies under says why; without one, create it"
    )]
    ProposalUnused {
        refusal: Box<Undecided>,
        proposal: String,
    },
    #[error("the generation ended early: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

impl Error {
    /// The same input gives the same answer, so only a run that was cut short is worth another; and a
    /// plugin that failed, because it may be put aside.
    pub(crate) fn waits_for_somebody(&self) -> bool {
        match self {
            Self::Refused(Refusal::Fault(_)) => false,
            Self::Refused(_) | Self::ProposalUnused { .. } => true,
            Self::Panicked(_) => false,
        }
    }
}

impl Error {
    /// Where nobody serves the dialect, the plugin that the image wishes for might.
    fn with_proposal(self, plugins: &Plugins, gathered: &Gathered) -> Self {
        match (self, gathered.proposed_plugin()) {
            (
                Self::Refused(Refusal::Undecided(refusal @ Undecided::Unsupported { .. })),
                Some(proposal),
            ) if !plugins.set.follows(proposal) => Self::ProposalUnused {
                refusal: Box::new(refusal),
                proposal: proposal.to_owned(),
            },
            (error, _) => error,
        }
    }
}

/// Generates the configuration, where one is to be generated.
pub(crate) async fn expand(
    plugins: &Plugins,
    checked: &Checked,
    gathered: &Gathered,
) -> Result<ConfigPlan, Error> {
    Ok(match &gathered.source {
        Source::Base { config, hints, .. } => {
            let in_use = plugins.set.current();
            let generated = generate_with(in_use, checked, config, hints, &gathered.packages).await;
            plugins.faults.note(&generated);
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

/// What a set of plugins makes of a resource and its base.
pub(crate) async fn generate_with(
    plugins: Arc<[Plugin]>,
    checked: &Checked,
    base: &Value,
    hints: &Hints,
    packages: &BTreeMap<String, ProviderPackage>,
) -> Result<Generated, Error> {
    let (checked, base) = (checked.clone(), base.clone());
    let hints = Hints {
        schema: checked.schema.clone().or_else(|| hints.schema.clone()),
        ..hints.clone()
    };
    let surroundings = Surroundings {
        packages: packages.clone(),
        ..Surroundings::default()
    };
    let generating = tokio::task::spawn_blocking(move || {
        let adapters: Vec<&dyn Adapter> = plugins
            .iter()
            .map(|plugin| plugin as &dyn Adapter)
            .collect();
        let inputs = Inputs {
            checked: &checked,
            base: &base,
            hints: &hints,
            surroundings: &surroundings,
        };
        generate(&adapters, &inputs)
    });
    generating.await?.map_err(Error::Refused)
}

/// A refusal with all its reasons, one a line.
fn explain(refusal: &Refusal) -> String {
    let Refusal::Rejected(found) = refusal else {
        return refusal.to_string();
    };
    let errors = found.iter().filter(|one| one.severity == Severity::Error);
    errors
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
