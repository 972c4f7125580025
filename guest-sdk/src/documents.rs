//! The JSON documents of the contract, as Rust values.
//!
//! In: JSON text from the other side. Out: typed values, or a [`Diagnostic`] that says what does
//! not fit. Host and guest share these types, so that one definition makes the published JSON
//! Schemas, the guest's arguments and the host's readings. Unknown keys are ignored: a document
//! grows by optional keys within its version.

mod resources;
mod storage;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use resources::{Defaults, Model, Registration, Resources, Shield, Tool};
pub use storage::{KvStorage, MongoDb, SqlStorage, Storage, StorageOptions, TextOrReference};

/// Optional parts of a request that a plugin names in [`Description::capabilities`] if it understands them.
///
/// A plugin that was written before a key existed ignores it. So the host refuses a resource that needs
/// the key of a capability that the plugin in charge does not name.
pub mod capability {
    /// [`super::AssemblyRequest::access`]: authentication and authorisation.
    pub const ACCESS: &str = "access";
    /// [`super::Resources::registrations`] and [`super::Resources::defaults`]: vector stores, datasets, scoring
    /// functions and benchmarks, and defaults that name resources.
    pub const REGISTRATIONS: &str = "registrations";
    /// [`super::AssemblyRequest::telemetry`]: traces and metrics.
    pub const TELEMETRY: &str = "telemetry";
    /// [`super::Tool::endpoint`]: the address of an MCP server.
    pub const TOOL_ENDPOINTS: &str = "tool-endpoints";
    /// [`super::Storage::kv_mongodb`]: key-value storage in MongoDB.
    pub const KV_MONGODB: &str = "kv-mongodb";
    /// [`super::Storage::kv_postgres`]: key-value storage in PostgreSQL.
    pub const KV_POSTGRES: &str = "kv-postgres";
    /// [`super::Storage::kv_options`] and [`super::Storage::sql_options`].
    pub const STORAGE_OPTIONS: &str = "storage-options";
}

/// A JSON object.
pub type Object = Map<String, Value>;

/// A value that is passed as a document of the contract.
pub trait Document: Serialize + serde::de::DeserializeOwned {
    /// The id of its shape.
    const SHAPE: &'static str;
}

macro_rules! documents {
    ($($name:ident = $shape:literal),+ $(,)?) => {
        $(impl Document for $name { const SHAPE: &'static str = concat!("llamastack.io/adapter/", $shape); })+

        /// Every shape of the contract with the JSON Schema of its type, for publication.
        #[cfg(feature = "schema")]
        pub fn json_schemas() -> Vec<(&'static str, schemars::Schema)> {
            vec![$(($shape, schemars::schema_for!($name))),+]
        }
    };
}

documents! {
    Description = "description/v1",
    Base = "base/v1",
    Hints = "hints/v1",
    ExpansionRequest = "expansion-request/v1",
    Expansion = "expansion/v1",
    AssemblyRequest = "assembly-request/v1",
    Assembly = "assembly/v1",
}

/// A base configuration: the server's own file, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Base(pub Value);

/// What a plugin is and serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Short name, for example `llama-stack-0.7`.
    pub name: String,
    /// Semantic version of the plugin itself.
    pub version: String,
    /// The vendor who is responsible for it.
    pub vendor: String,
    /// Document shapes that it understands, for example `llamastack.io/adapter/assembly-request/v1`, and
    /// those that it returns, for example `llamastack.io/adapter/assembly/v1`. If it lists no version of a
    /// shape that it returns, the host checks each call instead.
    pub shapes: Vec<String>,
    /// The schemas it serves, newest first.
    pub schemas: Vec<ServedSchema>,
    /// Per schema id, the API names that the server knows.
    pub apis: BTreeMap<String, Vec<String>>,
    /// Per schema id and API, the provider types known.
    pub providers: BTreeMap<String, BTreeMap<String, Vec<KnownProvider>>>,
    /// The optional parts of requests that it understands, for example `tool-endpoints`. The host refuses
    /// a resource that needs another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// One dialect that a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServedSchema {
    /// `<product>/<first release of the dialect>`, for example `llama-stack/0.7`.
    pub id: String,
    /// The server's package, for example `llama-stack`.
    pub product: String,
    /// First release of the dialect, inclusive: `0.5.0`.
    pub from: String,
    /// First release after the dialect: `0.7.0`; absent while the dialect is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Whether this is the newest dialect of the plugin or the one before.
    pub role: Role,
}

/// Current (n) or previous (n-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The newest dialect that the plugin was made for.
    Current,
    /// The one before.
    Previous,
}

