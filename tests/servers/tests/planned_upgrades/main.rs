//! The verdicts of `llsd upgrade plan`, judged by the real packages of the target releases.
#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod started;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use llsd_render::yaml;
use llsd_servers::{
    NEWEST_LLAMA_STACK, RELEASES, Release, ValidationReport, expect_accepted, render, root,
    upgrade_plan, validate,
};
use serde_json::{Value, json};

/// The releases to move to.
fn targets() -> [Release; 2] {
    [NEWEST_LLAMA_STACK, newest_ogx()]
}

fn newest_ogx() -> Release {
    let newest = RELEASES.iter().rfind(|one| one.schema.starts_with("ogx/"));
    *newest.unwrap()
}

fn plan(path: &Path, to: &str, options: &[&str]) -> Value {
    upgrade_plan(path, to, options).unwrap()
}

/// Writes the configurations of what can move, and returns their files.
fn ready(plan: &Value, folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for one in plan["resources"].as_array().unwrap() {
        let is_ready = ["ready", "readyWithWarnings"].contains(&one["verdict"].as_str().unwrap());
        if let (true, Some(config)) = (is_ready, one["config"].as_str()) {
            let place = files.len();
            let name = one["name"].as_str().unwrap();
            let file = folder.join(format!("{place}-{name}.yaml"));
            std::fs::write(&file, config).unwrap();
            files.push(file);
        }
    }
    files
}

/// The skeletons of bases that vendors ship, each with its dialect.
fn vendor_bases() -> Vec<Value> {
    let bases = root().join("plugins/dialects/tests/fixtures/vendor-bases.jsonl");
    let bases = std::fs::read_to_string(bases).unwrap();
    let cases = bases.lines().map(serde_json::from_str);
    cases.collect::<Result<_, _>>().unwrap()
}

/// Writes a resource on a vendor's base, with the ConfigMap of the base.
fn write_resource(folder: &Path, case: &Value, mut spec: Value) {
    let id = case["id"].as_str().unwrap();
    spec["distribution"]["schema"] = case["dialect"].clone();
    spec["distribution"]["baseConfig"] = json!({"configMapName": id});
    let documents = [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": id},
            "data": {"config.yaml": yaml::write(&case["base"])},
        }),
        json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": id}, "spec": spec,
        }),
    ];
    let text = documents.map(|one| yaml::write(&one)).join("---\n");
    std::fs::write(folder.join(format!("{id}.yaml")), text).unwrap();
}

/// Which checks fail, and where.
fn failures(report: &ValidationReport) -> BTreeSet<(String, String)> {
    let errors = report.errors();
    let pairs = errors
        .iter()
        .map(|one| (one.check.clone(), one.path.clone()));
    pairs.collect()
}

#[test]
fn samples_that_are_ready_are_accepted_by_the_release() {
    for release in targets() {
        let folder = tempfile::tempdir().unwrap();
        let base = release.starter().unwrap();
        let base = base.to_str().unwrap();
        let plan = plan(
            &root().join("samples"),
            release.schema,
            &["--to-base-config", base],
        );
        let files = ready(&plan, folder.path());
        assert!(files.len() > 8, "{plan:#}");
        expect_accepted(release, &files).unwrap();
    }
}

#[test]
fn a_sample_that_cannot_move_is_refused_by_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = targets();
    let sample = root().join("samples/full.yaml");
    let planned = plan(&sample, to.schema, &[]);
    assert_eq!(planned["resources"][0]["verdict"], "cannot");
    // The file of today, with the features that the plan calls lost.
    let report = render(
        &sample,
        &from.starter().unwrap(),
        &["--server-version", from.version()],
    );
    let file = folder.path().join("full.yaml");
    std::fs::write(&file, yaml::write(&report.unwrap().unwrap()["config"])).unwrap();
    let refused = validate(to, std::slice::from_ref(&file)).unwrap();
    let errors = format!("{:?}", refused[&file].errors());
    assert!(errors.contains("safety"), "{errors}");
}

#[test]
fn vendor_bases_that_fit_are_accepted_by_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let cases = vendor_bases();
    let input = folder.path().join("input");
    std::fs::create_dir(&input).unwrap();
    for case in &cases {
        let spec = json!({
            "distribution": {"name": "starter"},
            "providers": {"inference": {"id": "mine", "provider": "vllm", "endpoint": "http://vllm:8000"}},
            // The skeletons call every variable V.
            "workload": {"overrides": {"env": [{"name": "V", "value": "set"}]}},
        });
        write_resource(&input, case, spec);
    }
    for release in targets() {
        let output = folder.path().join(release.name);
        std::fs::create_dir(&output).unwrap();
        let plan = plan(&input, release.schema, &[]);
        assert_eq!(plan["resources"].as_array().unwrap().len(), cases.len());
        let files = ready(&plan, &output);
        assert!(!files.is_empty(), "{}", plan["summary"]);
        // A skeleton has placeholders, which its own release does not accept either. Each release is
        // started once, because importing it takes seconds.
        let mut alone: BTreeMap<&str, (Release, Vec<PathBuf>)> = BTreeMap::new();
        let mut bases = Vec::new();
        for file in &files {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let id = name.split_once('-').unwrap().1;
            let case = cases.iter().find(|case| case["id"] == id).unwrap();
            let own = RELEASES.iter().rfind(|one| case["dialect"] == one.schema);
            let own = *own.unwrap_or(&release);
            let base = output.join(format!("base-{name}.yaml"));
            std::fs::write(&base, yaml::write(&case["base"])).unwrap();
            let all = alone.entry(own.name).or_insert_with(|| (own, Vec::new()));
            all.1.push(base.clone());
            bases.push(base);
        }
        let mut before = BTreeMap::new();
        for (own, files) in alone.values() {
            before.extend(validate(*own, files).unwrap());
        }
        let accepted = validate(release, &files).unwrap();
        for (file, base) in files.iter().zip(&bases) {
            let old = failures(&before[base]);
            // The plan does not know which keys of a base the release ignores; docs/upgrades.md says so.
            let new: Vec<_> = failures(&accepted[file])
                .difference(&old)
                .filter(|(check, _)| check != "ignored")
                .cloned()
                .collect();
            assert!(new.is_empty(), "{}: {new:#?}", file.display());
        }
    }
}
