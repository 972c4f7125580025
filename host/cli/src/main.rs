//! `llsd`: one binary for the operator and its command line.
//!
//! Data is written to standard output, messages to standard error. Exit codes: 0 success, 1 rejected
//! or different, 2 failed to run.

mod caches;
mod check;
mod completions;
mod convert;
mod crd;
mod diff;
#[cfg(feature = "network")]
mod explore;
mod files;
mod generation;
#[cfg(feature = "network")]
mod network;
mod objects;
mod operator_config_map;
mod output;
mod page;
mod plugin;
mod plugin_loader;
mod progress;
mod recording;
mod reference;
mod render;
mod text_diff;
mod upgrade;
mod yaml_edit;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

// That of musl takes twice the CPU time (decision 24).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Run LlamaStack servers on Kubernetes, and develop the plugins that configure them
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate the server configuration of a resource
    Render(render::Arguments),
    /// Validate resources and report every problem
    Check(check::Arguments),
    /// Create, build, test and publish plugins
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Try out resources in a page: configuration, objects, and which releases accept them
    #[cfg(feature = "network")]
    Explore(explore::Arguments),
    /// Convert resources to another API version, or from and to those of ogx-k8s-operator
    Convert(convert::Arguments),
    /// Show what a change of files does to configurations and Kubernetes objects
    Diff(Box<diff::Arguments>),
    /// Plan a move to another server release
    #[command(subcommand)]
    Upgrade(upgrade::Command),
    /// Print the custom resource definitions
    Crd(crd::Arguments),
    #[cfg(feature = "network")]
    #[command(flatten)]
    Network(network::Command),
    /// Print the completion script for a shell
    Completions(completions::CompletionsArguments),
    /// Print or write the manual pages
    Man(completions::ManArguments),
}

/// The result of a command that could run.
enum Exit {
    /// Exit code 0.
    Success,
    /// Exit code 1: the input was rejected, or differs from what was expected.
    Rejected,
}

fn main() -> ExitCode {
    if let Some(code) = llsd_plugin::child_main() {
        return code;
    }
    let outcome = match arguments().command {
        Command::Render(arguments) => render::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Plugin(command) => plugin::run(&command),
        #[cfg(feature = "network")]
        Command::Explore(arguments) => explore::run(arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Upgrade(command) => upgrade::run(&command),
        Command::Crd(arguments) => crd::run(&arguments),
        #[cfg(feature = "network")]
        Command::Network(command) => network::run(&command),
        Command::Completions(arguments) => {
            completions::completions(&arguments, Arguments::command())
        }
        Command::Man(arguments) => completions::man(&arguments, Arguments::command()),
    };
    match outcome {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Rejected) => ExitCode::from(1),
        Err(error) => {
            output::print_error(&error);
            ExitCode::from(if is_rejection(&error) { 1 } else { 2 })
        }
    }
}

#[cfg(feature = "network")]
use network::is_rejection;

/// Whether an error means exit code 1. Without network commands, none does.
#[cfg(not(feature = "network"))]
fn is_rejection(_: &anyhow::Error) -> bool {
    false
}

/// Parses the command line. Started as the kubectl plugin `kubectl-llsd`, the help text shows
/// `kubectl llsd` as the command.
fn arguments() -> Arguments {
    let name = std::env::args_os().next().unwrap_or_default();
    let mut command = Arguments::command();
    if Path::new(&name).file_stem() == Some(OsStr::new("kubectl-llsd")) {
        command = command.bin_name("kubectl llsd");
    }
    let matches = command.clone().get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_every_command_are_consistent() {
        Arguments::command().debug_assert();
    }
}
