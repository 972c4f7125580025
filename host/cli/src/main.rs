//! `llsd`: one binary that renders, checks, tests plugins and runs the operator.
//!
//! Data goes to standard output, talk to standard error. Exit status: 0 done, 1 refused or
//! different, 2 could not run.

mod adapters;
mod caches;
mod check;
mod completions;
mod convert;
mod crd;
mod diff;
mod files;
mod generation;
#[cfg(feature = "network")]
mod network;
mod plugin;
mod reference;
mod render;
mod talk;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Runs LlamaStack servers on Kubernetes from a short resource, in the dialect of each release.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Turn a resource and a base configuration into the server's configuration
    Render(render::Arguments),
    /// Say everything that is wrong with resources, and what to look at
    Check(check::Arguments),
    /// Write, test, compare, publish and fetch schema adapters
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Write a resource in another version of the API
    Convert(convert::Arguments),
    /// Print the custom resource definitions
    Crd(crd::Arguments),
    #[cfg(feature = "network")]
    #[command(flatten)]
    Network(network::Command),
    /// Print the completions for a shell
    Completions(completions::CompletionsArguments),
    /// Print or write the manual pages
    Man(completions::ManArguments),
}

/// How a command ended, when it could run.
enum Verdict {
    /// As asked.
    Done,
    /// Refused, or different from what was expected.
    Refused,
}

fn main() -> ExitCode {
    if let Some(code) = llsd_plugin::child_main() {
        return code;
    }
    let outcome = match arguments().command {
        Command::Render(arguments) => render::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Plugin(command) => plugin::run(&command),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Crd(arguments) => crd::run(&arguments),
        #[cfg(feature = "network")]
        Command::Network(command) => network::run(&command),
        Command::Completions(arguments) => {
            completions::completions(&arguments, Arguments::command())
        }
        Command::Man(arguments) => completions::man(&arguments, Arguments::command()),
    };
    match outcome {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::Refused) => ExitCode::from(1),
        Err(error) => {
            talk::failure(&error);
            ExitCode::from(if is_refusal(&error) { 1 } else { 2 })
        }
    }
}

#[cfg(feature = "network")]
use network::is_refusal;

/// Without a registry no failure is about what one holds.
#[cfg(not(feature = "network"))]
fn is_refusal(_: &anyhow::Error) -> bool {
    false
}

/// What was asked for. kubectl finds the program as its plugin under another name, and help then
/// speaks of it as it was called.
fn arguments() -> Arguments {
    let name = std::env::args_os().next().unwrap_or_default();
    let mut command = Arguments::command();
    if Path::new(&name).file_stem() == Some(OsStr::new("kubectl-llsd")) {
        command = command.bin_name("kubectl llsd");
    }
    let matches = command.clone().get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}
