//! Refuses fields that the adapter in charge does not understand.
//!
//! A plugin ignores keys of a request that it does not know, so such a field would have no effect, without
//! a message. A plugin names what it understands in its description.

use llsd_adapter_sdk::documents::{Description, capability};
use llsd_api::checked::{Checked, CheckedKv, CheckedTelemetry};
use llsd_api::{Diagnostic, FieldPath};

/// One error for each field whose capability the adapter does not name.
pub(super) fn check(checked: &Checked, adapter: &Description) -> Vec<Diagnostic> {
    let is_missing = |(_, capability): &(FieldPath, &str)| {
        !adapter.capabilities.iter().any(|known| known == capability)
    };
    let missing = needed(checked).into_iter().filter(is_missing);
    missing
        .map(|(field, capability)| {
            let problem = format!(
                "the adapter {:?} {} does not support this field (capability {capability:?})",
                adapter.name, adapter.version
            );
            let fix = "remove it, or use an adapter that has the capability; llsd plugin inspect lists them";
            Diagnostic::error(field, problem, fix).with_code("unsupported-field")
        })
        .collect()
}

/// The fields that version 1.0 of the contract did not have, with their capabilities.
fn needed(checked: &Checked) -> Vec<(FieldPath, &'static str)> {
    let storage = FieldPath::spec().field("storage");
    let tools = checked.tools.iter().filter(|tool| tool.endpoint.is_some());
    let mut fields: Vec<_> = tools
        .map(|tool| (tool.path.field("endpoint"), capability::TOOL_ENDPOINTS))
        .collect();
    let kv = match checked.storage.kv {
        Some(CheckedKv::Postgres(_)) => Some(capability::KV_POSTGRES),
        Some(CheckedKv::MongoDb(_)) => Some(capability::KV_MONGODB),
        Some(CheckedKv::Sqlite | CheckedKv::Redis { .. }) | None => None,
    };
    fields.extend(kv.map(|capability| (storage.at(&["kv", "type"]), capability)));
    for (kind, options) in [
        ("kv", checked.storage.kv_options),
        ("sql", checked.storage.sql_options),
    ] {
        let set = [
            ("tlsMode", options.tls_mode.is_some()),
            ("poolSize", options.pool_size.is_some()),
        ];
        for (field, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
            fields.push((storage.at(&[kind, field]), capability::STORAGE_OPTIONS));
        }
    }
    let registrations = checked.registrations.iter();
    fields.extend(registrations.map(|one| (one.path.clone(), capability::REGISTRATIONS)));
    if !checked.defaults.is_empty() {
        let path = FieldPath::spec().at(&["resources", "defaults"]);
        fields.push((path, capability::REGISTRATIONS));
    }
    if checked.access.is_some() {
        fields.push((FieldPath::spec().field("access"), capability::ACCESS));
    }
    if checked.telemetry != CheckedTelemetry::default() {
        fields.push((FieldPath::spec().field("telemetry"), capability::TELEMETRY));
    }
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_the_adapter_does_not_understand_is_refused_by_its_path() {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution", "metadata": {"name": "a"},
            "spec": {
                "distribution": {"name": "starter"},
                "access": {"kubernetes": {}},
                "telemetry": {"metrics": {}},
                "resources": {
                    "tools": ["rag", {"name": "files", "endpoint": "http://mcp:8000/mcp"}],
                    "vectorStores": [{"name": "docs", "embeddingModel": "m", "embeddingDimension": 8}],
                    "defaults": {"vectorStoreProvider": "faiss"},
                },
                "storage": {
                    "kv": {"type": "postgres", "host": "pg", "user": "u", "tlsMode": "require"},
                    "sql": {"type": "postgres", "host": "pg", "user": "u", "poolSize": 4},
                },
            },
        });
        let checked = llsd_api::check_document(document).result.unwrap();
        let mut adapter = Description {
            name: "acme".to_owned(),
            version: "1.0.0".to_owned(),
            vendor: "Acme".to_owned(),
            shapes: Vec::new(),
            schemas: Vec::new(),
            apis: Default::default(),
            providers: Default::default(),
            capabilities: Vec::new(),
        };
        let refused = check(&checked, &adapter);
        let fields: Vec<_> = refused.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.resources.tools[1].endpoint",
                "spec.storage.kv.type",
                "spec.storage.kv.tlsMode",
                "spec.storage.sql.poolSize",
                "spec.resources.vectorStores[0]",
                "spec.resources.defaults",
                "spec.access",
                "spec.telemetry",
            ]
        );
        assert_eq!(
            refused[0].to_string(),
            "spec.resources.tools[1].endpoint: the adapter \"acme\" 1.0.0 does not support this field (capability \"tool-endpoints\"); remove it, or use an adapter that has the capability; llsd plugin inspect lists them"
        );
        adapter.capabilities = [
            "access",
            "registrations",
            "storage-options",
            "telemetry",
            "tool-endpoints",
        ]
        .map(str::to_owned)
        .to_vec();
        let refused = check(&checked, &adapter);
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].field.as_str(), "spec.storage.kv.type");
    }
}
