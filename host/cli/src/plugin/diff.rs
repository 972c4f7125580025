//! `llsd plugin diff`: compares the configurations that two versions of a plugin generate.

use std::path::{Path, PathBuf};

use anyhow::Context;
use llsd_plugin::{Plugin, Request};

use crate::generation::{self, LoadedBase, Outcome};
use crate::{Exit, files, output, plugin_loader, text_diff};

/// Arguments of `plugin diff`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Component that is in use
    before: PathBuf,
    /// Component to compare with it
    after: PathBuf,
    /// Directory of cases: resources `<case>.yaml`, with optional base configurations
    /// `<case>.base.yaml`. Others use --base-config or --image
    #[arg(long, value_name = "FOLDER", required_unless_present = "fixtures")]
    corpus: Option<PathBuf>,
    /// Directory with recorded requests, as for `llsd plugin test --fixtures`; each is a case
    #[arg(long, value_name = "FOLDER")]
    fixtures: Option<PathBuf>,
    /// Case that is expected to differ; repeatable
    #[arg(long, value_name = "CASE")]
    expect: Vec<String>,
    #[command(flatten)]
    generation: generation::BaseOptions,
}

/// Rejects if a case differs that is not expected to.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let host = plugin_loader::host()?;
    let version = |file: &Path| -> anyhow::Result<Vec<Plugin>> {
        let mut plugins = vec![plugin_loader::load_file(&host, file)?];
        plugins.extend(plugin_loader::load_given(
            &host,
            &arguments.generation.plugins,
        )?);
        Ok(plugins)
    };
    let (before, after) = (version(&arguments.before)?, version(&arguments.after)?);
    let base = arguments.generation.load_base()?;
    let (mut same, mut unexpected) = (0, 0);
    let mut compare = |name: &str, old: &str, new: &str| {
        if old == new {
            same += 1;
            return;
        }
        let is_expected = arguments.expect.iter().any(|expected| expected == name);
        unexpected += u32::from(!is_expected);
        output::print(&format!(
            "{name}{}",
            if is_expected {
                ": differs, as expected"
            } else {
                ": differs"
            }
        ));
        output::print_styled(&text_diff::unified(old, new));
    };
    if let Some(corpus) = &arguments.corpus {
        for case in cases(corpus)? {
            let old = outcome(&case, base.as_ref(), arguments, &before)?;
            let new = outcome(&case, base.as_ref(), arguments, &after)?;
            compare(&case.name, &old, &new);
        }
    }
    if let Some(fixtures) = &arguments.fixtures {
        for fixture in llsd_conformance::read_fixtures(fixtures)? {
            let old = answer(&before[0], &fixture.request)?;
            let new = answer(&after[0], &fixture.request)?;
            compare(&fixture.name, &old, &new);
        }
    }
    output::print_note(&format!(
        "{same} equal, {unexpected} unexpected differences"
    ));
    Ok(if unexpected == 0 {
        Exit::Success
    } else {
        Exit::Rejected
    })
}

/// The answer of a plugin as indented JSON, or the message of the failed call.
fn answer(plugin: &Plugin, request: &Request) -> anyhow::Result<String> {
    Ok(match plugin.call(request) {
        Ok(response) => {
            let json: serde_json::Value = serde_json::from_str(&response.output.to_json())?;
            serde_json::to_string_pretty(&json)? + "\n"
        }
        Err(fault) => format!("# {}\n", fault.kind),
    })
}

struct Case {
    name: String,
    resource: PathBuf,
    base: Option<PathBuf>,
}

fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?
    {
        let resource = entry?.path();
        let file = resource
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let Some(name) = file
            .strip_suffix(".yaml")
            .filter(|name| !name.ends_with(".base"))
        else {
            continue;
        };
        let base = folder.join(format!("{name}.base.yaml"));
        cases.push(Case {
            name: name.to_owned(),
            base: base.exists().then_some(base),
            resource,
        });
    }
    anyhow::ensure!(
        !cases.is_empty(),
        "{} contains no resources",
        folder.display()
    );
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// The result of a case as a string: diagnostics and configuration.
fn outcome(
    case: &Case,
    default_base: Option<&LoadedBase>,
    arguments: &Arguments,
    plugins: &[Plugin],
) -> anyhow::Result<String> {
    let mut text = String::new();
    let own = match &case.base {
        Some(file) => Some(LoadedBase::from_file(file)?),
        None => None,
    };
    let base = own.as_ref().or(default_base);
    for resource in files::distributions(&case.resource)? {
        let report = generation::run(resource, base, &arguments.generation, plugins)?;
        for diagnostic in &report.diagnostics {
            text += &format!("# {diagnostic}\n");
        }
        match report.outcome {
            Outcome::Generated(generated) => text += &generated.yaml,
            Outcome::Unchanged => text += "# the base configuration, unchanged\n",
            Outcome::Override { config_map, .. } => text += &format!("# ConfigMap {config_map}\n"),
            Outcome::Rejected(_) => text += "# rejected\n",
        }
    }
    Ok(text)
}
