//! `xtask-artifacts`: the tasks that create files.
//!
//! `cargo xtask` runs this program after checking the prerequisites. It is a separate package, because
//! its dependencies take longer to compile than xtask.

mod artifact_index;
mod bindings;
mod chart;
mod deny;
mod generate;
mod image;
mod olm;
mod package;
mod plugin_artifacts;
mod plugins;
mod plugins_diff;
mod release;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Create files of this repository; run it through `cargo xtask`")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build every plugin to <name>.wasm
    Plugins {
        /// The folder to write to; target/plugins if it is left out
        #[arg(long, value_name = "FOLDER", requires = "build_folder")]
        output: Option<PathBuf>,
        /// The folder that cargo builds in
        #[arg(long, value_name = "FOLDER", requires = "output")]
        build_folder: Option<PathBuf>,
    },
    /// Compare every plugin with that of the last release
    PluginsDiff {
        /// The folder `plugins` of the last release archive
        #[arg(long, value_name = "FOLDER")]
        released: PathBuf,
        /// The folder with the configurations that the server releases ship
        #[arg(long, value_name = "FOLDER")]
        bases: PathBuf,
    },
    /// Make a release from static binaries
    Release(release::Options),
    /// Check licences, sources and duplicates of all dependencies
    Deny,
    /// Create the release archive and the OCI layout of the plugins in target/package
    Package {
        /// The llsd binary to pack
        #[arg(long, value_name = "FILE")]
        binary: PathBuf,
    },
    /// Write the operator's image as an OCI layout
    Image {
        /// The static llsd binary
        #[arg(long, value_name = "FILE")]
        binary: PathBuf,
        /// The Rust target of the binary
        #[arg(long)]
        target: String,
        /// The folder to write to
        #[arg(long, value_name = "FOLDER")]
        output: PathBuf,
    },
    /// Write the generated files, with the llsd of the last build
    Generate {
        /// Write nothing; fail if a file is out of date
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    xtask::report::install_panic_message();
    xtask::report::exit_code(match Arguments::parse().task {
        Task::Plugins {
            output: Some(output),
            build_folder: Some(build_folder),
        } => plugins::build_to(&output, &build_folder),
        Task::Plugins { .. } => plugins::build_all().map(|_| ()),
        Task::PluginsDiff { released, bases } => plugins_diff::run(&released, &bases),
        Task::Release(options) => release::run(&options),
        Task::Deny => deny::run(),
        Task::Package { binary } => package::run(&binary),
        Task::Image {
            binary,
            target,
            output,
        } => image::run(&binary, &target, &output),
        Task::Generate { check } => generate::run(check),
    })
}
