//! `llsd diff`: what a change of files does to configurations and Kubernetes objects.
//!
//! Both sides are generated with the code of the operator and compared by [`compare`]. Reads files,
//! folders or Git revisions, and no cluster.

mod compare;
mod report;
mod revisions;

use std::path::{Path, PathBuf};

use llsd_api::{Diagnostic, KIND};
use llsd_plugin::Plugin;
use llsd_render::objects::ConfigPlan;
use llsd_render::yaml;
use serde_json::Value;

use crate::generation::{self, BaseOptions, LoadedBase, Outcome, Overrides};
use crate::operator_config_map::Distributions;
use crate::{Exit, files, objects, output, plugin_loader};
use compare::{Rendered, Resources};
use revisions::{Range, SourceFile};

/// Arguments of `diff`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File or folder before and after the change; with --git, paths in the repository, by default all
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Compare Git revisions: main...HEAD (since the branch began), A..B, or A (and the working tree)
    #[arg(long, value_name = "RANGE")]
    git: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Human)]
    output: Format,
    /// Exit with 1 if a resource changes. By default only if a changed resource is rejected
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    generation: BaseOptions,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Text for people
    Human,
    /// JSON with stable keys
    Json,
    /// Markdown for a review comment
    Markdown,
}

/// Rejects if a changed resource is invalid, or with `--exit-code` if one changes.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let (old, new) = sides(arguments)?;
    let plugins = plugin_loader::load(&plugin_loader::host()?, &arguments.generation.plugins)?;
    let renderer = Renderer {
        options: &arguments.generation,
        plugins: &plugins,
        base: arguments.generation.load_base()?,
        distributions: arguments.generation.settings.distributions()?,
    };
    let changes = compare::compare(&renderer.resources(&old)?, &renderer.resources(&new)?);
    match arguments.output {
        Format::Human if changes.is_empty() => output::print_note("no resource changes"),
        Format::Human => output::print_styled(&report::text(&changes)),
        Format::Json => output::print(&serde_json::to_string_pretty(&report::json(&changes))?),
        Format::Markdown => output::print(&report::markdown(&changes)),
    }
    let is_rejected = changes.iter().any(|change| !change.problems.is_empty());
    Ok(
        if is_rejected || (arguments.exit_code && !changes.is_empty()) {
            Exit::Rejected
        } else {
            Exit::Success
        },
    )
}

fn sides(arguments: &Arguments) -> anyhow::Result<(Vec<SourceFile>, Vec<SourceFile>)> {
    if let Some(range) = &arguments.git {
        let paths = arguments
            .paths
            .iter()
            .map(|path| path.display().to_string());
        return revisions::sides(&Range::parse(range)?, &paths.collect::<Vec<_>>());
    }
    let [old, new] = arguments.paths.as_slice() else {
        anyhow::bail!(
            "pass the files or folders before and after the change, or Git revisions with --git"
        );
    };
    Ok((of_path(old)?, of_path(new)?))
}

fn of_path(path: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let files = files::yaml_files(path)?;
    let read = |file: PathBuf| {
        Ok(SourceFile {
            text: files::text(&file)?,
            path: file.display().to_string(),
        })
    };
    files.into_iter().map(read).collect()
}

/// Generates one side.
struct Renderer<'a> {
    options: &'a BaseOptions,
    plugins: &'a [Plugin],
    base: Option<LoadedBase>,
    distributions: Distributions,
}

impl Renderer<'_> {
    fn resources(&self, files: &[SourceFile]) -> anyhow::Result<Resources> {
        let mut found: Vec<(&str, Value)> = Vec::new();
        for SourceFile { path, text } in files {
            match files::documents(text) {
                Ok(documents) => {
                    found.extend(documents.into_iter().map(|one| (path.as_str(), one)))
                }
                // Templates look like YAML and are not.
                Err(_) if !text.contains(KIND) => {}
                Err(error) => output::print_note(&format!("skipped {path}: {error:#}")),
            }
        }
        let maps: Vec<Value> = found
            .iter()
            .filter(|(_, object)| object["kind"] == "ConfigMap")
            .map(|(_, object)| object.clone())
            .collect();
        let mut resources = Resources::new();
        for (path, object) in found
            .into_iter()
            .filter(|(_, object)| object["kind"] == KIND)
        {
            let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
            let name = text("name").unwrap_or_else(|| "(unnamed)".to_owned());
            let name = match text("namespace") {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            };
            // The same name in two files, for example for two clusters, is two resources.
            let key = match resources.contains_key(&name) {
                true => format!("{name} ({path})"),
                false => name,
            };
            let mut rendered = self.render(object, &maps)?;
            path.clone_into(&mut rendered.file);
            resources.insert(key, rendered);
        }
        Ok(resources)
    }

    fn render(&self, object: Value, maps: &[Value]) -> anyhow::Result<Rendered> {
        let mut rendered = Rendered {
            resource: yaml::write(&object),
            ..Rendered::default()
        };
        let overrides = Overrides {
            schema: None,
            objects: maps,
        };
        let report = generation::run_with(
            object,
            self.base.as_ref(),
            self.options,
            overrides,
            &plugin_loader::as_adapters(self.plugins),
        )?;
        for diagnostic in &report.diagnostics {
            match diagnostic.is_error() {
                true if diagnostic.code == "no-base" => rendered.is_unread = true,
                true => rendered.problems.push(diagnostic.to_string()),
                false => rendered.warnings.push(diagnostic.to_string()),
            }
        }
        let plan = match report.outcome {
            Outcome::Generated(generated) => {
                rendered.config = Some(generated.yaml.clone());
                ConfigPlan::Generated(generated)
            }
            Outcome::Override { config_map, digest } => ConfigPlan::Override { config_map, digest },
            Outcome::Unchanged => ConfigPlan::DistributionDefault,
            Outcome::Rejected(_) => return Ok(rendered),
        };
        let Some(checked) = &report.checked else {
            return Ok(rendered);
        };
        match objects::list(checked, &plan, &self.distributions) {
            Ok(all) => {
                // The file is compared by itself.
                let is_file = |one: &objects::RenderedObject| {
                    rendered.config.is_some()
                        && one.kind == "ConfigMap"
                        && one.yaml.contains("\n  config.yaml:")
                };
                let all = all.into_iter().filter(|one| !is_file(one));
                rendered.objects = all
                    .map(|one| (format!("{} {}", one.kind, one.name), one.yaml))
                    .collect();
            }
            Err(problems) => {
                let problems = problems.into_iter();
                rendered
                    .problems
                    .extend(problems.map(|one: Diagnostic| one.to_string()));
            }
        }
        Ok(rendered)
    }
}
