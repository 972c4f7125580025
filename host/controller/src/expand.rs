//! Asks the plugins, away from the threads that serve the cluster.
//!
//! In: a checked resource and what was gathered for it. Out: what configures the server.

use std::sync::Arc;

use llsd_adapter_sdk::documents::Hints;
use llsd_adapter_sdk::{Diagnostic, Severity};
use llsd_api::checked::Checked;
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::objects::ConfigPlan;
use llsd_render::{Inputs, Refusal, Surroundings, generate};

use crate::gather::{Gathered, Source};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", explain(.0))]
    Refused(Refusal),
    #[error("the generation ended early: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

impl Error {
    /// The same input gives the same answer, so only a run that was cut short is worth another.
    pub(crate) fn waits_for_somebody(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// Generates the configuration, where one is to be generated.
pub(crate) async fn expand(
    plugins: &Arc<[Plugin]>,
    checked: &Checked,
    gathered: &Gathered,
) -> Result<ConfigPlan, Error> {
    let (base, schema) = match &gathered.source {
        Source::Base { config, schema, .. } => (config.clone(), schema.clone()),
        Source::Override { config_map, digest } => {
            return Ok(ConfigPlan::Override {
                config_map: config_map.clone(),
                digest: digest.clone(),
            });
        }
        Source::DistributionDefault => return Ok(ConfigPlan::DistributionDefault),
    };
    let (plugins, checked) = (plugins.clone(), checked.clone());
    let generated = tokio::task::spawn_blocking(move || {
        let adapters: Vec<&dyn Adapter> = plugins
            .iter()
            .map(|plugin| plugin as &dyn Adapter)
            .collect();
        let hints = Hints {
            schema: checked.schema.clone().or(schema),
            ..Hints::default()
        };
        let surroundings = Surroundings::default();
        generate(
            &adapters,
            &Inputs {
                checked: &checked,
                base: &base,
                hints: &hints,
                surroundings: &surroundings,
            },
        )
    });
    Ok(ConfigPlan::Generated(Box::new(
        generated.await?.map_err(Error::Refused)?,
    )))
}

/// A refusal with all its reasons, one a line.
fn explain(refusal: &Refusal) -> String {
    let Refusal::Rejected(found) = refusal else {
        return refusal.to_string();
    };
    let errors = found.iter().filter(|one| one.severity == Severity::Error);
    let lines = errors.map(
        |Diagnostic {
             field,
             problem,
             fix,
             ..
         }| format!("{field}: {problem}; {fix}"),
    );
    lines.collect::<Vec<_>>().join("\n")
}
