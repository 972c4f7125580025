//! What a well-behaved guest gives: the same answer at the same price, and a report of each call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use llsd_adapter_sdk::Detection;
use llsd_adapter_sdk::documents::{ExpansionRequest, Hints};
use llsd_plugin::{
    CallReport, Compiler, Host, HostConfig, Limits, Memory, Observer, Origin, Plugin, Request,
};
use llsd_render::adapter::{Adapter as _, FaultKind};
use llsd_render::digest;
use serde_json::{Value, json};

use crate::guests::{Guest, expand};

/// Counts guests that ran, and keeps what it was told.
#[derive(Default)]
struct Witness {
    ran: AtomicUsize,
    told: Mutex<Vec<String>>,
}

impl Observer for Witness {
    fn called(&self, report: &CallReport<'_>) {
        if !report.is_remembered {
            self.ran.fetch_add(1, Ordering::Relaxed);
        }
        let CallReport {
            plugin,
            call,
            fault,
            ..
        } = report;
        self.told
            .lock()
            .unwrap()
            .push(format!("{plugin} {call} {}", fault.is_some()));
    }
}

fn load(guest: &Guest, memory: Memory) -> (Plugin, Arc<Witness>) {
    let witness = Arc::new(Witness::default());
    let host = Host::new(HostConfig {
        compiler: Compiler::Program("/nowhere".into()),
        memory,
        observer: Some(witness.clone()),
        ..HostConfig::default()
    });
    (
        host.unwrap().load(&guest.build(), Origin::BuiltIn).unwrap(),
        witness,
    )
}

fn typed() -> ExpansionRequest {
    serde_json::from_value(json!({
        "schema": "test/1.0", "api": "inference", "path": "spec.providers.inference",
        "entry": { "id": "a", "provider": "vllm" },
    }))
    .unwrap()
}

#[test]
fn all_functions_of_the_contract_answer() {
    let (plugin, _) = load(&Guest::default(), Memory::default());
    let detected = plugin
        .detect(&json!({ "version": 2 }), &Hints::default())
        .unwrap();
    assert_eq!(detected.answer, Detection::One("test/1.0".into()));
    let expanded = plugin.expand(&typed()).unwrap();
    assert_eq!(
        expanded.answer.unwrap().output.provider_type,
        "remote::vllm"
    );
    assert!(expanded.fuel > 0);
    let described = plugin.call(&Request::Describe).unwrap();
    let described: Value = serde_json::from_str(&described.answer.to_json()).unwrap();
    assert_eq!(described["name"], "guest");
    // The guest answers `assemble` with an expansion, which is not what was asked for.
    let assembled = plugin
        .call(&Request::from_json("assemble", &json!({})).unwrap())
        .unwrap_err();
    assert!(
        matches!(assembled.kind, FaultKind::BadAnswer(_)),
        "{assembled}"
    );
}

#[test]
fn a_provider_pack_says_that_it_only_expands() {
    let (plugin, _) = load(
        &Guest {
            world: "provider-pack",
            ..Guest::default()
        },
        Memory::default(),
    );
    assert!(!plugin.is_schema_adapter());
    assert!(plugin.expand(&typed()).unwrap().answer.is_ok());
    let fault = plugin.detect(&json!({}), &Hints::default()).unwrap_err();
    assert!(
        fault.to_string().contains("a provider pack has no detect"),
        "{fault}"
    );
}

#[test]
fn a_detection_of_a_schema_that_is_not_served_is_a_bad_answer() {
    let mut description = crate::guests::description();
    description["schemas"][0]["id"] = json!("test/2.0");
    description["apis"] = json!({});
    description["providers"] = json!({});
    let guest = Guest {
        description: description.to_string().into_bytes(),
        ..Guest::default()
    };
    let fault = load(&guest, Memory::default())
        .0
        .detect(&json!({}), &Hints::default())
        .unwrap_err();
    assert!(fault.to_string().contains("does not serve"), "{fault}");
}

#[test]
fn the_same_input_gives_the_same_bytes_and_fuel_in_200_fresh_runs() {
    let (plugin, witness) = load(&Guest::default(), Memory::default());
    let first = plugin.call_afresh(&expand("a")).unwrap();
    for _ in 1..200 {
        let again = plugin.call_afresh(&expand("a")).unwrap();
        assert_eq!((&again.answer, again.fuel), (&first.answer, first.fuel));
        assert_eq!(again.answer.to_json(), first.answer.to_json());
    }
    assert_eq!(witness.ran.load(Ordering::Relaxed), 200);
}

