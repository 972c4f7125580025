//! Malicious and faulty guests. Each call ends with a specific fault within its limits, and affects
//! neither the host's memory nor the next call.

use std::time::{Duration, Instant};

use llsd_plugin::{Limits, LoadError, Origin};
use llsd_render::adapter::{FaultKind, LimitedResource};

use crate::guests::{Guest, expand, host};

/// Low limits, except for the wall clock, so that the tests pass on a slow machine.
fn tight() -> Limits {
    Limits {
        fuel: 5_000_000,
        wall_clock: Duration::from_secs(60),
        memory_bytes: 4 << 20,
        table_elements: 1_000,
        output_bytes: 64 << 10,
        ..Limits::default()
    }
}

fn body(body: &str) -> Guest {
    Guest {
        body: body.into(),
        ..Guest::default()
    }
}

fn fault(guest: &Guest, limits: Limits) -> FaultKind {
    guest.load(limits).call(&expand("a")).unwrap_err().kind
}

const ENDLESS_LOOP: &str = "(loop $again (br $again))";
const MEMORY_BOMB: &str = "(loop $again (drop (memory.grow (i32.const 16))) (br $again))";

fn table_bomb() -> Guest {
    Guest {
        fields: "(table $many 1 funcref)".into(),
        ..body(
            "(loop $again (drop (table.grow $many (ref.null func) (i32.const 100))) (br $again))",
        )
    }
}

fn deep_recursion() -> Guest {
    Guest {
        fields: "(func $deeper (param i64) (result i64) (i64.add (i64.const 1) (call $deeper (local.get 0))))".into(),
        ..body("(drop (call $deeper (i64.const 0)))")
    }
}

fn panic() -> Guest {
    Guest {
        fields: "(func $pick_the_key unreachable) (func $read_the_entry (call $pick_the_key))"
            .into(),
        ..body("(call $read_the_entry)")
    }
}

/// Returns a document whose length is 3 MiB.
fn huge_output() -> Guest {
    Guest {
        pages: 60,
        ..body(
            "(i32.store offset=12 (global.get $outcome) (i32.const 0))
             (i32.store offset=16 (global.get $outcome) (i32.const 3145728))",
        )
    }
}

/// Fails with `count` diagnostics of empty strings.
fn many_diagnostics(count: u32) -> Guest {
    Guest {
        pages: 60,
        ..body(&format!(
            "(i32.store (global.get $outcome) (i32.const 1))
             (i32.store offset=4 (global.get $outcome) (i32.const 131072))
             (i32.store offset=8 (global.get $outcome) (i32.const {count}))"
        ))
    }
}

#[test]
fn an_endless_loop_runs_out_of_fuel() {
    assert_eq!(
        fault(&body(ENDLESS_LOOP), tight()),
        FaultKind::OutOfFuel { limit: 5_000_000 }
    );
}

