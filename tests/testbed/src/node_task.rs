//! `testbed node`: starts, stops and runs a real node.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Subcommand;
use llsd_testbed::{Node, node};

use crate::{print_export, print_line, run_child, split_command};

#[derive(Subcommand)]
pub(crate) enum NodeTask {
    /// Fail with the reason if no node can run on this machine
    Check,
    /// Start a node in the background, unless one is running, and print its variables
    Up,
    /// Stop the node that `up` started, and remove what killed nodes left behind
    Down,
    /// Start a node, run a command with it, and stop it
    Run {
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run a node in a folder and clean up after it; `up` and tests start this
    #[command(hide = true)]
    Supervise {
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        detached: bool,
    },
    /// The first program inside a node; `supervise` starts this
    #[command(hide = true)]
    Init {
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        detached: bool,
    },
}

/// Runs one task.
pub(crate) async fn run(task: NodeTask) -> Result<ExitCode> {
    let folder = Node::detached_folder()?;
    match task {
        NodeTask::Check => {
            if let Some(reason) = node::unavailable() {
                print_line(&reason);
                return Ok(ExitCode::FAILURE);
            }
        }
        NodeTask::Up => {
            if !Node::is_running(&folder) {
                Node::stop(&folder).await?;
                Node::start_detached(&folder).await?;
            }
            print_export("LLSD_NODE", &folder);
            print_export("KUBECONFIG", &folder.join("admin.kubeconfig"));
        }
        NodeTask::Down => Node::stop(&folder).await?,
        NodeTask::Run { command } => {
            let node = Node::start().await?;
            let (program, arguments) = split_command(&command)?;
            let mut child = Command::new(program);
            child
                .args(arguments)
                .env("LLSD_NODE", &node.testbed().state().folder);
            return run_child(child);
        }
        NodeTask::Supervise { folder, detached } => node::supervise(&folder, detached).await?,
        NodeTask::Init { folder, detached } => node::init(&folder, detached).await?,
    }
    Ok(ExitCode::SUCCESS)
}
