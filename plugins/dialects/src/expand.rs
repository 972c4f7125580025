//! `expand`: converts one provider entry of the resource to one provider entry of the server's file.
//!
//! In: what the user wrote, with a variable name for each secret reference. Out: the type and the
//! keys that this release reads. What depends on the whole file (stores, paths, keys that the base
//! sets) is left to `assemble`.

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
    let mut diagnostics = Diagnostics::default();
    let Some(api) = catalog.api(&api) else {
        return without_api(dialect, &catalog, &api, path, entry);
    };
    let Some(provider_type) = choose_type(&catalog, api, &path, &entry, &mut diagnostics) else {
        return diagnostics.finish(nothing(&entry));
    };
    let known = catalog.find(api, &provider_type);
    if known.is_some() && !catalog.is_everywhere(api, &provider_type) {
        diagnostics.warning(
            "version-dependent",
            format!("{path}.provider"),
            format!("not every release of {} has {provider_type:?}", dialect.id),
            "label the image with its release, and make sure that this release has the provider",
        );
    }
    let mut draft = Draft {
        dialect,
        path: &path,
        name: provider_type.clone(),
        known,
        config: Object::new(),
        wants: Vec::new(),
        diagnostics,
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
        diagnostics,
        ..
    } = draft;
    diagnostics.finish(Expansion {
        id: entry.id,
        provider_type,
        config,
        module: None,
        wants,
    })
}

/// An expansion of which only the errors matter.
fn nothing(entry: &ProviderEntry) -> Expansion {
    Expansion {
        id: entry.id.clone(),
        provider_type: entry.provider.clone(),
        config: Object::new(),
        module: None,
        wants: Vec::new(),
    }
}

/// Reports that the release does not have an API. Telemetry has its own message.
fn without_api(
    dialect: &Dialect,
    catalog: &Catalog,
    api: &str,
    path: String,
    entry: ProviderEntry,
) -> Answer<Expansion> {
    let mut diagnostics = Diagnostics::default();
    let mut answer = nothing(&entry);
    match dialect.telemetry {
        Telemetry::Switch if api == "telemetry" => {
            if !entry.settings.is_empty() || !entry.references.is_empty() || entry.host.is_some() {
                diagnostics.warning(
                    "unknown-setting",
                    format!("{path}.settings"),
                    format!(
                        "{} can only switch telemetry on and off; its settings are ignored",
                        dialect.id
                    ),
                    "use spec.telemetry instead",
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
        Telemetry::Variables if api == "telemetry" => diagnostics.error(
            "no-such-api",
            path,
            format!("{} has no telemetry provider", dialect.id),
            "remove it, and use spec.telemetry instead",
        ),
        _ => diagnostics.error(
            "no-such-api",
            path,
            format!("{} has no API {api:?}", dialect.id),
            names::choose(api, catalog.apis()),
        ),
    }
    diagnostics.finish(answer)
}

/// The full type of a provider: as written, or found by its short name.
fn choose_type(
    catalog: &Catalog,
    api: &str,
    path: &str,
    entry: &ProviderEntry,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let field = format!("{path}.provider");
    let name = entry.provider.as_str();
    if name.starts_with("remote::") || name.starts_with("inline::") {
        if catalog.find(api, name).is_none() {
            let short = name.split_once("::").map_or(name, |(_, short)| short);
            diagnostics.warning(
                "unknown-provider",
                field,
                format!("this release has no {api} provider of type {name:?}"),
                format!(
                    "keep it only if the image contains it; otherwise {}",
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
            diagnostics.error(
                "ambiguous-provider",
                field,
                format!("{name:?} exists as an inline and as a remote provider, and without an endpoint it is ambiguous"),
                format!("set endpoint for {remote}, or write {inline}"),
            );
            None
        }
        (false, false) if name.contains("::") => {
            diagnostics.warning(
                "unknown-provider",
                field,
                format!("this release has no {api} provider of type {name:?}"),
                "keep it only if the image contains it",
            );
            Some(name.to_owned())
        }
        (false, false) => {
            diagnostics.error(
                "unknown-provider",
                field,
                format!("this release has no {api} provider called {name:?}"),
                catalog.choose(api, name),
            );
            None
        }
    }
}
