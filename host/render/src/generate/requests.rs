//! Builds the plugin requests of the contract from a checked resource.

use std::collections::{BTreeMap, BTreeSet};

use llsd_adapter_sdk::documents::{
    Access, AssemblyRequest, Disabled, ExpansionRequest, ExternalProvider, KvStorage, Model,
    MongoDb, Object, PlacedProvider, ProviderEntry, Registration, Resources, Server, Shield,
    SqlStorage, Storage, StorageOptions, Telemetry, TextOrReference, Tls, Tool,
};
use llsd_api::checked::{
    self, Checked, CheckedAccess, CheckedKv, CheckedMongoDb, CheckedOptions, CheckedProvider,
    CheckedSql, CheckedTelemetry,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::generate::Inputs;
use crate::objects::{cluster_ca, tls, volumes};
use crate::provider_package::ProviderPackage;

/// What is known of the pod: its paths, its certificates, its image, and its external providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodContext {
    /// Path of the server configuration.
    pub config_file: String,
    /// Directory of `tls.crt` and `tls.key`.
    pub tls_folder: String,
    /// The package that each external provider's image declares, by provider id.
    pub packages: BTreeMap<String, ProviderPackage>,
    /// Environment variables to which the server image gives a value; empty if the image was not read.
    pub image_variables: BTreeSet<String>,
    /// Whether the pod may get CA certificates that the resource does not name, as those of the platform.
    pub may_have_ca_bundle: bool,
}

impl Default for PodContext {
    fn default() -> Self {
        Self {
            config_file: volumes::CONFIG_FILE.to_owned(),
            tls_folder: tls::FOLDER.to_owned(),
            packages: BTreeMap::new(),
            image_variables: BTreeSet::new(),
            may_have_ca_bundle: false,
        }
    }
}

impl PodContext {
    /// For callers that do not read the images of external providers. The image declares the provider's
    /// type; a placeholder works as well, because the rest of the resource refers to the id only.
    pub fn with_placeholder_packages(checked: &Checked) -> Self {
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

/// What the requests ask for.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// The id of the schema.
    pub(super) schema: &'a str,
    /// The exact release, where it is known.
    pub(super) server_version: Option<&'a str>,
}

/// One request for each provider entry, in the order of the resource.
pub(super) fn expansions<'a>(
    checked: &'a Checked,
    target: Target<'a>,
) -> impl Iterator<Item = ExpansionRequest> + 'a {
    checked
        .providers
        .iter()
        .map(move |provider| ExpansionRequest {
            schema: target.schema.to_owned(),
            server_version: target.server_version.map(str::to_owned),
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

/// The request to assemble the server configuration.
pub(super) fn assembly(
    inputs: &Inputs<'_>,
    target: Target<'_>,
    providers: BTreeMap<String, Vec<PlacedProvider>>,
) -> AssemblyRequest {
    let &Inputs {
        checked,
        base,
        hints: _,
        running_release: _,
        pod_context,
    } = inputs;
    AssemblyRequest {
        schema: target.schema.to_owned(),
        server_version: target.server_version.map(str::to_owned),
        base: base.clone(),
        providers,
        resources: resources(checked),
        storage: Storage {
            kv: checked.storage.kv.as_ref().and_then(kv),
            sql: checked.storage.sql.as_ref().map(sql),
            kv_postgres: match &checked.storage.kv {
                Some(CheckedKv::Postgres(server)) => Some(sql(server)),
                _ => None,
            },
            kv_mongodb: match &checked.storage.kv {
                Some(CheckedKv::MongoDb(server)) => object(&mongodb(server)),
                _ => Object::new(),
            },
            kv_options: options(checked.storage.kv_options),
            sql_options: options(checked.storage.sql_options),
        },
        disabled: checked
            .disabled
            .iter()
            .map(|one| Disabled {
                path: one.path.to_string(),
                name: one.name.clone(),
            })
            .collect(),
        server: server(checked, pod_context),
        external: external(checked, pod_context),
        access: access(checked),
        telemetry: telemetry(checked),
        config_patch: checked.config_patch.clone(),
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
        endpoint: tool.endpoint.clone(),
    });
    let shields = checked.shields.iter().map(|shield| Shield {
        path: shield.path.to_string(),
        name: shield.name.clone(),
        provider: shield.provider.clone(),
        model: shield.model.clone(),
    });
    let registrations = checked.registrations.iter().map(|one| {
        object(&Registration {
            path: one.path.to_string(),
            kind: one.kind.to_owned(),
            name: one.name.clone(),
            provider: one.provider.clone(),
            settings: one.settings.clone(),
        })
    });
    Resources {
        models: models.collect(),
        tools: tools.collect(),
        shields: shields.collect(),
        registrations: registrations.collect(),
        defaults: checked.defaults.clone(),
    }
}

/// Empty if the resource does not set it.
fn access(checked: &Checked) -> Object {
    let Some(access) = &checked.access else {
        return Object::new();
    };
    let CheckedAccess {
        method,
        settings,
        references,
        policy,
        route_policy,
    } = access;
    let mut settings = settings.clone();
    if access.uses_own_cluster() {
        let file = Value::from(cluster_ca::FILE);
        settings.insert("tlsCafile".to_owned(), file);
    }
    let references = references
        .iter()
        .map(|(field, reference)| (field.clone(), reference.env.clone()));
    // Without this rule, a policy about paths denies the probes of the pod and the queries of the operator.
    let probes =
        json!({"permit": {"paths": ["/v1/health", "/v1/version"]}, "description": "probes"});
    let probes = (!route_policy.is_empty()).then_some(probes);
    let access = Access {
        method: (*method).to_owned(),
        settings,
        references: references.collect(),
        policy: policy.clone(),
        route_policy: probes.into_iter().chain(route_policy.clone()).collect(),
    };
    object(&access)
}

/// Empty if the resource does not set it.
fn telemetry(checked: &Checked) -> Object {
    if checked.telemetry == CheckedTelemetry::default() {
        return Object::new();
    }
    let CheckedTelemetry { otlp, metrics_port } = &checked.telemetry;
    let otlp = otlp.as_ref();
    let headers = otlp.and_then(|otlp| otlp.headers.as_ref());
    object(&Telemetry {
        service_name: checked.name.clone(),
        otlp_endpoint: otlp.map(|otlp| otlp.endpoint.clone()),
        otlp_protocol: otlp.map(|otlp| otlp.protocol.as_str().to_owned()),
        otlp_headers: headers.map(|reference| reference.env.clone()),
        metrics_port: *metrics_port,
    })
}

/// The keys that are set.
fn object(value: &impl Serialize) -> Object {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => Object::new(),
    }
}