/// One provider type of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KnownProvider {
    /// What users write: `vllm`.
    pub name: String,
    /// What the server's file says: `remote::vllm`.
    #[serde(rename = "type")]
    pub provider_type: String,
    /// The key that takes the endpoint, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The key that takes the credential, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// What is known about a base besides its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hints {
    /// Labels of the image.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Version of the server package, for example `0.7.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// The schema id that the resource, the distribution or a label states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Whether the host compares candidates by points, so that `detect` may answer with the text of
    /// a candidate (a schema id, a space and a JSON object) where it would answer with a schema id.
    #[serde(default, skip_serializing_if = "is_false")]
    pub weigh: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// One provider entry to expand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExpansionRequest {
    /// The dialect to write.
    pub schema: String,
    /// Exact release, if known; otherwise write what every release of the dialect accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// The API in the server's spelling: `vector_io`.
    pub api: String,
    /// Where the entry stands in the user's resource: `spec.providers.vectorIo[0]`.
    pub path: String,
    /// The entry, after normalisation.
    pub entry: ProviderEntry,
    /// What this host can do beyond version 1 of the contract.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// A provider of the resource, after defaulting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProviderEntry {
    /// Unique in the resource; the host has checked it.
    pub id: String,
    /// Short name (`vllm`) or full type (`remote::vllm`).
    pub provider: String,
    /// Address of the backing service, exactly as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Host name, if it is a string instead of a reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Free settings, exactly as written.
    #[serde(default)]
    pub settings: Object,
    /// Secret references: field (`apiKey`, `host`, `secretRefs.password`) to the name of the
    /// variable that will hold the value. Each stands at `<path>.<field>`.
    #[serde(default)]
    pub references: BTreeMap<String, String>,
}

/// A provider entry of the server's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Expansion {
    /// The provider id.
    pub id: String,
    /// The provider type: `remote::vllm`.
    #[serde(rename = "type")]
    pub provider_type: String,
    /// The provider's configuration.
    #[serde(default)]
    pub config: Object,
    /// Python module that brings the provider, where it is not part of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Variables that the configuration mentions and the pod must have.
    #[serde(default)]
    pub wants: Vec<Variable>,
}

/// A variable that the pod must have, and where its value comes from: a reference, a part of one,
/// or a literal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    /// Name, `[A-Z0-9_]+`.
    pub env: String,
    /// The host's variable of the secret reference that it is, or is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Which part of the reference's value (an address such as
    /// `postgresql://user:password@host:port/database`), which the host fills in without showing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The value, if it is not a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// How the server converts the value.
    #[serde(default)]
    pub read_as: ReadAs,
}

/// A part of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Host name or address.
    Host,
    /// Port number.
    Port,
    /// Database name.
    Database,
    /// User name, decoded.
    User,
    /// Password, decoded.
    Password,
    /// User name, percent-encoded as it stands in the address.
    #[serde(rename = "encodedUser")]
    EncodedUser,
    /// Password, percent-encoded as it stands in the address: for a server that pastes it into one.
    #[serde(rename = "encodedPassword")]
    EncodedPassword,
}

/// How the server reads the value of a variable, so that the host can warn about one that would
/// stop the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ReadAs {
    /// A string, but converted first: a value that looks like a number, a boolean or null is rejected.
    #[default]
    ConvertedText,
    /// A string without conversion, for example as part of a longer string.
    Text,
    /// A number.
    Number,
}

