//! Asks the plugins, away from the threads that serve the cluster.
//!
//! In: a checked resource and what was gathered for it. Out: what configures the server.

use llsd_adapter_sdk::documents::Hints;
use llsd_adapter_sdk::{Diagnostic, Severity};
use llsd_api::checked::Checked;
use llsd_render::adapter::Adapter;
use llsd_render::objects::ConfigPlan;
use llsd_render::{Inputs, Refusal, Surroundings, Undecided, generate};

use crate::gather::{Gathered, Source};
use crate::plugins::Plugins;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", explain(.0))]
    Refused(Refusal),
    #[error("the generation ended early: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

impl Error {
    /// The same input gives the same answer, so only a run that was cut short is worth another; and a
    /// plugin that failed, because it may be put aside.
    pub(crate) fn waits_for_somebody(&self) -> bool {
        match self {
            Self::Refused(Refusal::Fault(_) | Refusal::Undecided(Undecided::Fault(_))) => false,
            Self::Refused(_) => true,
            Self::Panicked(_) => false,
        }
    }
}

/// Generates the configuration, where one is to be generated.
pub(crate) async fn expand(
    plugins: &Plugins,
    checked: &Checked,
    gathered: &Gathered,
) -> Result<ConfigPlan, Error> {
    let (base, hints) = match &gathered.source {
        Source::Base { config, hints, .. } => (config.clone(), hints.clone()),
        Source::Override { config_map, digest } => {
            return Ok(ConfigPlan::Override {
                config_map: config_map.clone(),
                digest: digest.clone(),
            });
        }
        Source::DistributionDefault => return Ok(ConfigPlan::DistributionDefault),
    };
    let (in_use, checked) = (plugins.set.current(), checked.clone());
    let packages = gathered.packages.clone();
    let generated = tokio::task::spawn_blocking(move || {
        let adapters: Vec<&dyn Adapter> =
            in_use.iter().map(|plugin| plugin as &dyn Adapter).collect();
        let hints = Hints {
            schema: checked.schema.clone().or(hints.schema),
            ..hints
        };
        let surroundings = Surroundings {
            packages,
            ..Surroundings::default()
        };
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
    let generated = generated.await?;
    plugins.faults.note(&generated);
    Ok(ConfigPlan::Generated(Box::new(
        generated.map_err(Error::Refused)?,
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
