//! Hostile images and registries.

use serde_json::json;

use super::on_image;
use crate::image::Stored;
use crate::{Attack, Case, Image, Outcome};

/// New resources of one attack.
const MANY: usize = 40;

const WAITING: Outcome = Outcome::Condition(
    "ConfigGenerated",
    &["spec.distribution.image", "120 s", "registry"],
);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "40 new resources on a registry that never answers delay nobody",
            budget: "concurrent image reads of one namespace",
            attack: many("silent", |_| Image::Silent),
            outcome: WAITING,
        },
        Case {
            name: "40 new resources on a registry that sends a byte a second delay nobody",
            budget: "time of one image read",
            attack: many("dripping", |_| Image::Dripping),
            outcome: WAITING,
        },
        Case {
            name: "40 layers that arrive at a byte a second delay nobody",
            budget: "threads that search layers",
            attack: many("layers", |number| {
                let layer = archive(&[("config.yaml", &format!("version: {number}"))]);
                Image::DrippingLayer(Stored::with_layer(&layer))
            }),
            outcome: WAITING,
        },
        Case {
            name: "a manifest without end is cut off",
            budget: "bytes of a manifest",
            attack: one("endless", Image::Endless),
            outcome: Outcome::Condition(
                "ConfigGenerated",
                &[
                    "spec.distribution.image",
                    "1048576 bytes",
                    "make it smaller",
                ],
            ),
        },
        Case {
            name: "an image config with 8 MiB of labels is not kept",
            budget: "bytes of an image config",
            attack: one(
                "labels",
                Image::Stored(Stored::with_labels(json!({
                    "io.llamastack.config.schema": "llama-stack/0.7",
                    "filler": "x".repeat(9 << 20),
                }))),
            ),
            outcome: Outcome::Condition(
                "ConfigGenerated",
                &["spec.distribution.image", "bytes", "make it smaller"],
            ),
        },
        Case {
            name: "a layer that unpacks to gigabytes is cut off",
            budget: "bytes of an unpacked layer",
            attack: one("bomb", Image::Stored(Stored::with_layer(&bomb()))),
            outcome: Outcome::Condition("ConfigGenerated", &["spec.distribution.image", "layer"]),
        },
    ]
}

/// One resource. The operator caches tags, so that each case needs a repository of its own.
fn one(repository: &str, image: Image) -> Attack {
    Attack::Serve {
        images: vec![(repository.to_owned(), image)],
        resources: vec![on_image("hostile", repository)],
    }
}

/// Many resources, each with an image of its own.
fn many(repository: &str, image: impl Fn(usize) -> Image) -> Attack {
    let repository = |number: usize| format!("{repository}/{number}");
    Attack::Serve {
        images: (0..MANY)
            .map(|number| (repository(number), image(number)))
            .collect(),
        resources: (0..MANY)
            .map(|number| on_image(&format!("hostile-{number}"), &repository(number)))
            .collect(),
    }
}

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len().try_into().unwrap());
        archive
            .append_data(&mut header, path, text.as_bytes())
            .unwrap();
    }
    archive.into_inner().unwrap()
}

/// One file of 64 MiB of zeros before the configuration, which is larger than its limit.
fn bomb() -> Vec<u8> {
    let zeros = "0".repeat(64 << 20);
    archive(&[("filler", &zeros), ("config.yaml", &zeros)])
}
