//! Compiling external components in a child process, and each limit on it. This binary is its own
//! child process, which is why it has a `main`.

#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod guests;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use llsd_plugin::{
    CompileError, Compiler, Host, HostConfig, Limits, LoadError, Origin, child_main,
};

use guests::{Guest, expand};

const TESTS: [(&str, fn()); 9] = [
    (
        "an_external_component_is_compiled_by_a_child_to_the_same_plugin",
        same_plugin,
    ),
    ("a_compile_bomb_runs_out_of_time", out_of_time),
    (
        "a_compiler_that_gets_no_cpu_time_is_not_an_error_of_the_component",
        stalled,
    ),
    ("a_compile_bomb_runs_out_of_memory", out_of_memory),
    (
        "a_program_that_is_not_a_compiler_is_an_error",
        not_a_compiler,
    ),
    ("a_program_that_does_not_exist_is_an_error", no_program),
    (
        "a_component_from_outside_is_inspected_by_the_child",
        inspected_by_child,
    ),
    (
        "an_inspection_that_needs_too_much_memory_ends_in_the_child",
        inspection_out_of_memory,
    ),
    ("components_are_compiled_one_after_the_other", one_at_a_time),
];

fn main() -> ExitCode {
    if let Some(code) = child_main() {
        return code;
    }
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
        .unwrap_or_default();
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(test));
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        failed += usize::from(result.is_err());
        report(&format!(
            "test {name} ... {outcome} ({:.1?})",
            started.elapsed()
        ));
    }
    report(&format!("{failed} failed"));
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[allow(
    clippy::print_stdout,
    reason = "a test without a harness prints its own results"
)]
fn report(line: &str) {
    println!("{line}");
}

fn host(limits: Limits, compiler: Compiler) -> Host {
    Host::new(HostConfig {
        limits,
        compiler,
        ..HostConfig::default()
    })
    .unwrap()
}

fn compile_error(limits: Limits, compiler: Compiler, bytes: &[u8]) -> CompileError {
    match host(limits, compiler)
        .load(bytes, Origin::External)
        .unwrap_err()
    {
        LoadError::Compile(error) => error,
        other => panic!("{other}"),
    }
}

/// A valid adapter of a few hundred kilobytes with one function that takes long to compile: many
/// values, all live at once, across many branches.
fn compile_bomb() -> Vec<u8> {
    let mut fields = String::from("(func $bomb (param i64) (result i64)\n");
    let locals = 1_000;
    for local in 1..locals {
        writeln!(fields, "(local $v{local} i64)").unwrap();
    }
    for step in 0..30_000 {
        let (to, a, b) = (
            step % (locals - 1) + 1,
            (step * 7) % (locals - 1) + 1,
            (step * 13) % (locals - 1) + 1,
        );
        writeln!(
            fields,
            "(if (i64.eq (local.get $v{a}) (i64.const {step})) (then (local.set $v{to} (i64.mul (local.get $v{b}) (local.get 0)))))"
        )
        .unwrap();
    }
    fields.push_str("(local.get $v1))");
    Guest {
        fields,
        ..Guest::default()
    }
    .build()
}

fn same_plugin() {
    let bytes = Guest::default().build();
    let host = host(Limits::default(), Compiler::ThisProgram);
    let external = host
        .load(&bytes, Origin::External)
        .unwrap()
        .call_uncached(&expand("a"))
        .unwrap();
    let builtin = host
        .load(&bytes, Origin::BuiltIn)
        .unwrap()
        .call_uncached(&expand("a"))
        .unwrap();
    assert_eq!(
        (external.output, external.fuel),
        (builtin.output, builtin.fuel)
    );
}

