//! The budgets of what other people write and this crate reads.
//!
//! Each is far above every real input, and small enough that all workers of an operator can read such
//! an input at the same time. `docs/security.md` lists them in one table with those of other crates.

pub use llsd_api::limits::JsonSize;

/// Size of a YAML file: a ConfigMap holds 1 MiB.
pub const YAML_BYTES: usize = 1 << 20;

/// Nesting of a YAML file, aliases included. Plugins parse the result recursively.
pub const YAML_DEPTH: usize = 64;

/// Number of values in a YAML file. Aliases count each time.
pub const YAML_NODES: usize = 100_000;

/// Memory of the values of a YAML file, including the copies that anchors and aliases make. The largest
/// configuration that we know, a thousand providers, needs a tenth of it.
pub const YAML_HELD_BYTES: usize = 16 << 20;

/// Values in the base configuration that plugins are given. The largest base of a release has 1,500.
pub const BASE_VALUES: usize = 20_000;

/// Size of that base configuration as JSON.
pub const BASE_BYTES: usize = 512 << 10;

/// Providers of the base configuration and the resource together. The work of an adapter grows with the square:
/// a thousand need 40 % of the fuel of a call.
pub const PROVIDERS: usize = 1_000;

/// Size of the settings of one provider as JSON.
pub const SETTINGS_BYTES: usize = 64 << 10;

/// Size of `spec.configPatch` as JSON.
pub const PATCH_BYTES: usize = 128 << 10;

/// Length of a value that a message quotes.
pub const QUOTED_CHARS: usize = 80;
