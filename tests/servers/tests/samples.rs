//! Every release accepts the configurations generated from the samples on its starter configuration.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::{Path, PathBuf};

use llsd_render::yaml;
use llsd_servers::{
    NEWEST_LLAMA_STACK, Release, expect_accepted, render, samples, test_each_release,
};

/// Samples that releases do not support: the start of their schema, sample, and the field that must be named.
const REJECTED: [(&str, &str, &str); 8] = [
    ("ogx/", "full", "spec.providers.safety"),
    ("llama-stack/0.1.3", "access", "spec.access"),
    ("llama-stack/0.2.13", "access", "spec.access"),
    (
        "llama-stack/0.1.3",
        "vector-stores",
        "spec.resources.defaults",
    ),
    (
        "llama-stack/0.2.13",
        "vector-stores",
        "spec.resources.defaults",
    ),
    (
        "llama-stack/0.3",
        "vector-stores",
        "spec.resources.vectorStores[0]",
    ),
    ("ogx/", "evaluation", "spec.providers.datasetIo"),
    ("llama-stack/", "mongodb-state", "spec.storage.kv.type"),
];

fn samples_are_accepted_by(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let base = release.starter().unwrap();
    let mut generated = Vec::new();
    for sample in samples().unwrap() {
        let name = sample.file_stem().unwrap().to_str().unwrap();
        let sample = with_names_of(release, &sample, folder.path());
        let rendered = render(&sample, &base, &["--server-version", release.version()]).unwrap();
        let rejected = REJECTED
            .iter()
            .find(|(schemas, sample, _)| release.schema.starts_with(schemas) && *sample == name);
        match (rendered, rejected) {
            (Ok(report), None) => {
                assert_eq!(report["schema"], release.schema, "{name}");
                let file = folder.path().join(format!("{name}.yaml"));
                std::fs::write(&file, yaml::write(&report["config"])).unwrap();
                generated.push(file);
            }
            (Err(stderr), Some((_, _, field))) => {
                assert!(stderr.contains(field), "{name}: {stderr}");
            }
            (Ok(_), Some(_)) => panic!("{name} must be rejected"),
            (Err(stderr), None) => panic!("{name} was rejected: {stderr}"),
        }
    }
    assert!(!generated.is_empty());
    expect_accepted(release, &generated).unwrap();
}

test_each_release!(samples_are_accepted_by);

/// A sample, or a copy that calls providers as the release does.
fn with_names_of(release: Release, sample: &Path, folder: &Path) -> PathBuf {
    let is_evaluation = sample.file_stem().is_some_and(|name| name == "evaluation");
    let is_old = release.schema.starts_with("llama-stack/") && release.schema != "llama-stack/0.7";
    if !is_evaluation || !is_old {
        return sample.to_owned();
    }
    let text = std::fs::read_to_string(sample).unwrap();
    let copy = folder.join("evaluation-sample.yaml");
    std::fs::write(
        &copy,
        text.replace("provider: builtin", "provider: meta-reference"),
    )
    .unwrap();
    copy
}

#[test]
fn the_built_in_base_configurations_are_accepted_by_their_release() {
    let release = NEWEST_LLAMA_STACK;
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (name, known) in llsd_render::distributions::builtin() {
        let Some(base) = known.base else { continue };
        assert_eq!(known.schema.as_deref(), Some(release.schema));
        let file = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, base).unwrap();
        files.push(file);
    }
    expect_accepted(release, &files).unwrap();
}
