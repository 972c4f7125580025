//! Options of a connection to PostgreSQL: encryption and the size of the pool.
//!
//! The stores of one release do not have the same options. One that the store does not have is refused, with
//! the releases that have it.

use llsd_adapter_sdk::Release;
use llsd_adapter_sdk::documents::StorageOptions;
use llsd_adapter_sdk::serde_json::json;

use super::Choice;
use crate::assemble::base::Stack;
use crate::layout::Kind;

/// Adds the options to the settings of a store.
pub(super) fn apply(stack: &mut Stack, kind: Kind, choice: &mut Choice, options: StorageOptions) {
    let StorageOptions {
        tls_mode,
        pool_size,
    } = options;
    let is_ogx = stack.dialect.product == "ogx";
    let is_ogx_1 = is_ogx && stack.dialect.from >= Release::first(1, 0, 0);
    if let Some(mode) = tls_mode {
        let (is_supported, by) = match kind {
            Kind::Kv => (
                is_ogx || stack.is_from(Release::first(0, 2, 18), !stack.dialect.text_version),
                "llama-stack 0.2.18 or newer",
            ),
            Kind::Sql => (
                is_ogx_1 && stack.is_from(Release::first(1, 4, 0), true),
                "ogx 1.4 or newer",
            ),
        };
        if is_supported {
            choice.settings.insert("ssl_mode".to_owned(), json!(mode));
        } else {
            refuse(stack, kind, "tlsMode", by);
        }
    }
    if let Some(size) = pool_size {
        let (is_supported, by) = match kind {
            Kind::Kv => (is_ogx_1, "ogx 1.x"),
            Kind::Sql => (
                is_ogx || stack.dialect.from >= Release::first(0, 7, 0),
                "llama-stack 0.7 or newer",
            ),
        };
        if is_supported {
            choice.settings.insert("pool_size".to_owned(), json!(size));
        } else {
            refuse(stack, kind, "poolSize", by);
        }
    }
}

fn refuse(stack: &mut Stack, kind: Kind, field: &str, by: &str) {
    let name = match kind {
        Kind::Kv => "kv",
        Kind::Sql => "sql",
    };
    let problem = format!("{} has no such option for this storage", stack.dialect.id);
    stack.diagnostics.error(
        "unsupported-option",
        format!("spec.storage.{name}.{field}"),
        problem,
        format!("remove it, or use {by}"),
    );
}
