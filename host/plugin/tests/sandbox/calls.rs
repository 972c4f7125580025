//! Well-behaved guests: the same input gives the same output and fuel, and each call is reported.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use llsd_adapter_sdk::Detection;
use llsd_adapter_sdk::documents::{ExpansionRequest, Hints};
use llsd_plugin::{
    CallReport, Compiler, Host, HostConfig, Limits, Observer, Origin, Plugin, Request,
    ResultCacheCapacity,
};
use llsd_render::adapter::{Adapter as _, FaultKind};
use llsd_render::digest;
use serde_json::{Value, json};

use crate::guests::{Guest, expand};

/// Counts the guests that ran, and records every report.
#[derive(Default)]
struct Recorder {
    ran: AtomicUsize,
    reports: Mutex<Vec<String>>,
}

impl Observer for Recorder {
    fn called(&self, report: &CallReport<'_>) {
        if !report.cache_hit {
            self.ran.fetch_add(1, Ordering::Relaxed);
        }
        let CallReport {
            plugin,
            call,
            fault,
            ..
        } = report;
        self.reports
            .lock()
            .unwrap()
            .push(format!("{plugin} {call} {}", fault.is_some()));
    }
}

fn load(guest: &Guest, result_cache: ResultCacheCapacity) -> (Plugin, Arc<Recorder>) {
    let observer = Arc::new(Recorder::default());
    let host = Host::new(HostConfig {
        compiler: Compiler::Program("/nowhere".into()),
        result_cache,
        observer: Some(observer.clone()),
        ..HostConfig::default()
    });
    (
        host.unwrap().load(&guest.build(), Origin::BuiltIn).unwrap(),
        observer,
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
fn all_functions_of_the_contract_return() {
    let (plugin, _) = load(&Guest::default(), ResultCacheCapacity::default());
    let detected = plugin
        .detect(&json!({ "version": 2 }), &Hints::default())
        .unwrap();
    assert_eq!(detected.output, Detection::One("test/1.0".into()));
    let expanded = plugin.expand(&typed()).unwrap();
    assert_eq!(
        expanded.output.unwrap().output.provider_type,
        "remote::vllm"
    );
    assert!(expanded.fuel > 0);
    let described = plugin.call(&Request::Describe).unwrap();
    let described: Value = serde_json::from_str(&described.output.to_json()).unwrap();
    assert_eq!(described["name"], "guest");
    // The guest returns an expansion from `assemble`, which is the wrong document.
    let assembled = plugin
        .call(&Request::from_json("assemble", &json!({})).unwrap())
        .unwrap_err();
    assert!(
        matches!(assembled.kind, FaultKind::InvalidOutput(_)),
        "{assembled}"
    );
}

#[test]
fn a_provider_pack_does_not_export_detect() {
    let (plugin, _) = load(
        &Guest {
            world: "provider-pack",
            ..Guest::default()
        },
        ResultCacheCapacity::default(),
    );
    assert!(!plugin.is_schema_adapter());
    assert!(plugin.expand(&typed()).unwrap().output.is_ok());
    let fault = plugin.detect(&json!({}), &Hints::default()).unwrap_err();
    assert!(
        fault
            .to_string()
            .contains("a provider pack does not export detect"),
        "{fault}"
    );
}

#[test]
fn detecting_a_schema_that_is_not_in_the_description_is_invalid_output() {
    let mut description = crate::guests::description();
    description["schemas"][0]["id"] = json!("test/2.0");
    description["apis"] = json!({});
    description["providers"] = json!({});
    let guest = Guest {
        description: description.to_string().into_bytes(),
        ..Guest::default()
    };
    let fault = load(&guest, ResultCacheCapacity::default())
        .0
        .detect(&json!({}), &Hints::default())
        .unwrap_err();
    assert!(
        fault
            .to_string()
            .contains("not in the plugin's description"),
        "{fault}"
    );
}

#[test]
fn the_same_input_gives_the_same_bytes_and_fuel_in_200_uncached_calls() {
    let (plugin, observer) = load(&Guest::default(), ResultCacheCapacity::default());
    let first = plugin.call_uncached(&expand("a")).unwrap();
    for _ in 1..200 {
        let again = plugin.call_uncached(&expand("a")).unwrap();
        assert_eq!((&again.output, again.fuel), (&first.output, first.fuel));
        assert_eq!(again.output.to_json(), first.output.to_json());
    }
    assert_eq!(observer.ran.load(Ordering::Relaxed), 200);
}

#[test]
fn two_hosts_agree_on_bytes_and_fuel() {
    let run = || {
        load(&Guest::default(), ResultCacheCapacity::default())
            .0
            .call(&expand("a"))
            .unwrap()
    };
    let (one, other) = (run(), run());
    assert_eq!(
        (one.output, one.input, one.fuel),
        (other.output, other.input, other.fuel)
    );
}

#[test]
fn a_cache_hit_runs_no_guest_and_reports_the_same_fuel() {
    let (plugin, observer) = load(&Guest::default(), ResultCacheCapacity::default());
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
            .cache_hit
    );
    assert_eq!(observer.ran.load(Ordering::Relaxed), 1);
    plugin.call(&expand("another")).unwrap();
    assert_eq!(observer.ran.load(Ordering::Relaxed), 2);
}

#[test]
fn documents_of_different_shapes_have_different_cache_entries() {
    let (plugin, observer) = load(&Guest::default(), ResultCacheCapacity::default());
    let request = |shape: &str| {
        let json = "{}".to_owned();
        Request::Expand(llsd_adapter_sdk::exchange::Text {
            shape: shape.into(),
            json,
        })
    };
    plugin.call(&request("one")).unwrap();
    plugin.call(&request("another")).unwrap();
    assert_eq!(observer.ran.load(Ordering::Relaxed), 2);
}

#[test]
fn faults_are_not_cached() {
    let guest = Guest {
        body: "unreachable".into(),
        ..Guest::default()
    };
    let (plugin, observer) = load(&guest, ResultCacheCapacity::default());
    for _ in 0..3 {
        plugin.call(&expand("a")).unwrap_err();
    }
    assert_eq!(observer.ran.load(Ordering::Relaxed), 3);
    assert_eq!(
        *observer.reports.lock().unwrap(),
        vec!["guest expand true"; 3]
    );
}

#[test]
fn a_capacity_of_zero_disables_the_result_cache() {
    let (plugin, observer) = load(
        &Guest::default(),
        ResultCacheCapacity {
            entries: 0,
            bytes: 0,
        },
    );
    plugin.call(&expand("a")).unwrap();
    plugin.call(&expand("a")).unwrap();
    assert_eq!(observer.ran.load(Ordering::Relaxed), 2);
}

#[test]
fn the_input_digest_covers_the_canonical_json() {
    let (plugin, _) = load(&Guest::default(), ResultCacheCapacity::default());
    let request = expand("a");
    let called = plugin.call(&request).unwrap();
    let Request::Expand(text) = request else {
        panic!()
    };
    assert_eq!(called.input, digest::of(&text.json));
    assert_eq!(
        called.output.to_json(),
        r#"{"output":{"config":{},"id":"a","type":"remote::vllm","wants":[]},"warnings":[]}"#
    );
}

#[test]
fn a_plugin_is_shared_between_threads() {
    let (plugin, _) = load(&Guest::default(), ResultCacheCapacity::default());
    let expected = plugin.call_uncached(&expand("a")).unwrap().output;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    assert_eq!(plugin.call_uncached(&expand("a")).unwrap().output, expected);
                }
            });
        }
    });
}

#[test]
fn with_limits_changes_the_limits_of_the_same_component() {
    let (plugin, _) = load(
        &Guest::default(),
        ResultCacheCapacity {
            entries: 0,
            bytes: 0,
        },
    );
    let limited = plugin.with_limits(Limits {
        fuel: 1,
        ..Limits::default()
    });
    assert_eq!(
        limited.call(&expand("a")).unwrap_err().kind,
        FaultKind::OutOfFuel { limit: 1 }
    );
    assert!(plugin.call(&expand("a")).is_ok());
}

#[test]
fn the_error_for_an_unknown_function_lists_the_known_ones() {
    let error = Request::from_json("expnd", &json!({})).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"unknown function "expnd"; use one of: describe, detect, expand, assemble"#
    );
    assert!(Request::from_json("detect", &json!({})).is_err());
}
