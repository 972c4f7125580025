//! `llsd`: one binary that renders, checks, tests plugins and runs the operator.
//!
//! Data goes to standard output, talk to standard error. Exit status: 0 done, 1 refused or
//! different, 2 could not run.

mod adapters;
mod check;
mod convert;
mod crd;
mod diff;
mod files;
mod generation;
mod image;
mod operator;
mod plugin;
mod registry;
mod render;
mod talk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Print the custom resource definitions
    Crd(crd::Arguments),
    /// Watch a cluster's resources and serve them
    Operator(operator::Arguments),
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
    let outcome = match Arguments::parse().command {
        Command::Render(arguments) => render::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Plugin(command) => plugin::run(&command),
        Command::Image(command) => image::run(&command),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Crd(arguments) => crd::run(&arguments),
        Command::Operator(arguments) => operator::run(&arguments),
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
