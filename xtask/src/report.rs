//! How a task ends: with an exit status and, after a failure, one error message with its causes.

use std::process::ExitCode;

/// Prints the error, if there is one, and returns the exit status of the process.
///
/// `main` must not return the error: the standard library would print it with a backtrace when
/// `RUST_BACKTRACE` is set, and the backtrace of xtask tells its user nothing.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  caused by: {cause}");
    }
    ExitCode::FAILURE
}

/// Makes a panic, which is a bug of xtask, print one message without a backtrace.
pub fn install_panic_message() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("error: xtask has a bug: {panic}\n  fix: report this message to the project");
    }));
}
