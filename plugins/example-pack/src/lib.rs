//! An example of a provider pack: the expansion of one provider type, for several schemas.
//!
//! Acme sells an inference service. Its Python package `acme_llama_provider` is in the images of
//! its customers, and this pack lets them write `provider: acme` instead of the type, the module
//! and the keys that the package reads. A pack does not assemble: the schema adapter of the
//! distribution adds the result to the file.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{
    Description, Document, Expansion, ExpansionRequest, KnownProvider, ReadAs, Role, ServedSchema,
    Variable,
};
use llsd_adapter_sdk::serde_json::Value;
use llsd_adapter_sdk::{Answer, Diagnostics, ProviderPack};

const API: &str = "inference";
const NAME: &str = "acme";
const TYPE: &str = "remote::acme";
const MODULE: &str = "acme_llama_provider";

/// The schemas that the package works with: those whose server loads a provider from a module.
const SCHEMAS: [(&str, &str, &str, Option<&str>); 6] = [
    ("ogx/1.0", "ogx", "1.0.0", None),
    ("ogx/0.8", "ogx", "0.8.0", Some("1.0.0")),
    ("llama-stack/0.7", "llama-stack", "0.7.0", Some("0.8.0")),
    ("llama-stack/0.5", "llama-stack", "0.5.0", Some("0.7.0")),
    ("llama-stack/0.4", "llama-stack", "0.4.0", Some("0.5.0")),
    ("llama-stack/0.3", "llama-stack", "0.3.0", Some("0.4.0")),
];

/// The keys of `settings`.
const SETTINGS: [&str; 2] = ["region", "timeout_seconds"];

/// Expands `provider: acme`.
#[derive(Debug)]
pub struct Acme;

impl ProviderPack for Acme {
    fn describe() -> Description {
        let known = KnownProvider {
            name: NAME.to_owned(),
            provider_type: TYPE.to_owned(),
            endpoint: Some("base_url".to_owned()),
            credential: Some("api_key".to_owned()),
        };
        let schemas = SCHEMAS
            .iter()
            .enumerate()
            .map(|(place, (id, product, from, before))| ServedSchema {
                id: (*id).to_owned(),
                product: (*product).to_owned(),
                from: (*from).to_owned(),
                before: before.map(str::to_owned),
                role: if place == 0 {
                    Role::Current
                } else {
                    Role::Previous
                },
            });
        let by_schema = |(id, ..): &(&str, &str, &str, Option<&str>)| {
            (
                (*id).to_owned(),
                BTreeMap::from([(API.to_owned(), vec![known.clone()])]),
            )
        };
        Description {
            name: "example-pack".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            vendor: "Acme (an example)".to_owned(),
            shapes: [ExpansionRequest::SHAPE, Expansion::SHAPE]
                .map(str::to_owned)
                .to_vec(),
            schemas: schemas.collect(),
            apis: SCHEMAS
                .iter()
                .map(|(id, ..)| ((*id).to_owned(), vec![API.to_owned()]))
                .collect(),
            providers: SCHEMAS.iter().map(by_schema).collect(),
            capabilities: Vec::new(),
        }
    }

    fn expand(request: ExpansionRequest) -> Answer<Expansion> {
        let ExpansionRequest {
            schema,
            server_version: _,
            api,
            path,
            entry,
            capabilities: _,
        } = request;
        let mut notes = Diagnostics::default();
        if api != API
            || ![NAME, TYPE].contains(&entry.provider.as_str())
            || !SCHEMAS.iter().any(|(id, ..)| *id == schema)
        {
            let problem = format!(
                "this pack does not know the {api} provider {:?} of {schema}",
                entry.provider
            );
            notes.error(
                "unknown-provider",
                format!("{path}.provider"),
                problem,
                format!("use the {API} provider {NAME:?}"),
            );
        }
        let mut config = entry.settings;
        for key in config
            .keys()
            .filter(|key| !SETTINGS.contains(&key.as_str()))
        {
            notes.warning(
                "unknown-setting",
                format!("{path}.settings.{key}"),
                format!("{NAME} has no setting {key:?}"),
                format!("use one of: {}", SETTINGS.join(", ")),
            );
        }
        match entry.endpoint {
            Some(endpoint) => {
                config.insert("base_url".to_owned(), Value::String(endpoint));
            }
            None => notes.error(
                "missing-setting",
                format!("{path}.endpoint"),
                format!("{NAME} does not start without an endpoint"),
                "set endpoint to the URL of your Acme cluster",
            ),
        }
        let mut wants = Vec::new();
        for (field, variable) in entry.references {
            let key = match field.as_str() {
                "apiKey" => "api_key",
                other => other.strip_prefix("secretRefs.").unwrap_or(other),
            };
            config.insert(
                key.to_owned(),
                Value::String(format!("${{env.{variable}}}")),
            );
            let reference = Some(variable.clone());
            wants.push(Variable {
                env: variable,
                reference,
                part: None,
                value: None,
                read_as: ReadAs::ConvertedText,
            });
        }
        if !config.contains_key("api_key") {
            notes.error(
                "missing-setting",
                format!("{path}.apiKey"),
                format!("{NAME} does not start without an API key"),
                "set apiKey to a Secret reference",
            );
        }
        notes.finish(Expansion {
            id: entry.id,
            provider_type: TYPE.to_owned(),
            config,
            module: Some(MODULE.to_owned()),
            wants,
        })
    }
}

llsd_adapter_sdk::export!(Acme as provider - pack);
