//! What plugins are asked: a checked resource in the words of the contract.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{
    AssemblyRequest, Disabled, ExpansionRequest, ExternalProvider, Hints, KvStorage, Model,
    PlacedProvider, ProviderEntry, Resources, Server, Shield, SqlStorage, Storage, TextOrReference,
    Tls, Tool,
};
use llsd_api::checked::{self, Checked, CheckedKv, CheckedProvider, CheckedSql};
use serde_json::Value;

use crate::objects::{pod, tls};
use crate::provider_package::ProviderPackage;

/// Where the pod finds things, and what external images declare about themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The generated file.
    pub config_file: String,
    /// The folder that holds `tls.crt` and `tls.key`.
    pub tls_folder: String,
    /// By provider id, what its image declares.
    pub packages: BTreeMap<String, ProviderPackage>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            config_file: pod::CONFIG_FILE.to_owned(),
            tls_folder: tls::FOLDER.to_owned(),
            packages: BTreeMap::new(),
        }
    }
}

impl Surroundings {
    /// For whoever does not read the images of external providers. A provider's type is declared there;
    /// here any does, because only the provider's id matters to the rest of the resource.
    pub fn with_unread_images(checked: &Checked) -> Self {
        let packages = checked.external.iter().map(|one| {
            let package = ProviderPackage {
                provider_type: format!("remote::{}", one.id),
                api: one.api.to_owned(),
                module: one.id.to_string(),
            };
            (one.id.to_string(), package)
        });
        Self {
            packages: packages.collect(),
            ..Self::default()
        }
    }
}

/// One request for each provider entry, in the user's order.
pub(super) fn expansions<'a>(
    checked: &'a Checked,
    schema: &'a str,
    hints: &'a Hints,
) -> impl Iterator<Item = ExpansionRequest> + 'a {
    checked
        .providers
        .iter()
        .map(move |provider| ExpansionRequest {
            schema: schema.to_owned(),
            server_version: hints.server_version.clone(),
            api: provider.api.to_owned(),
            path: provider.path.to_string(),
            entry: entry(provider),
            capabilities: Vec::new(),
        })
}

fn entry(provider: &CheckedProvider) -> ProviderEntry {
    ProviderEntry {
        id: provider.id.to_string(),
        provider: provider.provider.clone(),
        endpoint: provider.endpoint.clone(),
        host: provider.host.clone(),
        settings: provider.settings.clone(),
        references: provider.variables(),
    }
}

/// The request for the whole file.
pub(super) fn assembly(
    checked: &Checked,
    providers: BTreeMap<String, Vec<PlacedProvider>>,
    schema: &str,
    hints: &Hints,
    base: &Value,
    surroundings: &Surroundings,
) -> AssemblyRequest {
    AssemblyRequest {
        schema: schema.to_owned(),
        server_version: hints.server_version.clone(),
        base: base.clone(),
        providers,
        resources: resources(checked),
        storage: Storage {
            kv: checked.storage.kv.as_ref().map(kv),
            sql: checked.storage.sql.as_ref().map(sql),
        },
        disabled: checked
            .disabled
            .iter()
            .map(|one| Disabled {
                path: one.path.to_string(),
                name: one.name.clone(),
            })
            .collect(),
        server: server(checked, surroundings),
        external: external(checked, surroundings),
        capabilities: Vec::new(),
    }
}

fn resources(checked: &Checked) -> Resources {
    let models = checked.models.iter().map(|model| Model {
        path: model.path.to_string(),
        name: model.name.clone(),
        provider: model.provider.clone(),
        model_type: model.model_type.clone(),
        context_length: model.context_length,
        quantization: model.quantization.clone(),
        embedding_dimension: model.embedding_dimension,
        metadata: model.metadata.clone(),
    });
    let tools = checked.tools.iter().map(|tool| Tool {
        path: tool.path.to_string(),
        name: tool.name.clone(),
        provider: tool.provider.clone(),
    });
    let shields = checked.shields.iter().map(|shield| Shield {
        path: shield.path.to_string(),
        name: shield.name.clone(),
        provider: shield.provider.clone(),
        model: shield.model.clone(),
    });
    Resources {
        models: models.collect(),
        tools: tools.collect(),
        shields: shields.collect(),
    }
}

fn kv(kv: &CheckedKv) -> KvStorage {
    match kv {
        CheckedKv::Sqlite => KvStorage::Sqlite,
        CheckedKv::Redis { endpoint, password } => KvStorage::Redis {
            endpoint: endpoint.clone(),
            password: password.as_ref().map(|reference| reference.env.clone()),
        },
    }
}

fn sql(sql: &CheckedSql) -> SqlStorage {
    match sql {
        CheckedSql::Sqlite => SqlStorage::Sqlite,
        CheckedSql::PostgresConnectionString { connection_string } => {
            SqlStorage::PostgresConnectionString {
                connection_string: connection_string.env.clone(),
            }
        }
        CheckedSql::Postgres {
            host,
            port,
            database,
            user,
            password,
        } => SqlStorage::Postgres {
            host: text(host),
            port: port.as_ref().map(text),
            database: database.as_ref().map(text),
            user: text(user),
            password: password
                .as_ref()
                .map(|reference| TextOrReference::Reference(reference.env.clone())),
        },
    }
}

fn text(text: &checked::TextOrReference) -> TextOrReference {
    match text {
        checked::TextOrReference::Text(text) => TextOrReference::Text(text.clone()),
        checked::TextOrReference::Reference(reference) => {
            TextOrReference::Reference(reference.env.clone())
        }
    }
}

fn server(checked: &Checked, surroundings: &Surroundings) -> Server {
    let Surroundings {
        config_file,
        tls_folder,
        packages: _,
    } = surroundings;
    Server {
        config_file: config_file.clone(),
        data_dir: pod::data_folder(checked).to_owned(),
        port: checked.networking.asked_port,
        tls: checked.networking.tls_secret.as_ref().map(|_| Tls {
            cert_file: format!("{tls_folder}/tls.crt"),
            key_file: format!("{tls_folder}/tls.key"),
        }),
        workers: checked.workload.workers,
    }
}

/// External providers whose images have been read. Those that have not are left to whoever gathers:
/// their type is nobody's guess.
fn external(checked: &Checked, surroundings: &Surroundings) -> Vec<ExternalProvider> {
    checked
        .external
        .iter()
        .filter_map(|provider| {
            let package = surroundings.packages.get(provider.id.as_str())?;
            Some(ExternalProvider {
                path: provider.path.to_string(),
                api: provider.api.to_owned(),
                id: provider.id.to_string(),
                provider_type: package.provider_type.clone(),
                module: Some(package.module.clone()),
                config: provider.config.clone(),
            })
        })
        .collect()
}
