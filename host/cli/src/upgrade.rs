//! `llsd upgrade plan`: what a move to another release does to resources, before it happens.
//!
//! Reads resources from files, folders or a cluster, generates their configuration for today's release
//! and for the other one with the code of the operator, and leaves the decision to [`plan`]. Nothing
//! changes, except the files if `--write` is set.

mod destination;
#[cfg(feature = "network")]
mod page;
mod plan;
mod planner;
mod report;
mod state;
mod subjects;
mod target;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use llsd_api::API_VERSION_V1ALPHA1;
use llsd_api::conversion::v1alpha1_path;
use llsd_render::served_schemas;

use crate::generation::BaseOptions;
use crate::output::{self, OutputFormat};
use crate::progress::Progress;
use crate::yaml_edit::{self, Edit};
use crate::{Exit, files, plugin_loader};
use destination::Destination;
#[cfg(feature = "network")]
pub(crate) use page::plan_page;
use plan::Verdict;
use planner::Planner;
use report::UpgradeReport;
pub(crate) use subjects::Subject;
use subjects::subjects;

/// The commands.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show what a move to another server release does to resources: which can move, what to edit, what is
    /// lost, and which data does not move by itself
    Plan(Box<Arguments>),
}

/// Arguments of `upgrade plan`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File or folder with resources, and with the ConfigMaps that they name; `-` for standard input;
    /// repeatable. By default the resources of the cluster
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    paths: Vec<PathBuf>,
    /// Release to move to: a dialect (ogx/1.0), a release (0.7.3) or an image
    #[arg(long, value_name = "RELEASE")]
    to: String,
    /// File with the base configuration of that release; by default that of its image
    #[arg(long, value_name = "FILE")]
    to_base_config: Option<PathBuf>,
    /// Make the mechanical edits in the files: the distribution, and names that changed
    #[arg(long, requires = "paths")]
    write: bool,
    /// Also write the report as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also print how the server's file changes
    #[arg(long)]
    diff: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Human)]
    output: OutputFormat,
    #[command(flatten)]
    generation: BaseOptions,
    #[cfg(feature = "network")]
    #[command(flatten)]
    cluster: crate::network::ResourceOptions,
}

/// Runs a command.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Plan(arguments) => run_plan(arguments),
    }
}

/// Rejects if a resource cannot move as it is.
fn run_plan(arguments: &Arguments) -> anyhow::Result<Exit> {
    let plugins = plugin_loader::load(&plugin_loader::host()?, &arguments.generation.plugins)?;
    let adapters = plugin_loader::as_adapters(&plugins);
    let release = Destination::find(arguments, &adapters)?;
    let subjects = subjects(arguments)?;
    let base = arguments.generation.load_base()?;
    let planner = Planner {
        options: &arguments.generation,
        adapters: &adapters,
        base: base.as_ref(),
        distributions: arguments.generation.settings.distributions()?,
    };
    let (report, edits) = plan_all(&planner, &subjects, &release)?;
    if let Some(path) = &arguments.html {
        files::write(path, report.page())?;
        output::print_note(&format!("wrote {}", path.display()));
    }
    match arguments.output {
        OutputFormat::Human => output::print_styled(&report.text(arguments.diff)),
        OutputFormat::Json => output::print(&serde_json::to_string_pretty(&report.json())?),
    }
    let mut is_done = true;
    for ((subject, row), edits) in subjects.iter().zip(&report.rows).zip(&edits) {
        let is_mechanical = row.plan.edits.iter().all(|edit| edit.is_mechanical);
        let can_write = row.plan.verdict <= Verdict::NeedsEdit && is_mechanical;
        if arguments.write && can_write && !edits.is_empty() {
            write(subject, edits)?;
        } else if arguments.write && !can_write {
            output::print_note(&format!(
                "{}: not changed: {}",
                row.subject(),
                row.plan.verdict.text()
            ));
        }
        is_done &= row.plan.verdict.is_ready() || (arguments.write && can_write);
    }
    Ok(if is_done {
        Exit::Success
    } else {
        Exit::Rejected
    })
}

/// The plans of all resources, and the mechanical edits of each.
fn plan_all(
    planner: &Planner<'_>,
    subjects: &[Subject],
    release: &Destination,
) -> anyhow::Result<(UpgradeReport, Vec<Vec<Edit>>)> {
    let releases = served_schemas(planner.adapters);
    let progress = Progress::of_items("planning", subjects.len());
    let mut rows = Vec::new();
    let mut edits = Vec::new();
    for subject in subjects {
        let (row, own) = planner
            .row(subject, release, &releases)
            .with_context(|| format!("failed to plan for {}", subject.place))?;
        rows.push(row);
        edits.push(own);
        progress.advance();
    }
    let report = UpgradeReport {
        to: release.name(),
        schema: release.schema.clone(),
        releases,
        rows,
    };
    Ok((report, edits))
}

/// Makes the edits in the file of a resource.
fn write(subject: &Subject, edits: &[Edit]) -> anyhow::Result<()> {
    let Some((path, place)) = &subject.file else {
        return Ok(());
    };
    if path == Path::new("-") {
        bail!("--write: standard input cannot be edited; pass a file");
    }
    let is_v1alpha1 = subject.object["apiVersion"] == API_VERSION_V1ALPHA1;
    let edits: Option<Vec<Edit>> = edits
        .iter()
        .map(|edit| {
            if is_v1alpha1 {
                edit.at_path(&v1alpha1_path)
            } else {
                Some(edit.clone())
            }
        })
        .collect();
    let Some(edits) = edits else {
        bail!(
            "{}: v1alpha1 does not have a field that must change; convert the file first with llsd convert",
            path.display()
        );
    };
    let text = yaml_edit::apply(&files::text(path)?, *place, &edits)
        .with_context(|| format!("failed to edit {}", path.display()))?;
    files::write(path, &text)?;
    output::print_note(&format!("{}: changed", subject.place));
    Ok(())
}
