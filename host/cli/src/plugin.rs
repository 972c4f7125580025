//! `llsd plugin …`: the commands for plugin authors.

mod bench;
mod build;
mod diff;
mod embedded;
mod new;
mod replay;
mod run;
mod test;

use crate::Exit;

/// The commands.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a plugin from a template, with the SDK and the contract of this version
    New(new::Arguments),
    /// Replace the SDK and the contract in a plugin by those of this version
    Sdk(new::SdkArguments),
    /// Build a plugin as a WebAssembly component
    Build(build::Arguments),
    /// Call one function of a plugin with JSON input
    Run(run::Arguments),
    /// Run the conformance suite against a plugin
    Test(test::Arguments),
    /// Measure latency and fuel, and compare them with a baseline
    Bench(bench::Arguments),
    /// Compare the configurations that two plugins generate
    Diff(diff::Arguments),
    /// Repeat a generation that `llsd render --requests` recorded, and compare
    Replay(replay::Arguments),
    #[cfg(feature = "network")]
    #[command(flatten)]
    Published(crate::network::plugin::Command),
}

/// Runs a command.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::New(arguments) => new::run(arguments),
        Command::Sdk(arguments) => new::update_sdk(arguments),
        Command::Build(arguments) => build::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Test(arguments) => test::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        #[cfg(feature = "network")]
        Command::Published(command) => crate::network::plugin::run(command),
    }
}
