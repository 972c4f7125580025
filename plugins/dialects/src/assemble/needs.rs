//! Checks that the APIs which providers require are served.
//!
//! The server does not start without them, so the whole file is checked last.

use super::base::Stack;
use crate::env::Id;
use crate::names::insert_sorted;

/// Reports every provider that requires a missing API: at the path that disables the API, at the path
/// of the provider, or as a warning about the base.
pub(super) fn check(stack: &mut Stack) {
    // (required API, API, id) of providers that are not at a path of the resource.
    let mut unmet: Vec<(&'static str, String, String)> = Vec::new();
    let mut asked = Vec::new();
    for (api, entries) in stack
        .apis_with_providers()
        .filter(|(api, _)| stack.serves(api))
    {
        for entry in entries {
            let (Some(known), id) = (stack.known(api, entry), entry.id()) else {
                continue;
            };
            let Some(name) = id.name() else { continue };
            for needed in known.needs().filter(|needed| !stack.serves(needed)) {
                match (stack.disabled_at(needed), entry.origin.path(), id) {
                    (None, Some(path), _) => {
                        asked.push((path.to_owned(), known.provider_type, needed))
                    }
                    // A conditional provider is off by default, so it is not a problem of the base.
                    (None, None, Id::When { .. }) => {}
                    _ => insert_sorted(&mut unmet, (needed, api.to_owned(), name.to_owned())),
                }
            }
        }
    }
    for (path, provider_type, needed) in asked {
        stack.diagnostics.error(
            "missing-api",
            path,
            format!("{provider_type} does not start without the API {needed:?}, which the base does not serve"),
            format!("add a provider under spec.providers.{}", camel_case(needed)),
        );
    }
    for group in unmet.chunk_by(|a, b| a.0 == b.0) {
        let Some((needed, _, _)) = group.first() else {
            continue;
        };
        let users: Vec<String> = group
            .iter()
            .map(|(_, api, id)| format!("{}/{id}", camel_case(api)))
            .collect();
        let users = users.join(", ");
        match stack.disabled_at(needed).map(str::to_owned) {
            Some(path) => {
                let fix = also_disable(stack, needed).join(", ");
                stack.diagnostics.error(
                    "needed-api",
                    path,
                    format!("the server does not start without {needed:?}, which is needed by: {users}"),
                    format!("keep it, or also disable: {fix}"),
                );
            }
            None => stack.diagnostics.warning(
                "base-missing-api",
                "",
                format!("the base configuration does not serve {needed:?}, so the server does not start; it is needed by: {users}"),
                format!("fix the base configuration, or add a provider under spec.providers.{}", camel_case(needed)),
            ),
        }
    }
}

/// Everything that must be disabled along with an API: whole APIs if all their providers need it,
/// single providers otherwise.
fn also_disable(stack: &Stack, gone: &str) -> Vec<String> {
    let mut apis = vec![gone];
    let mut single: Vec<(&str, &str)> = Vec::new();
    loop {
        let before = (apis.len(), single.len());
        for (api, entries) in stack.apis_with_providers() {
            if apis.contains(&api) || !stack.serves(api) {
                continue;
            }
            let needy: Vec<&str> = entries
                .iter()
                .filter(|entry| {
                    stack
                        .known(api, entry)
                        .is_some_and(|known| known.needs().any(|needed| apis.contains(&needed)))
                })
                .filter_map(|entry| entry.id().name())
                .collect();
            if needy.len() == entries.len() {
                apis.push(api);
            } else {
                needy
                    .into_iter()
                    .for_each(|id| insert_sorted(&mut single, (api, id)));
            }
        }
        if (apis.len(), single.len()) == before {
            break;
        }
    }
    single.retain(|(api, _)| !apis.contains(api));
    let whole = apis.into_iter().skip(1).map(camel_case);
    whole
        .chain(
            single
                .into_iter()
                .map(|(api, id)| format!("{}/{id}", camel_case(api))),
        )
        .collect()
}

/// `vector_io` as the resource spells it.
fn camel_case(api: &str) -> String {
    // The server writes these as one word, the resource as two.
    let api = if api == "datasetio" {
        "dataset_io"
    } else {
        api
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_named_as_the_resource_spells_it() {
        for (api, field) in [
            ("vector_io", "vectorIo"),
            ("datasetio", "datasetIo"),
            ("eval", "eval"),
        ] {
            assert_eq!(camel_case(api), field);
        }
    }
}
