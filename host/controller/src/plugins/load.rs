//! The last steps from a registry to a usable plugin: inspect → compile → dry-instantiate.
//!
//! In: bytes that were pulled and verified, and the limits that the installer grants. Out: a plugin,
//! or the step that refused the bytes. Blocks while it compiles.

use llsd_plugin::{Host, Limits, LoadError, Origin, Plugin};
use llsd_registry::{PullError, Reference, Stage, chain};

/// Loads a pulled plugin by every load rule.
pub fn load_pulled(
    host: &Host,
    reference: &Reference,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Plugin, PullError> {
    host.load_within(bytes, Origin::Outside, limits)
        .map_err(|error| PullError::rejected(reference, stage(&error), chain(&error)))
}

/// The step that a load rule belongs to.
fn stage(error: &LoadError) -> Stage {
    match error {
        LoadError::TooLarge { .. }
        | LoadError::Precompiled
        | LoadError::CoreModule
        | LoadError::NotWasm
        | LoadError::Malformed(_)
        | LoadError::Feature(_)
        | LoadError::Imports(_)
        | LoadError::WrongContract { .. }
        | LoadError::WrongWorld { .. } => Stage::Inspect,
        LoadError::Compile(_) => Stage::Compile,
        LoadError::Incompatible(_)
        | LoadError::Describe(_)
        | LoadError::Description(_)
        | LoadError::MissingShape(_) => Stage::DryInstantiate,
    }
}
