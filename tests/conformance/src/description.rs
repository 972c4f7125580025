//! Checks of `describe`: its result is constant and complete.

use std::collections::BTreeSet;

use llsd_adapter_sdk::documents::{Description, Role, ServedSchema};
use llsd_plugin::{Plugin, Request};
use llsd_render::adapter::Adapter as _;
use llsd_render::digest;

use crate::report::Check;

/// The number of fresh instances whose descriptions must be equal.
const RUNS: usize = 5;

/// `describe` returns the same bytes and uses the same fuel on every fresh instance.
pub(crate) fn is_constant(plugin: &Plugin) -> Check {
    let results = (0..RUNS).map(|_| plugin.call_uncached(&Request::Describe));
    let different: BTreeSet<String> = results
        .map(|result| match result {
            Ok(called) => format!(
                "describe returned {} and used {} fuel",
                digest::of(called.output.to_json()),
                called.fuel
            ),
            Err(fault) => format!("describe failed: {}", fault.kind),
        })
        .collect();
    let problems = if different.len() > 1 {
        different.into_iter().collect()
    } else {
        Vec::new()
    };
    Check::new(
        "description-is-constant",
        "describe must return the same bytes and use the same fuel on every call",
        "return a constant, and do not read any state that an earlier call wrote",
        format!("{RUNS} runs"),
        problems,
    )
}

/// Every schema lists its APIs, its provider types and its releases.
pub(crate) fn is_complete(plugin: &Plugin) -> Check {
    let description = plugin.description();
    let mut problems = Vec::new();
    if description.vendor.trim().is_empty() {
        problems.push("`vendor` is empty".to_owned());
    }
    for schema in &description.schemas {
        let id = &schema.id;
        if !id.starts_with(&format!("{}/", schema.product)) {
            problems.push(format!(
                "schema {id:?}: the id does not start with its product, {:?}",
                format!("{}/", schema.product)
            ));
        }
        for release in [Some(&schema.from), schema.before.as_ref()]
            .into_iter()
            .flatten()
        {
            if !is_release(release) {
                problems.push(format!(
                    "schema {id:?}: {release:?} is not a valid release, such as 0.7.0"
                ));
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
            "{current} schemas have the role `current`; exactly one must have it"
        ));
    }
    let scope = format!("{} schemas", description.schemas.len());
    Check::new(
        "description-is-complete",
        "the description must name a vendor and, for every schema, its releases, APIs and provider types",
        "correct the named fields of the description that `describe` returns",
        scope,
        problems,
    )
}

/// A schema adapter must list the APIs of its schemas. A provider pack lists only its providers.
fn apis_and_providers(description: &Description, schema: &str, is_adapter: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let apis = description.apis.get(schema);
    if is_adapter && apis.is_none_or(Vec::is_empty) {
        problems.push(format!("schema {schema:?}: `apis` lists no API"));
    }
    let Some(providers) = description
        .providers
        .get(schema)
        .filter(|providers| !providers.is_empty())
    else {
        problems.push(format!(
            "schema {schema:?}: `providers` lists no provider type"
        ));
        return problems;
    };
    for (api, known) in providers {
        if is_adapter && !apis.is_some_and(|apis| apis.contains(api)) {
            problems.push(format!(
                "schema {schema:?}: `providers` has the API {api:?}, which `apis` does not list"
            ));
        }
        for provider in known {
            if provider.name.is_empty() || !provider.provider_type.contains(&*provider.name) {
                problems.push(format!(
                    "schema {schema:?}, API {api:?}: the short name {:?} is not part of the provider type {:?}",
                    provider.name, provider.provider_type
                ));
            }
        }
        let types: BTreeSet<_> = known
            .iter()
            .map(|provider| &provider.provider_type)
            .collect();
        if types.len() != known.len() {
            problems.push(format!(
                "schema {schema:?}, API {api:?}: a provider type is listed twice"
            ));
        }
    }
    problems
}

/// Whether `text` is a release such as `0.7`, `0.7.0` or `0.3.0rc4`.
fn is_release(text: &str) -> bool {
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    let end = text.find(|letter: char| letter != '.' && !letter.is_ascii_digit());
    let (version, suffix) = text.split_at(end.unwrap_or(text.len()));
    let numbers: Vec<&str> = version.split('.').collect();
    let mut stages = ["a", "b", "rc"].into_iter();
    (2..=3).contains(&numbers.len())
        && numbers.into_iter().all(is_number)
        && (suffix.is_empty()
            || stages.any(|stage| suffix.strip_prefix(stage).is_some_and(is_number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_and_pre_releases_are_valid_and_other_strings_are_not() {
        for valid in ["0.7", "0.7.0", "0.3.0rc4", "1.0b2"] {
            assert!(is_release(valid), "{valid}");
        }
        for invalid in [
            "one",
            "1",
            "0.7.",
            "0.7.0-rc4",
            "0.7.0rc",
            "v0.7",
            "1.2.3.4",
        ] {
            assert!(!is_release(invalid), "{invalid}");
        }
    }
}