#[test]
fn an_endless_loop_with_enough_fuel_runs_out_of_time() {
    let limits = Limits {
        fuel: u64::MAX / 2,
        wall_clock: Duration::from_millis(50),
        ..Limits::default()
    };
    let started = Instant::now();
    assert_eq!(
        fault(&body(ENDLESS_LOOP), limits),
        FaultKind::OutOfTime { limit_ms: 50 }
    );
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_memory_bomb_exceeds_the_memory_limit() {
    assert_eq!(
        fault(&body(MEMORY_BOMB), tight()),
        FaultKind::LimitExceeded {
            resource: LimitedResource::MemoryBytes,
            limit: 4 << 20
        }
    );
}

#[test]
fn a_guest_that_starts_with_too_much_memory_is_not_loaded() {
    let guest = Guest {
        pages: 1_000,
        ..Guest::default()
    };
    let error = host(tight())
        .load(&guest.build(), Origin::BuiltIn)
        .unwrap_err();
    let LoadError::Describe(kind) = error else {
        panic!("{error}")
    };
    assert_eq!(
        kind,
        FaultKind::LimitExceeded {
            resource: LimitedResource::MemoryBytes,
            limit: 4 << 20
        }
    );
}

#[test]
fn a_table_bomb_exceeds_the_table_limit() {
    assert_eq!(
        fault(&table_bomb(), tight()),
        FaultKind::LimitExceeded {
            resource: LimitedResource::TableElements,
            limit: 1_000
        }
    );
}

#[test]
fn a_component_that_exceeds_the_instance_limit_is_not_loaded() {
    let error = host(Limits {
        instances: 0,
        ..tight()
    })
    .load(&Guest::default().build(), Origin::BuiltIn)
    .unwrap_err();
    let LoadError::Describe(kind) = error else {
        panic!("{error}")
    };
    assert_eq!(
        kind,
        FaultKind::LimitExceeded {
            resource: LimitedResource::Instances,
            limit: 0
        }
    );
}

#[test]
fn deep_recursion_traps_and_names_its_function() {
    let FaultKind::Trapped { message, functions } = fault(&deep_recursion(), Limits::default())
    else {
        panic!()
    };
    assert!(message.contains("call stack exhausted"), "{message}");
    assert_eq!(functions[0], "deeper");
}

#[test]
fn deep_recursion_traps_on_a_thread_with_a_small_stack() {
    let plugin = deep_recursion().load(Limits::default());
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let kind = small
        .spawn(move || plugin.call(&expand("a")).unwrap_err().kind)
        .unwrap()
        .join()
        .unwrap();
    assert!(matches!(kind, FaultKind::Trapped { .. }), "{kind}");
}

#[test]
fn a_panic_is_a_trap_that_names_the_functions_on_the_stack() {
    let FaultKind::Trapped { message, functions } = fault(&panic(), tight()) else {
        panic!()
    };
    assert!(message.contains("unreachable"), "{message}");
    assert_eq!(
        functions,
        ["pick_the_key", "read_the_entry", "expand_the_entry"]
    );
}

#[test]
fn an_output_that_is_too_large_fails_before_it_is_copied() {
    assert_eq!(
        fault(&huge_output(), tight()),
        FaultKind::LimitExceeded {
            resource: LimitedResource::OutputBytes,
            limit: 64 << 10
        }
    );
}

#[test]
fn too_many_diagnostics_fail() {
    let limits = Limits {
        diagnostics: 100,
        ..tight()
    };
    assert_eq!(
        fault(&many_diagnostics(101), limits.clone()),
        FaultKind::LimitExceeded {
            resource: LimitedResource::Diagnostics,
            limit: 100
        }
    );
    // With this many, even their list exceeds the output limit.
    assert_eq!(
        fault(&many_diagnostics(50_000), limits),
        FaultKind::LimitExceeded {
            resource: LimitedResource::OutputBytes,
            limit: 64 << 10
        }
    );
}

#[test]
fn a_failed_outcome_without_an_error_is_invalid_output() {
    let FaultKind::InvalidOutput(why) = fault(&many_diagnostics(0), tight()) else {
        panic!()
    };
    assert_eq!(why, "a failed outcome contains no error");
}

#[test]
fn malformed_json_is_invalid_output() {
    for output in [&b"{"[..], b"", b"[]", b"{\"id\":1}", b"nonsense"] {
        let guest = Guest {
            output: output.into(),
            ..Guest::default()
        };
        let kind = fault(&guest, tight());
        assert!(
            matches!(&kind, FaultKind::InvalidOutput(why) if why.contains("expansion/v1")),
            "{kind}"
        );
    }
}

#[test]
fn deeply_nested_json_is_invalid_output() {
    let guest = Guest {
        output: [b"[".repeat(20_000), b"]".repeat(20_000)].concat(),
        ..Guest::default()
    };
    assert!(matches!(
        fault(&guest, tight()),
        FaultKind::InvalidOutput(_)
    ));
}

#[test]
fn invalid_utf_8_is_invalid_output() {
    let kind = fault(
        &Guest {
            output: vec![b'"', 0xff, b'"'],
            ..Guest::default()
        },
        tight(),
    );
    assert!(
        matches!(&kind, FaultKind::InvalidOutput(why) if why.contains("utf-8")),
        "{kind}"
    );
}

#[test]
fn a_pointer_outside_the_guests_memory_is_invalid_output() {
    let guest = body("(i32.store offset=12 (global.get $outcome) (i32.const 0x7fffff00))");
    let kind = fault(&guest, tight());
    assert!(matches!(kind, FaultKind::InvalidOutput(_)), "{kind}");
}

#[test]
fn a_variable_with_an_invalid_name_is_invalid_output() {
    let output = br#"{"id":"a","type":"t","wants":[{"env":"PATH=x"}]}"#;
    let kind = fault(
        &Guest {
            output: output.to_vec(),
            ..Guest::default()
        },
        tight(),
    );
    assert!(
        matches!(&kind, FaultKind::InvalidOutput(why) if why.contains("PATH=x")),
        "{kind}"
    );
}

#[test]
fn a_guest_that_counts_its_calls_returns_the_same_output_each_time() {
    let guest = Guest {
        output: br#"{"id":"0","type":"t"}"#.to_vec(),
        fields: r#"(global $calls (mut i32) (i32.const 0))"#.into(),
        // Writes the count over the digit of the id.
        ..body(
            "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
             (i32.store8 offset=7 (global.get $json) (i32.add (i32.const 48) (global.get $calls)))",
        )
    };
    let plugin = guest.load(tight());
    let first = plugin.call_uncached(&expand("a")).unwrap();
    assert_eq!(
        first.output.to_json(),
        r#"{"output":{"id":"1","type":"t"},"warnings":[]}"#
    );
    for _ in 0..10 {
        let again = plugin.call_uncached(&expand("a")).unwrap();
        assert_eq!(
            (again.output, again.fuel),
            (first.output.clone(), first.fuel)
        );
    }
}

#[test]
fn new_memory_is_zeroed_after_another_guest_wrote_to_it() {
    let host = host(tight());
    let load = |guest: &Guest| host.load(&guest.build(), Origin::BuiltIn).unwrap();
    let writer = load(&body(
        "(drop (memory.grow (i32.const 4)))
         (memory.fill (i32.const 131072) (i32.const 171) (i32.const 262144))",
    ));
    let reader = load(&Guest {
        output: br#"{"id":"0","type":"t"}"#.to_vec(),
        fields: "(func $is_dirty (result i32) (local $at i32)
                   (drop (memory.grow (i32.const 4)))
                   (local.set $at (i32.const 131072))
                   (loop $next
                     (if (i32.load (local.get $at)) (then (return (i32.const 1))))
                     (local.set $at (i32.add (local.get $at) (i32.const 4)))
                     (br_if $next (i32.lt_u (local.get $at) (i32.const 393216))))
                   (i32.const 0))"
            .into(),
        // Writes the result over the digit of the id.
        ..body("(i32.store8 offset=7 (global.get $json) (i32.add (i32.const 48) (call $is_dirty)))")
    });
    for _ in 0..10 {
        writer.call_uncached(&expand("a")).unwrap();
        let found = reader.call_uncached(&expand("a")).unwrap();
        assert_eq!(
            found.output.to_json(),
            r#"{"output":{"id":"0","type":"t"},"warnings":[]}"#
        );
    }
}

