//! APIs that must be served for a provider to start.
//!
//! The server refuses to start without one, so this is the last look at the whole file.

use std::collections::{BTreeMap, BTreeSet};

use super::base::{Origin, Stack};
use crate::env::Id;

/// Who needs an API that is not served.
#[derive(Default)]
struct Missing {
    /// Providers of the base, as `api/id`, per API.
    base: BTreeMap<String, BTreeSet<String>>,
}

/// Reports every provider that needs what is not there: to who left it out, who asked for the
/// provider, or who made the base.
pub(super) fn check(stack: &mut Stack) {
    let mut missing: BTreeMap<&'static str, Missing> = BTreeMap::new();
    let mut asked = Vec::new();
    for (api, entries) in stack.apis_with_providers() {
        if !stack.serves(api) {
            continue;
        }
        for entry in entries {
            let (Some(known), id) = (stack.known(api, entry), entry.id()) else {
                continue;
            };
            let Some(name) = id.name() else { continue };
            for needed in known.needs().filter(|needed| !stack.serves(needed)) {
                let is_left_out = stack.gone.contains_key(needed);
                match (entry.origin.path(), id) {
                    (Some(path), _) if !is_left_out => {
                        asked.push((path.to_owned(), known.provider_type, needed))
                    }
                    // What a condition switches on is not the base's problem by default.
                    (None, Id::When { .. }) if !is_left_out => {}
                    _ => {
                        let users = &mut missing.entry(needed).or_default().base;
                        users
                            .entry(api.to_owned())
                            .or_default()
                            .insert(name.to_owned());
                    }
                }
            }
        }
    }
    for (path, provider_type, needed) in asked {
        stack.notes.error(
            "missing-api",
            path,
            format!("{provider_type} does not start without the API {needed:?}, which the base does not serve"),
            format!("add a provider under spec.providers.{}", camel_case(needed)),
        );
    }
    for (needed, Missing { base }) in missing {
        let users: Vec<String> = base
            .iter()
            .map(|(api, ids)| {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                format!("{api} ({})", ids.join(", "))
            })
            .collect();
        match stack.gone.get(needed).cloned() {
            Some(path) => {
                let fix = also_disable(stack, needed).join(", ");
                stack.notes.error(
                    "needed-api",
                    path,
                    format!("the server does not start without {needed:?}, because it is needed by: {}", users.join("; ")),
                    format!("keep it, or also disable: {fix}"),
                );
            }
            None => stack.notes.warning(
                "base-missing-api",
                "",
                format!("the base configuration does not serve {needed:?}, which it needs for: {}", users.join("; ")),
                format!("mend the base, or add a provider under spec.providers.{}: the server does not start like this", camel_case(needed)),
            ),
        }
    }
}

/// Everything that must go too when an API goes: whole APIs where all their providers need it,
/// single providers otherwise.
fn also_disable(stack: &Stack, gone: &str) -> Vec<String> {
    let mut apis: BTreeSet<&str> = BTreeSet::from([gone]);
    let mut names = BTreeSet::new();
    loop {
        let before = (apis.len(), names.len());
        for (api, entries) in stack.apis_with_providers() {
            if apis.contains(api) || !stack.serves(api) {
                continue;
            }
            let needy: Vec<&str> = entries
                .iter()
                .filter(|entry| !matches!(entry.origin, Origin::External(_)))
                .filter(|entry| {
                    stack
                        .known(api, entry)
                        .is_some_and(|known| known.needs().any(|needed| apis.contains(needed)))
                })
                .filter_map(|entry| entry.id().name())
                .collect();
            if needy.len() == entries.len() {
                apis.insert(api);
            } else {
                names.extend(needy.iter().map(|id| format!("{}/{id}", camel_case(api))));
            }
        }
        if (apis.len(), names.len()) == before {
            break;
        }
    }
    apis.remove(gone);
    names.retain(|name| {
        !apis
            .iter()
            .any(|api| name.starts_with(&format!("{}/", camel_case(api))))
    });
    apis.into_iter().map(camel_case).chain(names).collect()
}

/// `vector_io` as the resource spells it.
fn camel_case(api: &str) -> String {
    let mut out = String::with_capacity(api.len());
    let mut upper = false;
    for c in api.chars() {
        if c == '_' {
            upper = true;
        } else if std::mem::take(&mut upper) {
            out.push(c.to_ascii_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}
