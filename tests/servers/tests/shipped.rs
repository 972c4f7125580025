//! Every configuration that the releases ship is recognised, extended without new errors, and otherwise
//! unchanged.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::collections::BTreeSet;
use std::path::Path;

use llsd_render::yaml;
use llsd_servers::{
    Finding, RELEASES, Release, render, root, test_each_release, validate, with_needed_variables,
};
use serde_json::Value;

/// The shipped files that two dialects read alike, so that the dialect is a question: 0.7 and ogx 0.8,
/// which the rule `what_two_dialects_read_alike_is_generated_alike` of the adapters shows.
const READ_ALIKE: [&str; 1] = ["0.7.3/postgres-demo/config.yaml"];

fn shipped_files_survive_in(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let sample = root().join("samples/minimal.yaml");
    let minimal = folder.path().join("resource.yaml");
    let shipped = release.shipped().unwrap();
    assert!(
        shipped.len() >= 8,
        "{} ships {} files",
        release.name,
        shipped.len()
    );
    let mut pairs = Vec::new();
    for (index, base) in shipped.iter().enumerate() {
        std::fs::write(&minimal, with_needed_variables(&sample, base).unwrap()).unwrap();
        // Without hints the dialect is detected, or the error lists the right one.
        let rendered = render(&minimal, base, &[]).unwrap();
        let report = match rendered {
            Ok(report) => {
                assert_eq!(report["schema"], release.schema, "{}", base.display());
                report
            }
            Err(stderr) => {
                assert!(
                    READ_ALIKE.iter().any(|file| base.ends_with(file)),
                    "{} was recognised before: {stderr}",
                    base.display()
                );
                assert!(
                    stderr.contains("matches several schemas"),
                    "{}: {stderr}",
                    base.display()
                );
                assert!(
                    stderr.contains(release.schema),
                    "{}: {stderr}",
                    base.display()
                );
                render(&minimal, base, &["--schema", release.schema])
                    .unwrap()
                    .unwrap_or_else(|stderr| panic!("{}: {stderr}", base.display()))
            }
        };
        assert_nothing_lost(base, &report["config"]);
        let file = folder.path().join(format!("{index}.yaml"));
        std::fs::write(&file, yaml::write(&report["config"])).unwrap();
        pairs.push((base.clone(), file));
    }
    let all: Vec<_> = pairs
        .iter()
        .flat_map(|(base, file)| [base.clone(), file.clone()])
        .collect();
    let reports = validate(release, &all).unwrap();
    for (base, file) in &pairs {
        let own: BTreeSet<&Finding> = reports[base].errors().into_iter().collect();
        let added: Vec<_> = reports[file]
            .errors()
            .into_iter()
            .filter(|error| !own.contains(error))
            .collect();
        assert!(added.is_empty(), "{}: {added:#?}", base.display());
    }
}

/// Asserts that the result contains everything of the base, except the provider that the resource replaces.
fn assert_nothing_lost(base: &Path, result: &Value) {
    let before = yaml::read(&std::fs::read_to_string(base).unwrap()).unwrap();
    let mut lost = Vec::new();
    compare("", &before, result, &mut lost);
    assert!(lost.is_empty(), "{} lost {lost:#?}", base.display());
}

fn compare(path: &str, before: &Value, after: &Value, lost: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                match after.get(key) {
                    Some(other) => compare(&format!("{path}.{key}"), value, other, lost),
                    None => lost.push(format!("{path}.{key}")),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for item in before.iter().filter(|item| !is_replaced(path, item)) {
                if !after.contains(item) {
                    lost.push(format!("{path}: {item}"));
                }
            }
        }
        (before, after) if before == after => {}
        _ => lost.push(format!("{path}: {before} became {after}")),
    }
}

/// Whether the resource replaces a provider: its id is `vllm`, or `${env.VLLM_URL:+vllm}`.
fn is_replaced(path: &str, item: &Value) -> bool {
    let id = item["provider_id"].as_str().unwrap_or_default();
    path == ".providers.inference" && (id == "vllm" || id.ends_with("+vllm}"))
}

test_each_release!(shipped_files_survive_in);

#[test]
fn all_one_hundred_and_thirteen_shipped_files_are_checked() {
    let files: usize = RELEASES
        .iter()
        .map(|release| release.shipped().unwrap().len())
        .sum();
    assert_eq!(files, 113);
}
