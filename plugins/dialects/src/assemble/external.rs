//! External providers: providers from their own images.

use llsd_adapter_sdk::documents::ExternalProvider;

use super::base::Stack;
use super::disabled::DisabledNames;
use super::entry::Origin;
use super::providers;

/// Adds external providers. They replace a provider with the same id.
pub(super) fn place(stack: &mut Stack, external: Vec<ExternalProvider>, off: &DisabledNames) {
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
            stack.no_such_api(path, &written);
            continue;
        };
        if providers::is_disabled(stack, off, api, &id, &path) {
            continue;
        }
        let value = providers::entry(stack, &path, &id, &provider_type, config, module);
        let replaced = match stack.put(api, &id, value, Origin::External(path.clone())) {
            None => continue,
            Some(replaced) => replaced
                .origin
                .path()
                .map_or("of the base".to_owned(), |other| format!("at {other}")),
        };
        stack.diagnostics.warning(
            "external-wins",
            path,
            format!("it replaces the {api} provider {id:?} {replaced}"),
            "give it another id to keep both",
        );
    }
}
