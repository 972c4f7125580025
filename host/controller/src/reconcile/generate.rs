//! Step 3, generate: the plugins generate the server's configuration.
//!
//! In: a checked resource and what was gathered for it. Out: the configuration plan. Plugins run on
//! blocking threads, so that they do not delay the asynchronous tasks.

use std::sync::Arc;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::Checked;
use llsd_api::conditions::reason;
use llsd_api::v1alpha2::DistributionStatus;
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::objects::ConfigPlan;
use llsd_render::{GenerateError, Generated, Inputs, PodContext, SchemaError, running_release};
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
            let generated = generate_with(current, checked, gathered, config, hints, status).await;
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

/// The plugins as the functions of `llsd_render` take them.
pub(crate) fn as_adapters(plugins: &[Plugin]) -> Vec<&dyn Adapter> {
    plugins
        .iter()
        .map(|plugin| plugin as &dyn Adapter)
        .collect()
}

/// Generates the configuration from a base with a set of plugins.
pub(crate) async fn generate_with(
    plugins: Arc<[Plugin]>,
    checked: &Checked,
    gathered: &Gathered,
    base: &Value,
    hints: &Hints,
    status: &DistributionStatus,
) -> Result<Generated, Error> {
    let digest = gathered.image_digest();
    let running = running_release(
        status,
        &gathered.image,
        digest.as_deref(),
        &as_adapters(&plugins),
    );
    let (checked, base) = (checked.clone(), base.clone());
    let hints = Hints {
        schema: checked.schema.clone().or_else(|| hints.schema.clone()),
        ..hints.clone()
    };
    let pod_context = PodContext {
        packages: gathered.packages.clone(),
        image_variables: gathered.image_variables(),
        may_have_ca_bundle: gathered.ca_bundle.is_some(),
        ..PodContext::default()
    };
    let generating = llsd_blocking::GENERATION.run(move || {
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
    let GenerateError::Rejected { diagnostics, .. } = error else {
        return error.to_string();
    };
    let errors = diagnostics.iter().filter(|one| one.is_error());
    errors
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
