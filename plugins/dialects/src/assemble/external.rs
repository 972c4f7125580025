//! Providers that arrive in their own images.

use llsd_adapter_sdk::documents::ExternalProvider;

use super::base::{Origin, Stack};
use super::disabled::Off;
use super::providers;
use crate::names;

/// Puts them over everything else: they win over a provider with the same id.
pub(super) fn place(stack: &mut Stack, external: Vec<ExternalProvider>, off: &Off) {
    for ExternalProvider {
        path,
        api: written,
        id,
        provider_type,
        module,
        config,
    } in external
    {
        let Some(api) = stack.catalog.api(&written) else {
            stack.notes.error(
                "no-such-api",
                path,
                format!("{} has no API {written:?}", stack.dialect.id),
                names::choose(&written, stack.catalog.apis()),
            );
            continue;
        };
        if let Some(what) = off.covers(api, &id) {
            stack.notes.warning(
                "disabled-wins",
                path,
                format!("spec.disabled leaves out {what:?}, so this provider is ignored"),
                "remove it here or there",
            );
            continue;
        }
        let value = providers::entry(stack, &path, &id, &provider_type, config, module);
        let replaced = match stack.put(api, &id, value, Origin::External(path.clone())) {
            None => continue,
            Some(Origin::Base) => "the base configuration's".to_owned(),
            Some(Origin::User(other) | Origin::External(other) | Origin::Brought(other)) => {
                format!("the one at {other}")
            }
        };
        stack.notes.warning(
            "external-wins",
            path,
            format!("it replaces the {api} provider {id:?}, {replaced}"),
            "give it another id if you want both",
        );
    }
}
