//! The release to move to, and the edit of `spec.distribution` that moves a resource there.

use llsd_render::distributions::KnownDistribution;
use serde_json::Value;

use crate::yaml_edit::Edit;

/// Distributions of the renamed product have this prefix in our list of names.
const RENAMED_PREFIX: &str = "ogx-";
/// Repositories of the published images, up to the name of the distribution.
const PUBLISHED: [&str; 2] = ["llamastack/distribution-", "ogxai/distribution-"];

/// The release to move to.
pub(crate) struct Target<'a> {
    /// The dialect of the release.
    pub(crate) schema: &'a str,
    /// The image of `--to`, if it is one.
    pub(crate) image: Option<&'a str>,
}

/// How a resource gets to the release.
#[derive(Debug, PartialEq)]
pub(crate) enum Movement {
    /// Its distribution has the release already.
    Stays,
    /// Edits of `spec.distribution`, and the named distribution whose image it then runs.
    Edits {
        edits: Vec<Edit>,
        distribution: Option<String>,
    },
    /// It runs an image of its own, and no image of the release is known.
    OwnImage,
}

/// The move of a v1alpha2 resource. `present` is the dialect of its server today, if known.
pub(crate) fn movement<'k>(
    resource: &Value,
    present: Option<&str>,
    target: &Target<'_>,
    known: impl Iterator<Item = (&'k str, &'k KnownDistribution)> + Clone,
) -> Movement {
    let distribution = &resource["spec"]["distribution"];
    let at = |field: &str| ["spec", "distribution", field].map(str::to_owned).to_vec();
    let mut edits = Vec::new();
    if let Some(stated) = distribution["schema"].as_str()
        && stated != target.schema
    {
        edits.push(Edit::set(at("schema"), target.schema));
    }
    let name = distribution["name"].as_str();
    let image = distribution["image"].as_str();
    if let Some(to) = target.image {
        match (name, image) {
            (Some(_), _) => edits.push(Edit::replace(at("name"), "image", to)),
            (None, Some(from)) if from != to => edits.push(Edit::set(at("image"), to)),
            _ => {}
        }
        return Movement::of(edits, None);
    }
    let flavour = match (name, image) {
        (Some(name), _) => name.trim_start_matches(RENAMED_PREFIX),
        (None, image) => image.and_then(published).unwrap_or_default(),
    };
    let is_there = |known: &KnownDistribution| known.schema.as_deref() == Some(target.schema);
    let own = name.and_then(|name| known.clone().find(|(other, _)| *other == name));
    if own.is_some_and(|(_, known)| is_there(known)) {
        return Movement::of(edits, name.map(str::to_owned));
    }
    let same_flavour = |(name, known): &(&str, &KnownDistribution)| {
        !flavour.is_empty() && name.trim_start_matches(RENAMED_PREFIX) == flavour && is_there(known)
    };
    match known.clone().find(same_flavour) {
        Some((to, _)) if name.is_some() => {
            edits.push(Edit::set(at("name"), to));
            Movement::of(edits, Some(to.to_owned()))
        }
        Some((to, known)) => {
            if image != Some(known.image.as_str()) {
                edits.push(Edit::set(at("image"), &known.image));
            }
            Movement::of(edits, Some(to.to_owned()))
        }
        None if present == Some(target.schema) => Movement::of(edits, None),
        None => Movement::OwnImage,
    }
}

impl Movement {
    fn of(edits: Vec<Edit>, distribution: Option<String>) -> Self {
        if edits.is_empty() {
            Self::Stays
        } else {
            Self::Edits {
                edits,
                distribution,
            }
        }
    }
}