fn out_of_time() {
    let limit = Duration::from_secs(1);
    let bomb = compile_bomb();
    let started = Instant::now();
    let error = compile_error(
        Limits {
            compile_time: limit,
            ..Limits::default()
        },
        Compiler::ThisProgram,
        &bomb,
    );
    assert!(
        matches!(error, CompileError::OutOfTime { limit: l } if l == limit),
        "{error}"
    );
    // Generous, because validation comes first and this machine may be busy.
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// A program that sleeps gets as little CPU time as one that waits for a core.
fn stalled() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sleeps");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let error = compile_error(
        Limits {
            compile_time: Duration::from_millis(10),
            ..Limits::default()
        },
        Compiler::Program(program),
        &Guest::default().build(),
    );
    assert!(matches!(error, CompileError::Stalled { .. }), "{error}");
    assert!(error.to_string().contains("CPU load"), "{error}");
}

fn out_of_memory() {
    // Enough for the process to start and for a typical component, but not for the bomb.
    let limit = 192 << 20;
    let limits = Limits {
        compile_memory_bytes: limit,
        compile_time: Duration::from_secs(600),
        ..Limits::default()
    };
    let good = host(limits.clone(), Compiler::ThisProgram)
        .load(&Guest::default().build(), Origin::External);
    assert!(good.is_ok(), "{:?}", good.err());
    let error = compile_error(limits, Compiler::ThisProgram, &compile_bomb());
    assert!(
        matches!(error, CompileError::OutOfMemory { limit: l } if l == limit),
        "{error}"
    );
}

fn not_a_compiler() {
    let error = compile_error(
        Limits::default(),
        Compiler::Program("/bin/true".into()),
        &Guest::default().build(),
    );
    assert!(matches!(error, CompileError::NotACompiler), "{error}");
}

fn no_program() {
    let error = compile_error(
        Limits::default(),
        Compiler::Program("/nowhere".into()),
        &Guest::default().build(),
    );
    assert!(matches!(error, CompileError::Start(_)), "{error}");
}

fn inspected_by_child() {
    let host = host(Limits::default(), Compiler::ThisProgram);
    let good = host.inspect(&Guest::default().build());
    assert!(good.problems.is_empty(), "{:?}", good.problems);
    assert_eq!(
        good.world.map(llsd_plugin::World::name),
        Some("schema-adapter")
    );
    let bytes = guests::doubled_types(17);
    for problem in [
        host.inspect(&bytes).problems.into_iter().next().unwrap(),
        host.load(&bytes, Origin::External).unwrap_err(),
    ] {
        assert!(matches!(problem, LoadError::TooComplex { .. }), "{problem}");
    }
    // The host process itself does not parse: without a child there is no inspection.
    let without = self::host(Limits::default(), Compiler::Program("/nowhere".into()));
    let problems = without.inspect(&Guest::default().build()).problems;
    assert!(
        matches!(problems[..], [LoadError::Compile(CompileError::Start(_))]),
        "{problems:?}"
    );
}

fn inspection_out_of_memory() {
    // Valid, but its twenty thousand types are more than the child may hold.
    let limits = Limits {
        compile_memory_bytes: 8 << 20,
        ..Limits::default()
    };
    let text: String = (0..20_000)
        .map(|number| format!("(type (record (field \"f{number}\" string)))"))
        .collect();
    let bytes = wat::parse_str(format!("(component {text})")).unwrap();
    let host = host(limits, Compiler::ThisProgram);
    let good = host.inspect(&Guest::default().build()).problems;
    assert!(good.is_empty(), "{good:?}");
    let problems = host.inspect(&bytes).problems;
    assert!(
        matches!(
            problems[..],
            [LoadError::Compile(CompileError::OutOfMemory { .. })]
        ),
        "{problems:?}"
    );
}

fn one_at_a_time() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let (script, log) = (folder.path().join("compiler"), folder.path().join("log"));
    let path = log.display();
    let text = format!("#!/bin/sh\necho start >> {path}\n/bin/sleep 0.3\necho end >> {path}\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Two hosts, as in a process with an operator and a webhook.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let compiler = Compiler::Program(script.clone());
                let error = compile_error(Limits::default(), compiler, &Guest::default().build());
                assert!(matches!(error, CompileError::NotACompiler), "{error}");
            });
        }
    });
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log, "start\nend\nstart\nend\n");
}
