//! The workflows of the repository are valid, and call `cargo xtask` and nothing else.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::PathBuf;
use std::process::Command;

use llsd_install::checkout;
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use serde_json::Value;

fn workflows() -> Vec<PathBuf> {
    let folder = checkout().join(".github/workflows");
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn parse(path: &PathBuf) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The steps of all jobs of a workflow.
fn steps(workflow: &Value) -> Vec<Value> {
    let jobs = workflow["jobs"].as_object().unwrap();
    let steps = jobs
        .values()
        .flat_map(|job| job["steps"].as_array().unwrap());
    steps.cloned().collect()
}

#[test]
fn actionlint_finds_no_problem_in_the_workflows() {
    let actionlint = ensure_built(&cache_dir().unwrap(), &[Tool::Actionlint]).unwrap();
    let output = Command::new(&actionlint[0])
        // Other programs of this machine must not change the result.
        .args(["-no-color", "-shellcheck=", "-pyflakes="])
        .args(workflows())
        .current_dir(checkout())
        .output()
        .unwrap();
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{found}");
}

#[test]
fn every_command_of_a_workflow_is_one_call_of_xtask() {
    let mut commands = 0;
    for path in workflows() {
        for step in steps(&parse(&path)) {
            let Some(command) = step["run"].as_str() else {
                continue;
            };
            commands += 1;
            let at = format!("{}: {command}", path.display());
            assert_eq!(command.trim().lines().count(), 1, "{at}");
            assert!(command.contains(" xtask "), "{at}");
            assert!(!command.contains(['|', ';', '&']), "{at}");
        }
    }
    assert!(commands >= 2);
}

#[test]
fn a_workflow_may_only_read_unless_a_job_says_what_it_writes() {
    for path in workflows() {
        let workflow = parse(&path);
        let permissions = serde_json::json!({"contents": "read"});
        assert_eq!(workflow["permissions"], permissions, "{}", path.display());
    }
}

#[test]
fn every_list_of_updates_and_every_issue_form_is_valid_yaml() {
    let github = checkout().join(".github");
    let updates = parse(&github.join("dependabot.yml"));
    let folders = updates["updates"].as_array().unwrap();
    let names: Vec<&str> = folders
        .iter()
        .filter_map(|entry| entry["package-ecosystem"].as_str())
        .collect();
    assert_eq!(names, ["cargo", "gomod", "github-actions"]);
    for form in ["bug.yaml", "feature.yaml"] {
        let form = parse(&github.join("ISSUE_TEMPLATE").join(form));
        for key in ["name", "description", "body"] {
            assert!(!form[key].is_null(), "{key}");
        }
    }
}
