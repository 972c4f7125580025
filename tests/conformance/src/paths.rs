//! The field paths that a request carries.

use llsd_plugin::Request;
use serde_json::Value;

/// Parts of a resource that a request carries without their paths.
const WITHOUT_PATH: [&str; 4] = [
    "spec.access",
    "spec.networking",
    "spec.storage",
    "spec.workload",
];

/// Every path that the field of a diagnostic about this request may start with.
pub(crate) fn of(request: &Request) -> Vec<String> {
    let mut paths: Vec<String> = WITHOUT_PATH.map(str::to_owned).to_vec();
    match request {
        Request::Describe | Request::Detect { .. } => {}
        Request::Expand(text) => paths.extend(parse(&text.json).get("path").and_then(string)),
        Request::Assemble(text) => {
            let document = parse(&text.json);
            let provided = members(&document["providers"])
                .into_iter()
                .flat_map(entries);
            let resources = members(&document["resources"])
                .into_iter()
                .flat_map(entries);
            let rest = ["disabled", "external"]
                .into_iter()
                .flat_map(|key| entries(&document[key]));
            paths.extend(
                provided
                    .chain(resources)
                    .chain(rest)
                    .filter_map(|entry| string(&entry["path"])),
            );
        }
    }
    paths
}

/// Whether a field is empty, or equal to or below one of the paths.
pub(crate) fn covers(paths: &[String], field: &str) -> bool {
    field.is_empty()
        || paths.iter().any(|path| {
            field
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn members(value: &Value) -> Vec<&Value> {
    value
        .as_object()
        .map(|object| object.values().collect())
        .unwrap_or_default()
}

fn entries(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_carries_the_paths_of_all_its_entries() {
        let document = json!({
            "providers": { "inference": [{ "path": "spec.providers.inference" }] },
            "resources": { "models": [{ "path": "spec.resources.models[0]" }] },
            "disabled": [{ "path": "spec.disabled[0]" }],
            "external": [{ "path": "spec.externalProviders.safety[1]" }],
            "base": { "providers": [{ "path": "not.mine" }] },
        });
        let paths = of(&Request::from_json("assemble", &document).unwrap());
        let expected = [
            "spec.access",
            "spec.networking",
            "spec.storage",
            "spec.workload",
            "spec.providers.inference",
            "spec.resources.models[0]",
            "spec.disabled[0]",
            "spec.externalProviders.safety[1]",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn a_path_covers_itself_and_the_fields_below_it() {
        let paths = ["spec.providers.inference[1]".to_owned()];
        for field in [
            "",
            "spec.providers.inference[1]",
            "spec.providers.inference[1].endpoint",
            "spec.providers.inference[1][0]",
        ] {
            assert!(covers(&paths, field), "{field}");
        }
        for field in [
            "spec",
            "spec.providers.inference[10]",
            "spec.providers.inference[1]x",
            "metadata.name",
        ] {
            assert!(!covers(&paths, field), "{field}");
        }
    }
}