#[test]
fn a_fault_names_the_limit_and_the_field_that_raises_it() {
    let message = |guest: Guest| fault(&guest, tight()).to_string();
    assert_eq!(
        message(body(ENDLESS_LOOP)),
        "exceeded the fuel limit of 5000000; raise spec.limits.fuel of the SchemaPlugin (fuel in the file of --limits), or report this to the plugin's author"
    );
    assert_eq!(
        message(body(MEMORY_BOMB)),
        "exceeded the limit of 4194304 bytes of memory; raise spec.limits.memory of the SchemaPlugin (memory in the file of --limits), or report this to the plugin's author"
    );
    assert_eq!(
        message(table_bomb()),
        "exceeded the limit of 1000 table elements; raise spec.limits.tableElements of the SchemaPlugin (tableElements in the file of --limits), or report this to the plugin's author"
    );
}

#[test]
fn a_fault_names_the_plugin_its_digest_and_the_function() {
    let plugin = panic().load(tight());
    let message = plugin.call(&expand("a")).unwrap_err().to_string();
    assert!(
        message.starts_with("plugin \"guest\" (sha256:"),
        "{message}"
    );
    assert!(message.contains("expand trapped"), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn hostile_guests_leak_no_memory_and_do_not_affect_the_next_call() {
    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
    let host = host(tight());
    let good = host
        .load(&Guest::default().build(), Origin::BuiltIn)
        .unwrap();
    let before = good.call_uncached(&expand("a")).unwrap();
    let hostile = [
        body(ENDLESS_LOOP),
        body(MEMORY_BOMB),
        table_bomb(),
        deep_recursion(),
        panic(),
        huge_output(),
        many_diagnostics(50_000),
    ];
    let hostile: Vec<_> = hostile
        .iter()
        .map(|guest| host.load(&guest.build(), Origin::BuiltIn).unwrap())
        .collect();
    let round = || {
        for plugin in &hostile {
            plugin.call(&expand("a")).unwrap_err();
            let after = good.call_uncached(&expand("a")).unwrap();
            assert_eq!((&after.output, after.fuel), (&before.output, before.fuel));
        }
    };
    round();
    let baseline = resident_bytes();
    for _ in 0..20 {
        round();
    }
    let grown = resident_bytes().saturating_sub(baseline);
    // Other tests of this binary run at the same time. A leak would be 80 MiB for each bomb.
    assert!(grown < 64 << 20, "grew by {grown} bytes");
}
