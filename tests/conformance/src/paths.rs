//! The field paths that a request carries.

use llsd_plugin::Request;
use serde_json::Value;

/// Parts of a resource that a request holds without saying where they stood.
const UNSAID: [&str; 3] = ["spec.storage", "spec.networking", "spec.workload"];

/// Every path that an answer to this request may begin with.
pub(crate) fn of(request: &Request) -> Vec<String> {
    let mut paths: Vec<String> = UNSAID.map(str::to_owned).to_vec();
    match request {
        Request::Describe | Request::Detect { .. } => {}
        Request::Expand(text) => paths.extend(read(&text.json).get("path").and_then(text_of)),
        Request::Assemble(text) => {
            let document = read(&text.json);
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
                    .filter_map(|entry| text_of(&entry["path"])),
            );
        }
    }
    paths
}

/// Whether a field is empty or at or below one of the paths.
pub(crate) fn covers(paths: &[String], field: &str) -> bool {
    field.is_empty()
        || paths.iter().any(|path| {
            field
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
}

fn read(json: &str) -> Value {
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

fn text_of(value: &Value) -> Option<String> {
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
            "spec.storage",
            "spec.networking",
            "spec.workload",
            "spec.providers.inference",
            "spec.resources.models[0]",
            "spec.disabled[0]",
            "spec.externalProviders.safety[1]",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn a_field_is_covered_by_a_path_that_it_is_at_or_below() {
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
