//! The commands that connect to a cluster or a registry.
//!
//! They are the cargo feature `network`. Their dependencies take as long to compile as everything
//! else, and a build that only renders and checks files does not need them.

mod adopt;
mod caches;
mod cluster;
mod doctor;
mod image;
mod image_base;
mod migrate;
mod operator;
mod operator_settings;
pub(crate) mod plugin;
mod preview;
mod registry;
mod resources;
mod rollouts;
mod update;
mod webhooks;
mod why;

pub(crate) use cluster::ClusterOptions;
pub(crate) use image_base::ImageOptions;
pub(crate) use registry::is_rejection;
pub(crate) use resources::ResourceOptions;

use crate::Exit;

/// The commands.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Take over a running server of ogx-k8s-operator without replacing its pods
    Adopt(adopt::Arguments),
    /// Inspect distribution images and label them with their configuration
    #[command(subcommand)]
    Image(image::Command),
    /// Migrate stored resources to the storage version
    Migrate,
    /// Check an installation with dry-run requests; stores nothing
    Doctor(doctor::Arguments),
    /// Run the operator
    Operator(operator::Arguments),
    /// Show what the operator would change in the cluster for a resource, as a diff
    Preview(preview::Arguments),
    /// Show how far existing resources follow new images, plugins, certificates and operators
    Rollouts(rollouts::Arguments),
    /// Go back to the previous revision of a resource
    Undo(update::UndoArguments),
    /// Take every update that is available to resources, after showing what would change
    Update(update::Arguments),
    /// Explain the state of a resource: conditions, events, plugin and configuration
    Why(why::Arguments),
}

/// Runs a command.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Adopt(arguments) => adopt::run(arguments),
        Command::Image(command) => image::run(command),
        Command::Migrate => migrate::run(),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Operator(arguments) => operator::run(arguments),
        Command::Preview(arguments) => preview::run(arguments),
        Command::Rollouts(arguments) => rollouts::run(arguments),
        Command::Undo(arguments) => update::undo(arguments),
        Command::Update(arguments) => update::run(arguments),
        Command::Why(arguments) => why::run(arguments),
    }
}
