//! The error messages of xtask-artifacts.

use std::process::Command;

#[test]
fn a_missing_binary_is_reported_with_the_fix_and_without_a_backtrace() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask-artifacts"))
        .args(["package", "--binary", "/no/such/llsd"])
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: the binary /no/such/llsd was not found; build it, or leave out --binary\n"
    );
}
