//! Guests that mean harm, or have a bug. Each ends in a named fault within its limits, and neither
//! the host's memory nor the next call notices.

use std::time::{Duration, Instant};

use llsd_plugin::{Limits, LoadError, Origin};
use llsd_render::adapter::FaultKind;

use crate::guests::{Guest, expand, host};

/// Limits that are reached quickly; a wall clock that is not, however slow this machine.
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

/// Answers with a document that claims all of 3 MiB.
fn huge_output() -> Guest {
    Guest {
        pages: 60,
        ..body(
            "(i32.store offset=12 (global.get $answer) (i32.const 0))
             (i32.store offset=16 (global.get $answer) (i32.const 3145728))",
        )
    }
}

/// Refuses with `count` diagnostics of empty strings.
fn many_diagnostics(count: u32) -> Guest {
    Guest {
        pages: 60,
        ..body(&format!(
            "(i32.store (global.get $answer) (i32.const 1))
             (i32.store offset=4 (global.get $answer) (i32.const 131072))
             (i32.store offset=8 (global.get $answer) (i32.const {count}))"
        ))
    }
}

#[test]
fn an_endless_loop_runs_out_of_fuel() {
    assert_eq!(
        fault(&body(ENDLESS_LOOP), tight()),
        FaultKind::OutOfFuel { granted: 5_000_000 }
    );
}