#[test]
fn two_hosts_agree_on_bytes_and_fuel() {
    let run = || {
        load(&Guest::default(), Memory::default())
            .0
            .call(&expand("a"))
            .unwrap()
    };
    let (one, other) = (run(), run());
    assert_eq!(
        (one.answer, one.input, one.fuel),
        (other.answer, other.input, other.fuel)
    );
}

#[test]
fn a_remembered_answer_runs_no_guest_and_costs_the_same() {
    let (plugin, witness) = load(&Guest::default(), Memory::default());
    let first = plugin.expand(&typed()).unwrap();
    for _ in 0..10 {
        assert_eq!(plugin.expand(&typed()).unwrap(), first);
    }
    assert!(
        plugin
            .call(&Request::Expand(
                llsd_adapter_sdk::exchange::write(&typed())
            ))
            .unwrap()
            .is_remembered
    );
    assert_eq!(witness.ran.load(Ordering::Relaxed), 1);
    plugin.call(&expand("another")).unwrap();
    assert_eq!(witness.ran.load(Ordering::Relaxed), 2);
}

#[test]
fn documents_of_different_shapes_are_not_taken_for_each_other() {
    let (plugin, witness) = load(&Guest::default(), Memory::default());
    let request = |shape: &str| {
        let json = "{}".to_owned();
        Request::Expand(llsd_adapter_sdk::exchange::Text {
            shape: shape.into(),
            json,
        })
    };
    plugin.call(&request("one")).unwrap();
    plugin.call(&request("another")).unwrap();
    assert_eq!(witness.ran.load(Ordering::Relaxed), 2);
}

#[test]
fn faults_are_not_remembered() {
    let guest = Guest {
        body: "unreachable".into(),
        ..Guest::default()
    };
    let (plugin, witness) = load(&guest, Memory::default());
    for _ in 0..3 {
        plugin.call(&expand("a")).unwrap_err();
    }
    assert_eq!(witness.ran.load(Ordering::Relaxed), 3);
    assert_eq!(*witness.told.lock().unwrap(), vec!["guest expand true"; 3]);
}

#[test]
fn nothing_is_remembered_when_nothing_may_be() {
    let (plugin, witness) = load(
        &Guest::default(),
        Memory {
            entries: 0,
            bytes: 0,
        },
    );
    plugin.call(&expand("a")).unwrap();
    plugin.call(&expand("a")).unwrap();
    assert_eq!(witness.ran.load(Ordering::Relaxed), 2);
}

#[test]
fn the_digest_is_of_the_canonical_text() {
    let (plugin, _) = load(&Guest::default(), Memory::default());
    let request = expand("a");
    let called = plugin.call(&request).unwrap();
    let Request::Expand(text) = request else {
        panic!()
    };
    assert_eq!(called.input, digest::of(&text.json));
    assert_eq!(
        called.answer.to_json(),
        r#"{"output":{"config":{},"id":"a","type":"remote::vllm","wants":[]},"warnings":[]}"#
    );
}

#[test]
fn a_plugin_is_shared_between_threads() {
    let (plugin, _) = load(&Guest::default(), Memory::default());
    let expected = plugin.call_afresh(&expand("a")).unwrap().answer;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    assert_eq!(plugin.call_afresh(&expand("a")).unwrap().answer, expected);
                }
            });
        }
    });
}

#[test]
fn other_limits_make_another_plugin_of_the_same_component() {
    let (plugin, _) = load(
        &Guest::default(),
        Memory {
            entries: 0,
            bytes: 0,
        },
    );
    let starved = plugin.with_limits(Limits {
        fuel: 1,
        ..Limits::default()
    });
    assert_eq!(
        starved.call(&expand("a")).unwrap_err().kind,
        FaultKind::OutOfFuel { granted: 1 }
    );
    assert!(plugin.call(&expand("a")).is_ok());
}

#[test]
fn an_unknown_function_lists_the_known_ones() {
    let error = Request::from_json("expnd", &json!({})).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"no function is called "expnd"; use one of: describe, detect, expand, assemble"#
    );
    assert!(Request::from_json("detect", &json!({})).is_err());
}
