//! Every configuration that the releases ship: recognised, extended without a new error, kept whole.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use llsd_render::yaml;
use llsd_servers::{Finding, RELEASES, Release, judge, render, root};
use serde_json::Value;

fn shipped_files_survive_in(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let minimal = root().join("samples/minimal.yaml");
    let shipped = release.shipped().unwrap();
    assert!(
        shipped.len() >= 8,
        "{} ships {} files",
        release.name,
        shipped.len()
    );
    let mut pairs = Vec::new();
    for (index, base) in shipped.iter().enumerate() {
        // Without a hint the base is recognised, or the question names the right answer.
        let answer = render(&minimal, base, &[]).unwrap();
        let report = match answer {
            Ok(report) => {
                assert_eq!(report["schema"], release.schema, "{}", base.display());
                report
            }
            Err(talk) => {
                assert!(
                    talk.contains("could be written in any of"),
                    "{}: {talk}",
                    base.display()
                );
                assert!(talk.contains(release.schema), "{}: {talk}", base.display());
                render(&minimal, base, &["--schema", release.schema])
                    .unwrap()
                    .unwrap_or_else(|talk| panic!("{}: {talk}", base.display()))
            }
        };
        nothing_is_lost(base, &report["config"]);
        let file = folder.path().join(format!("{index}.yaml"));
        std::fs::write(&file, yaml::write(&report["config"])).unwrap();
        pairs.push((base.clone(), file));
    }
    let all: Vec<_> = pairs
        .iter()
        .flat_map(|(base, file)| [base.clone(), file.clone()])
        .collect();
    let verdicts = judge(release, &all).unwrap();
    for (base, file) in &pairs {
        let own: BTreeSet<&Finding> = verdicts[base].errors().into_iter().collect();
        let added: Vec<_> = verdicts[file]
            .errors()
            .into_iter()
            .filter(|error| !own.contains(error))
            .collect();
        assert!(added.is_empty(), "{}: {added:#?}", base.display());
    }
}

/// Everything of the base is in the result, except the provider that the resource replaces.
fn nothing_is_lost(base: &Path, result: &Value) {
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

/// The resource's provider has the id `vllm`, also inside `${env.VLLM_URL:+vllm}`.
fn is_replaced(path: &str, item: &Value) -> bool {
    let id = item["provider_id"].as_str().unwrap_or_default();
    path == ".providers.inference" && (id == "vllm" || id.ends_with("+vllm}"))
}

macro_rules! releases {
    ($($name:ident: $index:literal),+) => {
        $(#[test]
        fn $name() {
            shipped_files_survive_in(RELEASES[$index]);
        })+
    };
}

releases! {
    shipped_files_survive_in_0_2_12: 0,
    shipped_files_survive_in_0_2_24: 1,
    shipped_files_survive_in_0_3_5: 2,
    shipped_files_survive_in_0_4_7: 3,
    shipped_files_survive_in_0_5_4: 4,
    shipped_files_survive_in_0_6_1: 5,
    shipped_files_survive_in_0_7_3: 6,
    shipped_files_survive_in_ogx_1_5_0: 7
}

#[test]
fn one_hundred_and_thirteen_files_are_looked_at() {
    let files: usize = RELEASES
        .iter()
        .map(|release| release.shipped().unwrap().len())
        .sum();
    assert_eq!(files, 113);
}
