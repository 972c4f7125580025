//! `describe`: the schemas, APIs and provider types of an adapter.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Base, Description, Document, Expansion, ExpansionRequest, Hints,
    KnownProvider, Role, ServedSchema, capability,
};

use crate::Adapter;
use crate::catalog::{Catalog, Provider};

/// The optional parts of requests that all dialects understand. What a release cannot do is refused by
/// `assemble`, with the field.
const CAPABILITIES: [&str; 7] = [
    capability::ACCESS,
    capability::KV_MONGODB,
    capability::KV_POSTGRES,
    capability::REGISTRATIONS,
    capability::STORAGE_OPTIONS,
    capability::TELEMETRY,
    capability::TOOL_ENDPOINTS,
];

pub(crate) fn describe(adapter: &Adapter) -> Description {
    let schemas = adapter
        .dialects
        .iter()
        .enumerate()
        .map(|(place, dialect)| ServedSchema {
            id: dialect.id.to_owned(),
            product: dialect.product.to_owned(),
            from: dialect.from.to_string(),
            before: dialect.before().map(|release| release.to_string()),
            role: if place == 0 {
                Role::Current
            } else {
                Role::Previous
            },
        });
    let mut apis = BTreeMap::new();
    let mut providers = BTreeMap::new();
    for dialect in adapter.dialects {
        let catalog = Catalog::of(dialect, None);
        let names = catalog.apis();
        let mut known = BTreeMap::new();
        for api in &names {
            known.insert(
                (*api).to_owned(),
                catalog.types(api).iter().map(known_provider).collect(),
            );
        }
        providers.insert(dialect.id.to_owned(), known);
        apis.insert(
            dialect.id.to_owned(),
            names.into_iter().map(str::to_owned).collect(),
        );
    }
    Description {
        name: adapter.name.to_owned(),
        version: adapter.version.to_owned(),
        vendor: "llsd".to_owned(),
        shapes: [
            Base::SHAPE,
            Hints::SHAPE,
            ExpansionRequest::SHAPE,
            AssemblyRequest::SHAPE,
            Expansion::SHAPE,
            Assembly::SHAPE,
        ]
        .map(str::to_owned)
        .to_vec(),
        schemas: schemas.collect(),
        apis,
        providers,
        capabilities: CAPABILITIES.map(str::to_owned).to_vec(),
    }
}

fn known_provider(provider: &Provider) -> KnownProvider {
    KnownProvider {
        name: provider.name().to_owned(),
        provider_type: provider.provider_type.to_owned(),
        endpoint: provider.endpoint().map(|endpoint| endpoint.key.to_owned()),
        credential: provider.credential.map(str::to_owned),
    }
}
