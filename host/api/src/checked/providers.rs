//! Checks `spec.providers`: reads both shapes of an entry, assigns ids, collects secret references.

mod secret_files;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::secrets::{self, Reference};
use super::untyped::UntypedObject;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::json_type::type_name;
use crate::names;
use crate::v1alpha2::{ProviderApi, Providers};

pub use secret_files::{SECRET_FILES_FOLDER, SecretFile};

/// The id of a provider, unique in the resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(String);

impl ProviderId {
    /// The id as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A string that has already passed [`names::provider_id`].
    pub(super) fn from_checked(id: String) -> Self {
        Self(id)
    }
}

impl std::fmt::Display for ProviderId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One provider entry, after normalisation.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedProvider {
    /// The field of `spec.providers`: `vectorIo`.
    pub api_field: &'static str,
    /// The server's spelling of that API: `vector_io`.
    pub api: &'static str,
    /// Field path of the entry: `spec.providers.vectorIo[0]`.
    pub path: FieldPath,
    /// The id in the resource, or the last part of the provider type.
    pub id: ProviderId,
    /// Short (`vllm`) or full (`remote::vllm`) provider type, as written.
    pub provider: String,
    /// Address of the backing service, as written.
    pub endpoint: Option<String>,
    /// Host name, if it is a literal and not a reference.
    pub host: Option<String>,
    /// Settings with any content, as written, and the paths of the secret files.
    pub settings: Map<String, Value>,
    /// Secret references by field: `apiKey`, `host`, `secretRefs.<name>`.
    pub references: BTreeMap<String, Reference>,
    /// Keys of Secrets that are files in the pod.
    pub secret_files: Vec<SecretFile>,
}

impl CheckedProvider {
    /// Field to environment variable, as in the plugin contract.
    pub fn variables(&self) -> BTreeMap<String, String> {
        self.references
            .iter()
            .map(|(field, reference)| (field.clone(), reference.env.clone()))
            .collect()
    }
}

const FIELDS: &[&str] = &[
    "id",
    "provider",
    "endpoint",
    "apiKey",
    "host",
    "settings",
    "secretRefs",
    "secretFiles",
];
const ID_FIX: &str =
    "use up to 63 letters, digits, \"-\", \"_\" and \".\", with a letter or digit first and last";

/// Checks the entries of all APIs, in the order of the resource.
pub(super) fn check(providers: &Providers, diagnostics: &mut Collector) -> Vec<CheckedProvider> {
    let mut checked = Vec::new();
    for (api, value) in providers.entries() {
        let path = FieldPath::spec().at(&["providers", api.field]);
        match value {
            Value::Object(entry) => checked.extend(check_entry(api, entry, path, 1, diagnostics)),
            Value::Array(entries) if entries.len() > MAX_PROVIDERS => {
                let problem = format!("has {} items", entries.len());
                diagnostics.error(&path, problem, format!("use at most {MAX_PROVIDERS} items"));
            }
            Value::Array(entries) => {
                for (position, entry) in entries.iter().enumerate() {
                    let path = path.index(position);
                    match entry {
                        Value::Object(entry) => checked.extend(check_entry(
                            api,
                            entry,
                            path,
                            entries.len(),
                            diagnostics,
                        )),
                        other => diagnostics.error(
                            &path,
                            format!("must be an object, not {}", type_name(other)),
                            "write {id: …, provider: …}",
                        ),
                    }
                }
            }
            other => diagnostics.error(
                &path,
                format!(
                    "must be an object or a list of objects, not {}",
                    type_name(other)
                ),
                "write {provider: …} or a list of such objects",
            ),
        }
    }
    check_unique_ids(&checked, diagnostics);
    let files = checked.iter().flat_map(|provider| &provider.secret_files);
    secret_files::check_unique(files, diagnostics);
    checked
}

/// Maximum number of providers of one API.
const MAX_PROVIDERS: usize = 256;

