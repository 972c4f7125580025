//! One provider entry of the resource to one provider entry of the server's file.
//!
//! In: what the user wrote, with a variable name for each secret reference. Out: the type and the
//! keys that this release reads. What the whole file decides (stores, paths, keys that the base
//! already sets) is the business of `assemble`.

mod draft;

use llsd_adapter_sdk::documents::{
    Expansion, ExpansionRequest, Object, ProviderEntry, ReadAs, Variable,
};
use llsd_adapter_sdk::{Answer, Diagnostics};

use crate::catalog::Catalog;
use crate::layout::{Dialect, Telemetry};
use crate::names;
use draft::Draft;
use llsd_adapter_sdk::Release;

pub(crate) fn expand(dialect: &'static Dialect, request: ExpansionRequest) -> Answer<Expansion> {
    let ExpansionRequest {
        schema: _,
        server_version,
        api,
        path,
        entry,
        capabilities: _,
    } = request;
    let catalog = Catalog::of(dialect, server_version.as_deref().and_then(Release::parse));
    let mut notes = Diagnostics::default();
    let Some(api) = catalog.api(&api) else {
        return without_api(dialect, &catalog, &api, path, entry);
    };
    let Some(provider_type) = choose_type(&catalog, api, &path, &entry, &mut notes) else {
        return notes.finish(nothing(&entry));
    };
    let known = catalog.find(api, &provider_type);
    if known.is_some() && !catalog.is_everywhere(api, &provider_type) {
        notes.warning(
            "version-dependent",
            format!("{path}.provider"),
            format!("not every release of {} has {provider_type:?}", dialect.id),
            "use an image whose labels say its release, and make sure that this one has it",
        );
    }
    let mut draft = Draft {
        dialect,
        path: &path,
        name: provider_type.clone(),
        known,
        config: Object::new(),
        wants: Vec::new(),
        notes,
    };
    draft.place(
        entry.endpoint.as_deref(),
        entry.host.as_deref(),
        &entry.references,
    );
    draft.merge_settings(entry.settings);
    let Draft {
        config,
        wants,
        notes,
        ..
    } = draft;
    notes.finish(Expansion {
        id: entry.id,
        provider_type,
        config,
        module: None,
        wants,
    })
}

/// An answer that only its errors matter of.
fn nothing(entry: &ProviderEntry) -> Expansion {
    Expansion {
        id: entry.id.clone(),
        provider_type: entry.provider.clone(),
        config: Object::new(),
        module: None,
        wants: Vec::new(),
    }
}

/// The release has no such API; telemetry became something else.
fn without_api(
    dialect: &Dialect,
    catalog: &Catalog,
    api: &str,
    path: String,
    entry: ProviderEntry,
) -> Answer<Expansion> {
    let mut notes = Diagnostics::default();
    let mut answer = nothing(&entry);
    match dialect.telemetry {
        Telemetry::Switch if api == "telemetry" => {
            if !entry.settings.is_empty() || !entry.references.is_empty() || entry.host.is_some() {
                notes.warning(
                    "unknown-setting",
                    format!("{path}.settings"),
                    format!("{} only switches telemetry on and off; its settings are dropped", dialect.id),
                    "set the OTEL_* variables under spec.workload.overrides.env instead",
                );
            }
            if let Some(endpoint) = entry.endpoint {
                answer.wants.push(Variable {
                    env: "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(),
                    reference: None,
                    part: None,
                    value: Some(endpoint),
                    read_as: ReadAs::Text,
                });
            }
            answer.provider_type = "inline::meta-reference".to_owned();
        }
        Telemetry::Variables if api == "telemetry" => notes.error(
            "no-such-api",
            path,
            format!("{} has no telemetry provider", dialect.id),
            "remove it, and set OTEL_EXPORTER_OTLP_ENDPOINT and the other OTEL_* variables under spec.workload.overrides.env",
        ),
        _ => notes.error(
            "no-such-api",
            path,
            format!("{} has no API {api:?}", dialect.id),
            names::choose(api, catalog.apis()),
        ),
    }
    notes.finish(answer)
}

/// The full type of a provider: as written, or looked up by its short name.
fn choose_type(
    catalog: &Catalog,
    api: &str,
    path: &str,
    entry: &ProviderEntry,
    notes: &mut Diagnostics,
) -> Option<String> {
    let field = format!("{path}.provider");
    let name = entry.provider.as_str();
    if name.starts_with("remote::") || name.starts_with("inline::") {
        if catalog.find(api, name).is_none() {
            let short = name.split_once("::").map_or(name, |(_, short)| short);
            notes.warning(
                "unknown-provider",
                field,
                format!("this release has no {api} provider of type {name:?}"),
                format!(
                    "keep it only if the image brings it; otherwise {}",
                    catalog.choose(api, short)
                ),
            );
        }
        return Some(name.to_owned());
    }
    let [remote, inline] = ["remote", "inline"].map(|side| format!("{side}::{name}"));
    match (
        catalog.find(api, &remote).is_some(),
        catalog.find(api, &inline).is_some(),
    ) {
        (true, false) => Some(remote),
        (false, true) => Some(inline),
        (true, true)
            if entry.endpoint.is_some()
                || entry.host.is_some()
                || entry.references.contains_key("host") =>
        {
            Some(remote)
        }
        (true, true) => {
            notes.error(
                "ambiguous-provider",
                field,
                format!("{name:?} runs inside the server or elsewhere, and no endpoint says which"),
                format!("set endpoint for {remote}, or write {inline}"),
            );
            None
        }
        (false, false) if name.contains("::") => {
            notes.warning(
                "unknown-provider",
                field,
                format!("this release has no {api} provider of type {name:?}"),
                "keep it only if the image brings it",
            );
            Some(name.to_owned())
        }
        (false, false) => {
            notes.error(
                "unknown-provider",
                field,
                format!("this release has no {api} provider called {name:?}"),
                catalog.choose(api, name),
            );
            None
        }
    }
}
