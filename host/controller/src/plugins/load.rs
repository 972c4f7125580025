//! Loads a pulled plugin: the steps inspect → compile → dry-instantiate.
//!
//! In: a component that was pulled and verified, and its limits. Out: a plugin, or the step that
//! failed. Blocks while it compiles.

use llsd_plugin::{Host, Limits, LoadError, Origin, Plugin};
use llsd_registry::{PullError, Reference, Stage, chain};

/// Loads a pulled plugin with all checks for plugins from outside.
pub fn load_pulled(
    host: &Host,
    reference: &Reference,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Plugin, PullError> {
    host.load_with_limits(bytes, Origin::External, limits)
        .map_err(|error| PullError::rejected(reference, stage(&error), chain(&error)))
}

/// The step that a load error belongs to.
fn stage(error: &LoadError) -> Stage {
    match error {
        LoadError::TooLarge { .. }
        | LoadError::Precompiled
        | LoadError::CoreModule
        | LoadError::NotWasm
        | LoadError::Malformed(_)
        | LoadError::TooComplex { .. }
        | LoadError::Feature(_)
        | LoadError::Imports(_)
        | LoadError::WrongContract { .. }
        | LoadError::WrongWorld { .. } => Stage::Inspect,
        LoadError::Compile(_) => Stage::Compile,
        LoadError::Incompatible(_)
        | LoadError::Describe(_)
        | LoadError::Description(_)
        | LoadError::MissingShape { .. }
        | LoadError::OtherOutput { .. } => Stage::DryInstantiate,
    }
}