fn check_entry(
    api: ProviderApi,
    entry: &Map<String, Value>,
    path: FieldPath,
    siblings: usize,
    diagnostics: &mut Collector,
) -> Option<CheckedProvider> {
    let entry = UntypedObject::open(entry, path, FIELDS, diagnostics);
    let provider = entry.required_string(
        "provider",
        names::provider_type,
        "set the provider type, for example vllm or remote::vllm",
        diagnostics,
    );
    let default_id = provider
        .as_deref()
        .and_then(|provider| provider.rsplit("::").next());
    if entry.value("id").is_none() && siblings > 1 {
        let fix = default_id.map_or("add an id".to_owned(), |id| {
            format!("add an id, for example id: {id}")
        });
        diagnostics.error(
            &entry.field("id"),
            format!("is missing, but {siblings} providers are listed here"),
            fix,
        );
    }
    let given = entry.string("id", names::provider_id, ID_FIX, diagnostics);
    let id = if entry.value("id").is_some() {
        given
    } else {
        default_id.map(str::to_owned)
    };
    // Without an id, the checks of the remaining fields still run.
    let owner = id.clone().unwrap_or_default();

    let endpoint = entry.string(
        "endpoint",
        names::address,
        "use an address such as http://vllm:8000",
        diagnostics,
    );
    warn_of_credentials(endpoint.as_deref(), &entry.field("endpoint"), diagnostics);
    let mut references = BTreeMap::new();
    let mut refer = |field: &str, value: &Value, path: FieldPath, diagnostics: &mut Collector| {
        if let Some(reference) =
            secrets::read(value, &path, secrets::variable(&owner, field), diagnostics)
        {
            references.insert(field.to_owned(), reference);
        }
    };
    if let Some(value) = entry.value("apiKey") {
        refer("apiKey", value, entry.field("apiKey"), diagnostics);
    }
    let host = match entry.value("host") {
        Some(Value::String(_)) => {
            entry.string("host", names::address, "use a host name", diagnostics)
        }
        Some(value) => {
            refer("host", value, entry.field("host"), diagnostics);
            None
        }
        None => None,
    };
    let mut settings = entry.free_object("settings", diagnostics);
    for (name, value) in &entry.free_object("secretRefs", diagnostics) {
        let path = entry.field("secretRefs").field(name);
        if let Err(error) = names::setting(name) {
            diagnostics.error(
                &path,
                format!("{name:?} {error}"),
                "use letters, digits, \"_\" and \"-\"",
            );
        } else if settings.contains_key(name) {
            let problem = format!(
                "{} already sets {name:?}",
                entry.field("settings").field(name)
            );
            diagnostics.error(&path, problem, "remove one of the two");
        } else {
            refer(&format!("secretRefs.{name}"), value, path, diagnostics);
        }
    }
    let secret_files = secret_files::check(&entry, &owner, &mut settings, &references, diagnostics);
    Some(CheckedProvider {
        api_field: api.field,
        api: api.api,
        path: entry.path,
        id: ProviderId(id?),
        provider: provider?,
        endpoint,
        host,
        settings,
        references,
        secret_files,
    })
}

/// The endpoint is written to a ConfigMap, so it must not contain a password.
fn warn_of_credentials(endpoint: Option<&str>, path: &FieldPath, diagnostics: &mut Collector) {
    let authority = endpoint
        .and_then(|endpoint| endpoint.split_once("://"))
        .map(|(_, rest)| rest.split('/').next());
    if authority
        .flatten()
        .is_some_and(|authority| authority.contains('@'))
    {
        diagnostics.warning(
            path,
            "contains credentials, which anyone with read access to ConfigMaps can see",
            "use apiKey or secretRefs instead",
        );
    }
}

fn check_unique_ids(providers: &[CheckedProvider], diagnostics: &mut Collector) {
    let mut seen: BTreeMap<&ProviderId, &FieldPath> = BTreeMap::new();
    for provider in providers {
        if let Some(first) = seen.get(&provider.id) {
            let problem = format!("{:?} is already the id of {first}", provider.id.as_str());
            diagnostics.error(
                &provider.path.field("id"),
                problem,
                "use a unique id for each provider",
            );
        } else {
            seen.insert(&provider.id, &provider.path);
        }
    }
}