/// Everything that `assemble` needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AssemblyRequest {
    /// The dialect to write.
    pub schema: String,
    /// Exact release, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// The base configuration.
    pub base: Value,
    /// Per API in the server's spelling, the expanded providers in the user's order. An API may be
    /// one that this dialect spells differently or does not have.
    #[serde(default)]
    pub providers: BTreeMap<String, Vec<PlacedProvider>>,
    /// Models, tools and shields to register.
    #[serde(default)]
    pub resources: Resources,
    /// State storage; absent: as in the base.
    #[serde(default)]
    pub storage: Storage,
    /// APIs (`eval`) or single providers of the base (`inference/ollama`) to leave out, in the
    /// user's spelling.
    #[serde(default)]
    pub disabled: Vec<Disabled>,
    /// How the server listens.
    #[serde(default)]
    pub server: Server,
    /// Providers that arrive in their own images. They win over others with the same id.
    #[serde(default)]
    pub external: Vec<ExternalProvider>,
    /// Authentication and authorisation, at `spec.access`: an [`Access`], or empty. It stays JSON, because
    /// a plugin writes most of it as it is. Capability `access`.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Access>"))]
    pub access: Object,
    /// Traces and metrics, at `spec.telemetry`: a [`Telemetry`], or empty. Capability `telemetry`.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Telemetry>"))]
    pub telemetry: Object,
    /// What the host merges over the configuration afterwards, at `spec.configPatch`. A plugin may warn
    /// about keys that the release does not read; it must not merge it.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub config_patch: Object,
    /// What this host can do beyond version 1 of the contract.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// An expanded provider and where the user wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlacedProvider {
    /// `spec.providers.inference[0]`.
    pub path: String,
    /// The result of `expand`, which another plugin may have returned.
    pub expansion: Expansion,
}

/// Something to leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Disabled {
    /// `spec.disabled[0]`.
    pub path: String,
    /// `postTraining`, `post_training` or `inference/ollama`.
    pub name: String,
}

/// How the server listens and where its files are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Where the pod finds the generated file.
    pub config_file: String,
    /// The mounted volume: everything that the server writes belongs below it.
    pub data_dir: String,
    /// Port to listen on; absent: 8321.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Serving certificate, at `spec.networking.tls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Worker processes, at `spec.workload.workers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
}

/// Serving certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Certificate chain in the pod.
    pub cert_file: String,
    /// Private key in the pod.
    pub key_file: String,
}

/// Authentication and authorisation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// The field of `spec.access` that says how clients authenticate: `kubernetes`, `oauth2`, `github`,
    /// `apiKeys`, `upstreamHeader` or `custom`.
    pub method: String,
    /// The fields below it, as written, without secrets. For `kubernetes`, `tlsCafile` is the path of the
    /// CA certificates in the pod.
    #[serde(default)]
    pub settings: Object,
    /// Secret references: field below the method (`jwks.token`, `[0]` for the first API key) to the name of
    /// the variable that will hold the value.
    #[serde(default)]
    pub references: BTreeMap<String, String>,
    /// Rules about resources, in their order: `permit` or `forbid`, and `when` or `unless`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<Value>,
    /// Rules about paths, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_policy: Vec<Value>,
}

/// Where traces and metrics go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// The name under which the server reports.
    pub service_name: String,
    /// URL of an OpenTelemetry collector, without a slash at the end, at `otlp.endpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// Its protocol, `http/protobuf` or `grpc`, at `otlp.protocol`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_protocol: Option<String>,
    /// Variable that will hold the headers of its requests, at `otlp.headers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_headers: Option<String>,
    /// Port on which metrics are served for Prometheus, at `metrics.port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<u16>,
}

/// A provider that arrives in its own image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalProvider {
    /// `spec.externalProviders.inference[0]`.
    pub path: String,
    /// The API in the server's spelling.
    pub api: String,
    /// Provider id.
    pub id: String,
    /// Provider type, as the image declares it.
    #[serde(rename = "type")]
    pub provider_type: String,
    /// Python module that brings it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Its configuration, exactly as written.
    #[serde(default)]
    pub config: Object,
}

/// The complete configuration, and what the pod needs for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Assembly {
    /// The server's file.
    pub config: Object,
    /// Variables that the file mentions beyond those of the expansions, with their sources.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// How to start the server with it.
    #[serde(default)]
    pub startup: Startup,
    /// Number of entries in the configuration.
    #[serde(default)]
    pub counts: Counts,
    /// The ids by which clients request the models of the resource.
    #[serde(default)]
    pub models: Vec<ModelId>,
}

/// How to start the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Startup {
    /// Variables that the server's start reads: path of the file, port, data folders.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Replaces the image's entry point; empty: leave it.
    #[serde(default)]
    pub command: Vec<String>,
    /// Replaces the image's arguments; empty: leave them.
    #[serde(default)]
    pub args: Vec<String>,
}

/// Number of entries in a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Providers of all APIs.
    pub providers: u32,
    /// Registered models.
    pub models: u32,
    /// Registered tool groups.
    pub tools: u32,
    /// Registered shields.
    pub shields: u32,
}

/// A model of the resource and the id that clients use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelId {
    /// As in the resource.
    pub name: String,
    /// As clients must write it: `vllm/llama3.2-8b`.
    pub id: String,
}
