//! The distributions that a resource can refer to by name.
//!
//! The map is built in. The operator's ConfigMap can override and extend it. Its base configurations
//! are used for images without configuration labels.

pub mod settings;

use std::collections::BTreeMap;

/// A named distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDistribution {
    /// The server image.
    pub image: String,
    /// The schema of its configuration, if known.
    pub schema: Option<String>,
    /// Its base configuration as YAML, if the operator has one.
    pub base: Option<String>,
    /// The numeric user of the image, if known.
    pub user: Option<u32>,
}

/// A published set of images, which has one release.
struct Published {
    /// Put before the name of an image, so that the names of two products differ.
    prefix: &'static str,
    repository: &'static str,
    release: &'static str,
    schema: &'static str,
    /// The numeric user of the images, if known.
    user: Option<u32>,
    /// The images, and their base configurations if the operator has one.
    images: [(&'static str, Option<&'static str>); 4],
}

/// The sets of images, each in the last release that was seen under its names.
const PUBLISHED: [Published; 2] = [
    Published {
        prefix: "",
        repository: "docker.io/llamastack/distribution-",
        release: "0.7.1",
        schema: "llama-stack/0.7",
        // The published images set no user, so they run as root.
        user: Some(0),
        images: [
            (
                "starter",
                Some(include_str!("../distributions/starter.yaml")),
            ),
            (
                "remote-vllm",
                Some(include_str!("../distributions/remote-vllm.yaml")),
            ),
            (
                "postgres-demo",
                Some(include_str!("../distributions/postgres-demo.yaml")),
            ),
            ("meta-reference-gpu", None),
        ],
    },
    Published {
        prefix: "ogx-",
        repository: "docker.io/ogxai/distribution-",
        release: "1.3.0",
        schema: "ogx/1.0",
        // They set no user, either.
        user: Some(0),
        images: [
            // The images have labels with their configuration.
            ("starter", None),
            ("remote-vllm", None),
            ("postgres-demo", None),
            ("meta-reference-gpu", None),
        ],
    },
];

/// The configuration in the labels of a published image, by the name of its distribution, for tools
/// that plan without a registry. The operator reads the labels instead.
pub fn labelled_base(name: &str) -> Option<&'static str> {
    match name {
        "ogx-starter" => Some(include_str!("../distributions/ogx-starter.yaml")),
        "ogx-postgres-demo" => Some(include_str!("../distributions/ogx-postgres-demo.yaml")),
        _ => None,
    }
}

/// The built-in distributions.
pub fn builtin() -> BTreeMap<String, KnownDistribution> {
    PUBLISHED.iter().flat_map(named).collect()
}

fn named(set: &Published) -> impl Iterator<Item = (String, KnownDistribution)> {
    let &Published {
        prefix,
        repository,
        release,
        schema,
        user,
        images,
    } = set;
    images.into_iter().map(move |(name, base)| {
        let known = KnownDistribution {
            image: format!("{repository}{name}:{release}"),
            schema: Some(schema.to_owned()),
            base: base.map(str::to_owned),
            user,
        };
        (format!("{prefix}{name}"), known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_of_both_products_have_names() {
        let all = builtin();
        assert_eq!(all.len(), 8);
        let starter = &all["starter"];
        assert_eq!(
            starter.image,
            "docker.io/llamastack/distribution-starter:0.7.1"
        );
        assert_eq!(starter.user, Some(0));
        let ogx = &all["ogx-starter"];
        assert_eq!(ogx.image, "docker.io/ogxai/distribution-starter:1.3.0");
        assert_eq!(ogx.schema.as_deref(), Some("ogx/1.0"));
        assert_eq!(
            (ogx.user, &ogx.base),
            (Some(0), &None),
            "its labels are read"
        );
        let labelled = labelled_base("ogx-starter").unwrap();
        assert!(crate::yaml::read(labelled).is_ok());
    }
}
