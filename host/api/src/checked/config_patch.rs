//! Checks `spec.configPatch`: that it can be merged, and leaves the operator's own settings alone.
//!
//! The patch may set everything that the server reads, so its content is not checked here. The operator
//! probes the server at its port and with its certificate, so those come from the fields of the resource.

use serde_json::{Map, Value};

use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::json_type::type_name;

/// Keys of the section `server` that fields of the resource set, with the field.
const OWNED: [(&str, &str); 5] = [
    ("port", "spec.networking.port"),
    ("tls_certfile", "spec.networking.tls"),
    ("tls_keyfile", "spec.networking.tls"),
    ("tls_config", "spec.networking.tls"),
    ("insecure", "spec.networking.tls"),
];

/// Checks the sections that have a rule: `server` and `providers`.
pub(super) fn check(patch: &Map<String, Value>, diagnostics: &mut Collector) {
    let path = FieldPath::spec().field("configPatch");
    match patch.get("server") {
        Some(Value::Object(server)) => check_server(server, &path.field("server"), diagnostics),
        Some(other) => diagnostics.error(
            &path.field("server"),
            format!(
                "must be an object, not {}, because the operator sets the port there",
                type_name(other)
            ),
            "write an object with the keys to change",
        ),
        None => {}
    }
    match patch.get("providers") {
        Some(Value::Object(apis)) => {
            for (api, list) in apis {
                check_providers(list, &path.at(&["providers", api]), diagnostics);
            }
        }
        Some(Value::Null) | None => {}
        Some(other) => diagnostics.error(
            &path.field("providers"),
            format!("must be an object, not {}", type_name(other)),
            "write a list of providers for each API, for example {inference: [{provider_id: vllm, config: {}}]}",
        ),
    }
}

fn check_server(server: &Map<String, Value>, path: &FieldPath, diagnostics: &mut Collector) {
    for (key, field) in OWNED {
        if server.contains_key(key) {
            diagnostics.error(
                &path.field(key),
                "cannot be part of the patch, because the operator sets it",
                format!("remove it, and use {field}"),
            );
        }
    }
}

/// Checks the providers of one API. `null` removes all of them.
fn check_providers(list: &Value, path: &FieldPath, diagnostics: &mut Collector) {
    let items = match list {
        Value::Array(items) => items,
        Value::Null => return,
        other => {
            diagnostics.error(
                path,
                format!("must be a list of providers, not {}", type_name(other)),
                "write a list, for example [{provider_id: vllm, config: {}}]",
            );
            return;
        }
    };
    let mut seen: Vec<&str> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let path = path.index(position).field("provider_id");
        match item.get("provider_id").and_then(Value::as_str) {
            None | Some("") => diagnostics.error(
                &path,
                "is missing, so it is not known which provider to change",
                "add the id of the provider",
            ),
            Some(id) if seen.contains(&id) => diagnostics.error(
                &path,
                format!("{id:?} is already in the list"),
                "merge the two entries",
            ),
            Some(id) => seen.push(id),
        }
    }
}
