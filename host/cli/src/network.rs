//! The commands that talk to a cluster or a registry.
//!
//! They are a cargo feature because their libraries take as long to compile as everything else: a
//! build that only renders and checks files leaves them out.

mod caches;
mod cluster;
mod doctor;
mod image;
mod image_base;
mod migrate;
mod operator;
mod outlook;
pub(crate) mod plugin;
mod preview;
mod registry;
mod webhooks;
mod why;

pub(crate) use image_base::ImageOptions;
pub(crate) use registry::is_refusal;

use crate::Verdict;

/// What to do on a network.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Look into distribution images, and label them with their configuration
    #[command(subcommand)]
    Image(image::Command),
    /// Have the cluster store every resource in the newest version of the API
    Migrate,
    /// Ask a cluster whether llsd is installed and does its work; stores nothing
    Doctor(doctor::Arguments),
    /// Watch a cluster's resources and serve them
    Operator(operator::Arguments),
    /// Show what the operator would change in the cluster for a resource, and change nothing
    Preview(preview::Arguments),
    /// Show everything that explains the state of a resource: conditions, events, plugin, configuration
    Why(why::Arguments),
}

/// Does it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Image(command) => image::run(command),
        Command::Migrate => migrate::run(),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Operator(arguments) => operator::run(arguments),
        Command::Preview(arguments) => preview::run(arguments),
        Command::Why(arguments) => why::run(arguments),
    }
}