/// `None` for a server that the contract has in another key.
fn kv(kv: &CheckedKv) -> Option<KvStorage> {
    match kv {
        CheckedKv::Sqlite => Some(KvStorage::Sqlite),
        CheckedKv::Redis { endpoint, password } => Some(KvStorage::Redis {
            endpoint: endpoint.clone(),
            password: password.as_ref().map(|reference| reference.env.clone()),
        }),
        CheckedKv::Postgres(_) | CheckedKv::MongoDb(_) => None,
    }
}

/// `None` if no option is set.
fn options(options: CheckedOptions) -> Option<StorageOptions> {
    let CheckedOptions {
        tls_mode,
        pool_size,
    } = options;
    (options != CheckedOptions::default()).then(|| StorageOptions {
        tls_mode: tls_mode.map(|mode| mode.as_str().to_owned()),
        pool_size,
    })
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
            host: string_or_reference(host),
            port: port.as_ref().map(string_or_reference),
            database: database.as_ref().map(string_or_reference),
            user: string_or_reference(user),
            password: password.as_ref().map(reference),
        },
    }
}

fn mongodb(server: &CheckedMongoDb) -> MongoDb {
    let CheckedMongoDb {
        host,
        port,
        database,
        user,
        password,
    } = server;
    MongoDb {
        host: string_or_reference(host),
        port: port.as_ref().map(string_or_reference),
        database: database.as_ref().map(string_or_reference),
        user: user.as_ref().map(string_or_reference),
        password: password.as_ref().map(reference),
    }
}

fn reference(reference: &checked::Reference) -> TextOrReference {
    TextOrReference::Reference(reference.env.clone())
}

fn string_or_reference(value: &checked::StringOrReference) -> TextOrReference {
    match value {
        checked::StringOrReference::String(string) => TextOrReference::Text(string.clone()),
        checked::StringOrReference::Reference(secret) => reference(secret),
    }
}

fn server(checked: &Checked, pod_context: &PodContext) -> Server {
    let PodContext {
        config_file,
        tls_folder,
        packages: _,
        image_variables: _,
        may_have_ca_bundle: _,
    } = pod_context;
    Server {
        config_file: config_file.clone(),
        data_dir: volumes::data_folder(checked).to_owned(),
        port: checked.networking.requested_port,
        tls: checked.networking.tls_secret.as_ref().map(|_| Tls {
            cert_file: format!("{tls_folder}/tls.crt"),
            key_file: format!("{tls_folder}/tls.key"),
        }),
        workers: checked.workload.workers,
    }
}

/// The external providers whose images were read. The type of the others is unknown, so they are left
/// out.
fn external(checked: &Checked, pod_context: &PodContext) -> Vec<ExternalProvider> {
    checked
        .external
        .iter()
        .filter_map(|provider| {
            let package = pod_context.packages.get(provider.id.as_str())?;
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
