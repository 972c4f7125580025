//! `llsd`: one binary that renders, checks, tests plugins and runs the operator.
//!
//! Data goes to standard output, talk to standard error. Exit status: 0 done, 1 refused or
//! different, 2 could not run.

mod adapters;
mod caches;
mod check;
mod cluster;
mod completions;
mod convert;
mod crd;
mod diff;
mod doctor;
mod files;
mod generation;
mod image;
mod migrate;
mod operator;
mod outlook;
mod plugin;
mod preview;
mod reference;
mod registry;
mod render;
mod talk;
mod webhooks;
mod why;

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
    /// Look into distribution images, and label them with their configuration
    #[command(subcommand)]
    Image(image::Command),
    /// Write a resource in another version of the API
    Convert(convert::Arguments),
    /// Have the cluster store every resource in the newest version of the API
    Migrate,
    /// Ask a cluster whether llsd is installed and does its work; stores nothing
    Doctor(doctor::Arguments),
    /// Print the custom resource definitions
    Crd(crd::Arguments),
    /// Watch a cluster's resources and serve them
    Operator(operator::Arguments),
    /// Show what the operator would change in the cluster for a resource, and change nothing
    Preview(preview::Arguments),
    /// Show everything that explains the state of a resource: conditions, events, plugin, configuration
    Why(why::Arguments),
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
        Command::Image(command) => image::run(&command),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Migrate => migrate::run(),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Crd(arguments) => crd::run(&arguments),
        Command::Operator(arguments) => operator::run(&arguments),
        Command::Preview(arguments) => preview::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
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
            ExitCode::from(if registry::is_refusal(&error) { 1 } else { 2 })
        }
    }
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
