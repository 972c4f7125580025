//! `spec.disabled`: removes APIs and single providers.

use llsd_adapter_sdk::documents::Disabled;
use llsd_adapter_sdk::serde_json::Value;

use super::base::Stack;
use crate::env::Id;
use crate::{apis, names};

/// The disabled APIs and providers, with their paths.
#[derive(Default)]
pub(super) struct DisabledNames {
    apis: Vec<(&'static str, String)>,
    providers: Vec<(&'static str, String, String)>,
}

impl DisabledNames {
    /// The entry that disables a provider, if there is one.
    pub(super) fn covers(&self, api: &str, id: &str) -> Option<&str> {
        let whole = self
            .apis
            .iter()
            .find(|(off, _)| *off == api)
            .map(|(off, _)| *off);
        whole.or_else(|| {
            self.providers
                .iter()
                .find(|(off, off_id, _)| *off == api && off_id == id)
                .map(|(_, id, _)| id.as_str())
        })
    }
}

/// Parses the names. A name that the release does not have is a warning.
pub(super) fn read(stack: &mut Stack, disabled: Vec<Disabled>) -> DisabledNames {
    let mut off = DisabledNames::default();
    for Disabled { path, name } in disabled {
        let (api, provider) = match name.split_once('/') {
            Some((api, provider)) => (api, Some(provider)),
            None => (name.as_str(), None),
        };
        if provider.is_none() && apis::same(api, "telemetry") && stack.switch_telemetry(false) {
            continue;
        }
        match (stack.catalog.api(api), provider) {
            (Some(api), None) => off.apis.push((api, path)),
            (Some(api), Some(provider)) => off.providers.push((api, provider.to_owned(), path)),
            (None, _) => stack.diagnostics.warning(
                "no-such-api",
                path,
                format!(
                    "{} has no API {api:?}, so there is nothing to disable",
                    stack.dialect.id
                ),
                format!("remove it, or {}", names::choose(api, stack.catalog.apis())),
            ),
        }
    }
    off
}

/// Removes what is disabled, with the resources that need it.
pub(super) fn remove(stack: &mut Stack, off: &DisabledNames) {
    for (api, path) in &off.apis {
        stack.disable_api(api, path);
        for kind in RESOURCES {
            if apis::of_resource(kind) == Some(api)
                && let Some(list) = stack.existing_resources_mut(kind)
            {
                list.clear();
            }
        }
    }
    for (api, id, path) in &off.providers {
        if stack.disabled_at(api).is_some() {
            continue;
        }
        if !stack.remove_provider(api, id, path) {
            let fix = names::choose(id, stack.ids(api));
            stack.diagnostics.warning(
                "no-such-provider",
                path.as_str(),
                format!("there is no {api} provider {id:?} to disable"),
                format!("remove it, or {fix}"),
            );
            continue;
        }
        for kind in RESOURCES {
            if apis::of_resource(kind) == Some(api)
                && let Some(list) = stack.existing_resources_mut(kind)
            {
                list.retain(|resource| Id::of(resource.get("provider_id")).name() != Some(id));
            }
        }
        if stack.entries(api).next().is_none() {
            stack.disable_api(api, path);
        }
    }
}

/// Kinds of resources, of all dialects.
const RESOURCES: [&str; 8] = [
    "models",
    "shields",
    "vector_dbs",
    "vector_stores",
    "datasets",
    "scoring_fns",
    "benchmarks",
    "tool_groups",
];

/// The kinds of resources that name a provider, with their lists.
pub(super) fn named_resources(
    stack: &Stack,
) -> impl Iterator<Item = (&'static str, &'static str, &Vec<Value>)> {
    let home = stack.resources();
    RESOURCES.into_iter().filter_map(move |kind| {
        let list = home?.get(kind)?.as_array()?;
        Some((kind, apis::of_resource(kind)?, list))
    })
}
