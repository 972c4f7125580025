//! Tests of the suite: a real provider pack passes, and for each check a guest that breaks the rule
//! fails it.

#![allow(clippy::unwrap_used, reason = "a failed setup must fail the test")]

#[path = "../../../host/plugin/tests/guests.rs"]
mod guests;

use std::path::Path;

use llsd_conformance::{Report, run};
use llsd_plugin::{Compiler, Host, HostConfig, Limits, Origin};
use serde_json::json;

use guests::{Guest, description};

fn failed(report: &Report) -> Vec<&str> {
    let failed = report.checks.iter().filter(|check| !check.passed());
    failed.map(|check| check.name).collect()
}

/// Asserts that a guest fails a check.
fn fails(guest: &Guest, check: &str) {
    let report = run(&guest.load(Limits::default()), None);
    assert!(failed(&report).contains(&check), "{report}");
    assert!(!report.passed());
    assert!(report.to_string().contains("          fix: "), "{report}");
}

/// Asserts that a guest passes a check.
fn passes(guest: &Guest, check: &str) {
    let report = run(&guest.load(Limits::default()), None);
    assert!(!failed(&report).contains(&check), "{report}");
}

fn pack() -> Guest {
    Guest {
        world: "provider-pack",
        ..Guest::default()
    }
}

fn body(body: &str) -> Guest {
    Guest {
        body: body.into(),
        ..pack()
    }
}

/// Runs the suite on a built plugin of this project, with its own fixtures.
fn report_on(name: &str) -> Report {
    let built = std::env::var_os("LLSD_PLUGINS").expect("run the tests with `cargo xtask test`");
    let component = std::fs::read(Path::new(&built).join(format!("{name}.wasm"))).unwrap();
    let config = HostConfig {
        compiler: Compiler::Program("/nowhere".into()),
        ..HostConfig::default()
    };
    let plugin = Host::new(config)
        .unwrap()
        .load(&component, Origin::BuiltIn)
        .unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins")
        .join(name)
        .join("tests/golden");
    run(&plugin, fixtures.exists().then_some(fixtures.as_path()))
}

#[test]
fn a_real_provider_pack_passes() {
    let report = report_on("example-pack");
    assert!(report.passed(), "{report}");
    assert_eq!(report.world, "provider-pack");
}

#[test]
fn a_trap_fails_the_check() {
    passes(&pack(), "nothing-traps");
    fails(&body("unreachable"), "nothing-traps");
    fails(&body("unreachable"), "ordinary-requests");
}

#[test]
fn accepting_an_unknown_shape_fails_the_check() {
    fails(&pack(), "unknown-shapes");
}

#[test]
fn output_that_depends_on_the_order_of_keys_fails_the_check() {
    passes(&pack(), "key-order");
    // Copies the first letter of the request's first key over the `a` of the output's id.
    let copy = "(i32.store8 offset=19 (global.get $json) (i32.load8_u offset=2 (local.get 2)))";
    fails(&body(copy), "key-order");
}

#[test]
fn output_that_is_not_canonical_fails_the_check() {
    passes(&pack(), "canonical-answers");
    let output = br#"{"type":"t", "id":"a"}"#.to_vec();
    fails(&Guest { output, ..pack() }, "canonical-answers");
}

#[test]
fn a_call_that_uses_most_of_its_fuel_fails_the_check() {
    let spin = "(loop $again (global.set $spun (i32.add (global.get $spun) (i32.const 1)))
        (br_if $again (i32.lt_u (global.get $spun) (i32.const 10000))))";
    let guest = Guest {
        fields: "(global $spun (mut i32) (i32.const 0))".into(),
        ..body(spin)
    };
    passes(&guest, "limits-are-far");
    let limits = Limits {
        fuel: 100_000,
        ..Limits::default()
    };
    let report = run(&guest.load(limits), None);
    assert!(failed(&report).contains(&"limits-are-far"), "{report}");
}

/// A guest that rejects every request with one diagnostic whose strings are all `text`.
fn refusing(text: &str) -> Guest {
    let store = |offset: usize, value: &str| {
        format!("(i32.store offset={offset} (i32.const 65536) {value})")
    };
    let length = format!("(i32.const {})", text.len());
    let texts: String = [4, 12, 20, 28]
        .into_iter()
        .map(|at| store(at, "(global.get $json)") + &store(at + 4, &length))
        .collect();
    Guest {
        output: text.as_bytes().to_vec(),
        ..body(&format!(
            "{} {texts}
             (i32.store (global.get $outcome) (i32.const 1))
             (i32.store offset=4 (global.get $outcome) (i32.const 65536))
             (i32.store offset=8 (global.get $outcome) (i32.const 1))",
            store(0, "(i32.const 1)")
        ))
    }
}

#[test]
fn a_diagnostic_about_a_field_outside_the_request_fails_the_check() {
    fails(&refusing("spec.replicas"), "diagnostics-have-paths");
    passes(&refusing("spec.storage"), "diagnostics-have-paths");
}

#[test]
fn a_diagnostic_with_an_invalid_code_fails_the_check() {
    fails(&refusing("Not A Code."), "diagnostics-are-well-formed");
    passes(&refusing("a-code"), "diagnostics-are-well-formed");
}

#[test]
fn an_incomplete_description_fails_the_check() {
    let with = |key: &str, value: serde_json::Value| {
        let mut description = description();
        description[key] = value;
        Guest {
            description: description.to_string().into_bytes(),
            ..pack()
        }
    };
    passes(&pack(), "description-is-complete");
    fails(&with("vendor", json!("")), "description-is-complete");
    fails(&with("providers", json!({})), "description-is-complete");
    let schema =
        json!([{ "id": "test/1.0", "product": "other", "from": "one", "role": "previous" }]);
    fails(&with("schemas", schema), "description-is-complete");
}

#[test]
fn dropping_an_unknown_key_of_the_base_configuration_fails_the_check() {
    // A schema adapter that returns an empty configuration for every `assemble`.
    let output = br#"{"config":{},"id":"a","type":"t"}"#.to_vec();
    let guest = Guest {
        output,
        shape: "llamastack.io/adapter/assembly/v1",
        ..Guest::default()
    };
    fails(&guest, "unknown-keys-survive");
}

#[test]
fn fixtures_are_compared_and_unreadable_ones_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("one");
    std::fs::create_dir(&case).unwrap();
    let plugin = pack().load(Limits::default());
    let golden = || {
        let report = run(&plugin, Some(folder.path()));
        let mut checks = report.checks.into_iter();
        checks
            .find(|check| check.name == "golden-fixtures")
            .unwrap()
    };
    std::fs::write(
        case.join("request.json"),
        r#"{"call":"expand","request":{}}"#,
    )
    .unwrap();
    assert!(golden().problems[0].contains("answer.json"));
    let answer = json!({ "output": { "config": {}, "id": "a", "type": "remote::vllm", "wants": [] }, "warnings": [] });
    std::fs::write(case.join("answer.json"), answer.to_string()).unwrap();
    assert!(golden().passed());
    let other = answer.to_string().replace("remote::vllm", "remote::tgi");
    std::fs::write(case.join("answer.json"), other).unwrap();
    assert_eq!(
        golden().problems,
        [r#"one: /output/type is "remote::vllm", but "remote::tgi" was recorded"#]
    );
}
