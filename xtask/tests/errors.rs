//! The error messages of xtask: an error and its causes, without a backtrace.

use std::path::Path;
use std::process::Command;

/// Runs xtask with backtraces enabled. It must fail. Returns standard error.
fn failure(arguments: &[&str], prepare: impl Fn(&mut Command)) -> String {
    let mut stderrs = Vec::new();
    for backtrace in ["1", "full"] {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask.args(arguments).env("RUST_BACKTRACE", backtrace);
        prepare(&mut xtask);
        let output = xtask.output().unwrap();
        assert!(!output.status.success(), "{arguments:?} did not fail");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !stderr.to_lowercase().contains("backtrace"),
            "{arguments:?}: {stderr}"
        );
        assert_ne!(output.status.code(), None, "{arguments:?}: {stderr}");
        stderrs.push(stderr);
    }
    stderrs.remove(0)
}

/// An empty target directory.
fn empty_target() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The arguments of a task, and a function that makes it fail.
type Failing<'a> = (&'a [&'a str], &'a dyn Fn(&mut Command));

#[test]
fn no_error_prints_a_backtrace() {
    let target = empty_target();
    let with_target = |xtask: &mut Command| {
        xtask.env("CARGO_TARGET_DIR", target.path());
    };
    let without_cargo = |xtask: &mut Command| {
        xtask.env("CARGO", "/no/such/cargo");
        with_target(xtask);
    };
    let without_cache = |xtask: &mut Command| {
        xtask.env_remove("LLSD_CACHE");
        xtask.env_remove("XDG_CACHE_HOME");
        xtask.env_remove("HOME");
    };
    let tasks: [Failing; 9] = [
        (&["no-such-task"], &|_| {}),
        (&["demo", "--built"], &with_target),
        (&["up", "--built"], &with_target),
        (&["demo"], &without_cargo),
        (&["test"], &without_cargo),
        (&["generate"], &without_cargo),
        (&["package", "--binary", "/no/such/llsd"], &without_cargo),
        (&["bench"], &without_cargo),
        (&["--prerequisites", "oracle"], &without_cache),
    ];
    for (arguments, prepare) in tasks {
        let stderr = failure(arguments, prepare);
        assert!(stderr.contains("error: "), "{arguments:?}: {stderr}");
    }
}

#[test]
fn an_error_is_printed_with_its_fix() {
    let target = empty_target();
    let stderr = failure(&["demo", "--built"], |xtask| {
        xtask.env("CARGO_TARGET_DIR", target.path());
    });
    let llsd = Path::new(target.path()).join("debug/llsd");
    let expected = format!(
        "error: {} was not found; leave out --built to build it\n",
        llsd.display()
    );
    assert!(stderr.ends_with(&expected), "{stderr}");
}
