//! Exit code and error message of a task.

use std::process::ExitCode;

/// Prints the error with its causes, if there is one, and returns the exit code of the process.
///
/// `main` must not return the error: with `RUST_BACKTRACE`, the standard library would print it with a
/// backtrace, which does not help the user of xtask.
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

/// Replaces the message of a panic by one without a backtrace. A panic is a bug in xtask.
pub fn install_panic_message() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("error: xtask has a bug: {panic}\n  fix: report this message to the project");
    }));
}