/// The name of the distribution in the reference of a published image.
fn published(image: &str) -> Option<&str> {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let rest = PUBLISHED
        .iter()
        .find_map(|prefix| image.rsplit_once(prefix))?
        .1;
    let name = rest.split_once(':').map_or(rest, |(name, _)| name);
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Provider types that a later release calls by another name: API, old type, new type.
const RENAMED_TYPES: [(&str, &str, &str); 2] = [
    ("agents", "inline::meta-reference", "inline::builtin"),
    ("toolRuntime", "inline::rag-runtime", "inline::file-search"),
];

/// The edits of provider types that only have another name in the release. `has` says whether the
/// release has a type of an API.
pub(crate) fn renamed_types(resource: &Value, has: &dyn Fn(&str, &str) -> bool) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (api, old, new) in RENAMED_TYPES {
        let entries = &resource["spec"]["providers"][api];
        let mut visit = |entry: &Value, mut path: Vec<String>| {
            if entry["provider"] == old && !has(api, old) && has(api, new) {
                path.push("provider".to_owned());
                edits.push(Edit::set(path, new));
            }
        };
        let path = || ["spec", "providers", api].map(str::to_owned).to_vec();
        match entries {
            Value::Array(list) => {
                for (place, entry) in list.iter().enumerate() {
                    let mut path = path();
                    path.push(place.to_string());
                    visit(entry, path);
                }
            }
            one => visit(one, path()),
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use llsd_render::distributions::builtin;
    use serde_json::json;

    use super::*;

    fn moved(distribution: Value, present: Option<&str>, target: &Target<'_>) -> Movement {
        let known = builtin();
        let known = known.iter().map(|(name, known)| (name.as_str(), known));
        movement(
            &json!({"spec": {"distribution": distribution}}),
            present,
            target,
            known,
        )
    }

    fn schema(schema: &str) -> Target<'_> {
        Target {
            schema,
            image: None,
        }
    }

    fn set(field: &str, value: &str) -> Edit {
        Edit::set(
            ["spec", "distribution", field].map(str::to_owned).to_vec(),
            value,
        )
    }

    #[test]
    fn a_named_distribution_moves_to_the_one_of_the_other_product() {
        let there = moved(
            json!({"name": "starter"}),
            Some("llama-stack/0.7"),
            &schema("ogx/1.0"),
        );
        let expected = Movement::Edits {
            edits: vec![set("name", "ogx-starter")],
            distribution: Some("ogx-starter".to_owned()),
        };
        assert_eq!(there, expected);
        let stays = moved(
            json!({"name": "starter"}),
            Some("llama-stack/0.7"),
            &schema("llama-stack/0.7"),
        );
        assert_eq!(stays, Movement::Stays);
    }

    #[test]
    fn a_published_image_moves_and_an_own_image_does_not() {
        let image = "docker.io/llamastack/distribution-starter:0.2.12";
        let there = moved(
            json!({"image": image, "schema": "llama-stack/0.1.3"}),
            None,
            &schema("llama-stack/0.7"),
        );
        let expected = Movement::Edits {
            edits: vec![
                set("schema", "llama-stack/0.7"),
                set("image", "docker.io/llamastack/distribution-starter:0.7.1"),
            ],
            distribution: Some("starter".to_owned()),
        };
        assert_eq!(there, expected);
        let own = json!({"image": "quay.io/acme/stack:1"});
        assert_eq!(
            moved(own.clone(), Some("llama-stack/0.5"), &schema("ogx/1.0")),
            Movement::OwnImage
        );
        assert_eq!(
            moved(own, Some("ogx/1.0"), &schema("ogx/1.0")),
            Movement::Stays
        );
        assert_eq!(
            moved(json!({"name": "starter"}), None, &schema("llama-stack/0.5")),
            Movement::OwnImage
        );
    }

    #[test]
    fn an_image_given_replaces_name_or_image() {
        let target = Target {
            schema: "ogx/1.0",
            image: Some("quay.io/acme/ogx:1.3"),
        };
        let at = ["spec", "distribution", "name"].map(str::to_owned).to_vec();
        let expected = Movement::Edits {
            edits: vec![Edit::replace(at, "image", "quay.io/acme/ogx:1.3")],
            distribution: None,
        };
        assert_eq!(moved(json!({"name": "starter"}), None, &target), expected);
        assert_eq!(
            moved(json!({"image": "quay.io/acme/ogx:1.3"}), None, &target),
            Movement::Stays
        );
    }

    #[test]
    fn a_provider_type_with_a_new_name_is_renamed_where_the_release_has_it() {
        let resource = json!({"spec": {"providers": {
            "agents": {"provider": "inline::meta-reference"},
            "toolRuntime": [{"id": "a", "provider": "remote::brave-search"}, {"id": "b", "provider": "inline::rag-runtime"}],
        }}});
        let new = |_: &str, name: &str| {
            !["inline::meta-reference", "inline::rag-runtime"].contains(&name)
        };
        let edits = renamed_types(&resource, &new);
        let paths: Vec<String> = edits.iter().map(Edit::field).collect();
        assert_eq!(
            paths,
            [
                "spec.providers.agents.provider",
                "spec.providers.toolRuntime[1].provider"
            ]
        );
        assert!(renamed_types(&resource, &|_, _| true).is_empty());
    }
}
