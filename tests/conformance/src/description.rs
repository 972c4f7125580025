//! What a plugin says about itself: constant, and enough for a host to choose by.

use std::collections::BTreeSet;

use llsd_adapter_sdk::documents::{Description, Role, ServedSchema};
use llsd_plugin::{Plugin, Request};
use llsd_render::adapter::Adapter as _;
use llsd_render::digest;

use crate::report::Check;

/// Fresh runs that must agree.
const RUNS: usize = 5;

/// `describe` answers the same each time.
pub(crate) fn is_constant(plugin: &Plugin) -> Check {
    let answers = (0..RUNS).map(|_| plugin.call_afresh(&Request::Describe));
    let different: BTreeSet<String> = answers
        .map(|answer| match answer {
            Ok(called) => format!(
                "{} with {} fuel",
                digest::of(called.answer.to_json()),
                called.fuel
            ),
            Err(fault) => fault.kind.to_string(),
        })
        .collect();
    let problems = if different.len() > 1 {
        different.into_iter().collect()
    } else {
        Vec::new()
    };
    Check::new(
        "description-is-constant",
        "describe answers the same each time",
        format!("{RUNS} runs"),
        problems,
    )
}

/// Every schema comes with its APIs, its provider types and its releases.
pub(crate) fn is_complete(plugin: &Plugin) -> Check {
    let description = plugin.description();
    let mut problems = Vec::new();
    if description.vendor.trim().is_empty() {
        problems.push("nobody answers for it: `vendor` is empty".to_owned());
    }
    for schema in &description.schemas {
        let id = &schema.id;
        if !id.starts_with(&format!("{}/", schema.product)) {
            problems.push(format!(
                "{id}: does not begin with its product {:?}",
                schema.product
            ));
        }
        for release in [Some(&schema.from), schema.before.as_ref()]
            .into_iter()
            .flatten()
        {
            if !is_release(release) {
                problems.push(format!("{id}: {release:?} is no release like 0.7.0"));
            }
        }
        problems.extend(apis_and_providers(
            description,
            id,
            plugin.is_schema_adapter(),
        ));
    }
    let is_current = |schema: &&ServedSchema| schema.role == Role::Current;
    let current = description.schemas.iter().filter(is_current).count();
    if current != 1 {
        problems.push(format!(
            "{current} schemas are current; exactly one must be"
        ));
    }
    let scope = format!("{} schemas", description.schemas.len());
    Check::new(
        "description-is-complete",
        "every schema comes with its releases, APIs and provider types",
        scope,
        problems,
    )
}

/// A schema adapter knows the APIs of its schemas; a pack need not know those that it does not serve.
fn apis_and_providers(description: &Description, schema: &str, is_adapter: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let apis = description.apis.get(schema);
    if is_adapter && apis.is_none_or(Vec::is_empty) {
        problems.push(format!("{schema}: names no API"));
    }
    let Some(providers) = description
        .providers
        .get(schema)
        .filter(|providers| !providers.is_empty())
    else {
        problems.push(format!("{schema}: names no provider type"));
        return problems;
    };
    for (api, known) in providers {
        if is_adapter && !apis.is_some_and(|apis| apis.contains(api)) {
            problems.push(format!(
                "{schema}: has provider types of {api:?}, which is not among its APIs"
            ));
        }
        for provider in known {
            if provider.name.is_empty() || !provider.provider_type.contains(&*provider.name) {
                problems.push(format!(
                    "{schema}: {api}: {:?} is no short name of {:?}",
                    provider.name, provider.provider_type
                ));
            }
        }
        let types: BTreeSet<_> = known
            .iter()
            .map(|provider| &provider.provider_type)
            .collect();
        if types.len() != known.len() {
            problems.push(format!("{schema}: {api}: a provider type is listed twice"));
        }
    }
    problems
}

fn is_release(text: &str) -> bool {
    let numbers: Vec<&str> = text.split('.').collect();
    (2..=3).contains(&numbers.len()) && numbers.iter().all(|part| part.parse::<u32>().is_ok())
}
