//! `llsd plugin …`: the commands for plugin authors.

mod bench;
mod build;
mod diff;
mod new;
mod run;
mod test;

use crate::Exit;

/// The commands.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a plugin crate from a template
    New(new::Arguments),
    /// Build a plugin crate as a WebAssembly component
    Build(build::Arguments),
    /// Call one function of a plugin with JSON input
    Run(run::Arguments),
    /// Run the conformance suite against a plugin
    Test(test::Arguments),
    /// Measure latency and fuel, and compare them with a baseline
    Bench(bench::Arguments),
    /// Compare the configurations that two plugins generate
    Diff(diff::Arguments),
    #[cfg(feature = "network")]
    #[command(flatten)]
    Published(crate::network::plugin::Command),
}

/// Runs a command.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::New(arguments) => new::run(arguments),
        Command::Build(arguments) => build::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Test(arguments) => test::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        #[cfg(feature = "network")]
        Command::Published(command) => crate::network::plugin::run(command),
    }
}
