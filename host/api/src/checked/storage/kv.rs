//! Checks `spec.storage.kv`.

use super::server_fields::check_server_fields;
use crate::checked::secrets::{self, Reference};
use crate::checked::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::rules;
use crate::v1alpha2::{KvKind, KvStorage};

/// Key-value storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckedKv {
    /// A file in the data directory.
    Sqlite,
    /// A Redis server.
    Redis {
        /// `redis://host:port` or `host:port`, as written.
        endpoint: String,
        /// The password.
        password: Option<Reference>,
    },
}

pub(super) fn check(
    kv: &KvStorage,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedKv> {
    let KvStorage {
        kind,
        endpoint,
        password,
    } = kv;
    let variable = secrets::variable("kv", "password");
    let password = password.as_ref().and_then(|password| {
        secrets::read_typed(password, &path.field("password"), variable, diagnostics)
    });
    let used = [
        ("endpoint", endpoint.is_some()),
        ("password", kv.password.is_some()),
    ];
    match kind {
        Some(KvKind::Redis) => {
            let Some(endpoint) = endpoint else {
                diagnostics.violation(&rules::REDIS_NEEDS_ENDPOINT, &path.field("endpoint"));
                return None;
            };
            let fix = "use an address such as redis://redis:6379";
            untyped::check_string(
                endpoint,
                &path.field("endpoint"),
                names::address(endpoint),
                fix,
                diagnostics,
            );
            Some(CheckedKv::Redis {
                endpoint: endpoint.clone(),
                password,
            })
        }
        kind => {
            check_server_fields(
                kind.is_some(),
                &used,
                path,
                ("redis", &rules::KV_NEEDS_TYPE),
                diagnostics,
            );
            Some(CheckedKv::Sqlite)
        }
    }
}