#[test]
fn an_endless_loop_with_fuel_to_spare_runs_out_of_time() {
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
fn a_memory_bomb_meets_its_ceiling() {
    assert_eq!(
        fault(&body(MEMORY_BOMB), tight()),
        FaultKind::OverLimit {
            what: "memory bytes",
            granted: 4 << 20
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
        FaultKind::OverLimit {
            what: "memory bytes",
            granted: 4 << 20
        }
    );
}

#[test]
fn a_table_bomb_meets_its_ceiling() {
    assert_eq!(
        fault(&table_bomb(), tight()),
        FaultKind::OverLimit {
            what: "table elements",
            granted: 1_000
        }
    );
}

#[test]
fn a_component_with_more_instances_than_granted_is_not_loaded() {
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
        FaultKind::OverLimit {
            what: "instances",
            granted: 0
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
fn deep_recursion_is_harmless_on_a_thread_with_a_small_stack() {
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
fn an_answer_that_is_too_large_is_refused_before_it_is_copied() {
    assert_eq!(
        fault(&huge_output(), tight()),
        FaultKind::OverLimit {
            what: "output bytes",
            granted: 64 << 10
        }
    );
}

#[test]
fn too_many_diagnostics_are_refused() {
    let limits = Limits {
        diagnostics: 100,
        ..tight()
    };
    assert_eq!(
        fault(&many_diagnostics(101), limits.clone()),
        FaultKind::OverLimit {
            what: "diagnostics",
            granted: 100
        }
    );
    // So many that even their list is not copied.
    assert_eq!(
        fault(&many_diagnostics(50_000), limits),
        FaultKind::OverLimit {
            what: "output bytes",
            granted: 64 << 10
        }
    );
}

#[test]
fn a_refusal_without_a_reason_breaks_the_contract() {
    let FaultKind::BadAnswer(why) = fault(&many_diagnostics(0), tight()) else {
        panic!()
    };
    assert_eq!(why, "it refused without an error");
}

#[test]
fn malformed_json_is_a_bad_answer() {
    for output in [&b"{"[..], b"", b"[]", b"{\"id\":1}", b"nonsense"] {
        let guest = Guest {
            output: output.into(),
            ..Guest::default()
        };
        let kind = fault(&guest, tight());
        assert!(
            matches!(&kind, FaultKind::BadAnswer(why) if why.contains("expansion/v1")),
            "{kind}"
        );
    }
}

#[test]
fn json_of_endless_depth_is_a_bad_answer() {
    let guest = Guest {
        output: [b"[".repeat(20_000), b"]".repeat(20_000)].concat(),
        ..Guest::default()
    };
    assert!(matches!(fault(&guest, tight()), FaultKind::BadAnswer(_)));
}

#[test]
fn invalid_utf_8_is_a_bad_answer() {
    let kind = fault(
        &Guest {
            output: vec![b'"', 0xff, b'"'],
            ..Guest::default()
        },
        tight(),
    );
    assert!(
        matches!(&kind, FaultKind::BadAnswer(why) if why.contains("utf-8")),
        "{kind}"
    );
}

#[test]
fn a_pointer_outside_the_guests_memory_is_a_bad_answer() {
    let guest = body("(i32.store offset=12 (global.get $answer) (i32.const 0x7fffff00))");
    let kind = fault(&guest, tight());
    assert!(matches!(kind, FaultKind::BadAnswer(_)), "{kind}");
}

#[test]
fn a_variable_with_an_impossible_name_is_a_bad_answer() {
    let output = br#"{"id":"a","type":"t","wants":[{"env":"PATH=x"}]}"#;
    let kind = fault(
        &Guest {
            output: output.to_vec(),
            ..Guest::default()
        },
        tight(),
    );
    assert!(
        matches!(&kind, FaultKind::BadAnswer(why) if why.contains("PATH=x")),
        "{kind}"
    );
}

#[test]
fn a_guest_that_counts_its_calls_answers_the_same_each_time() {
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
    let first = plugin.call_afresh(&expand("a")).unwrap();
    assert_eq!(
        first.answer.to_json(),
        r#"{"output":{"id":"1","type":"t"},"warnings":[]}"#
    );
    for _ in 0..10 {
        let again = plugin.call_afresh(&expand("a")).unwrap();
        assert_eq!(
            (again.answer, again.fuel),
            (first.answer.clone(), first.fuel)
        );
    }
}

#[test]
fn a_guest_finds_nothing_in_memory_that_another_left_there() {
    let host = host(tight());
    let load = |guest: &Guest| host.load(&guest.build(), Origin::BuiltIn).unwrap();
    let litterer = load(&body(
        "(drop (memory.grow (i32.const 4)))
         (memory.fill (i32.const 131072) (i32.const 171) (i32.const 262144))",
    ));
    let searcher = load(&Guest {
        output: br#"{"id":"0","type":"t"}"#.to_vec(),
        fields: "(func $litter (result i32) (local $at i32)
                   (drop (memory.grow (i32.const 4)))
                   (local.set $at (i32.const 131072))
                   (loop $next
                     (if (i32.load (local.get $at)) (then (return (i32.const 1))))
                     (local.set $at (i32.add (local.get $at) (i32.const 4)))
                     (br_if $next (i32.lt_u (local.get $at) (i32.const 393216))))
                   (i32.const 0))"
            .into(),
        // Writes what it found over the digit of the id.
        ..body("(i32.store8 offset=7 (global.get $json) (i32.add (i32.const 48) (call $litter)))")
    });
    for _ in 0..10 {
        litterer.call_afresh(&expand("a")).unwrap();
        let found = searcher.call_afresh(&expand("a")).unwrap();
        assert_eq!(
            found.answer.to_json(),
            r#"{"output":{"id":"0","type":"t"},"warnings":[]}"#
        );
    }
}

#[test]
fn the_fault_names_plugin_digest_and_call() {
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
fn neither_memory_nor_the_next_call_notices_what_hostile_guests_did() {
    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
    let host = host(tight());
    let good = host
        .load(&Guest::default().build(), Origin::BuiltIn)
        .unwrap();
    let before = good.call_afresh(&expand("a")).unwrap();
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
            let after = good.call_afresh(&expand("a")).unwrap();
            assert_eq!((&after.answer, after.fuel), (&before.answer, before.fuel));
        }
    };
    round();
    let settled = resident_bytes();
    for _ in 0..20 {
        round();
    }
    let grown = resident_bytes().saturating_sub(settled);
    // Other tests of this binary run beside this one; a leak of the bombs' memory would be 80 MiB
    // for each of them.
    assert!(grown < 64 << 20, "grew by {grown} bytes");
}
