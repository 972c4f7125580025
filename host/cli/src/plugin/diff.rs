//! `llsd plugin diff`: compares the configurations that two versions of a plugin generate.

use std::path::{Path, PathBuf};

use anyhow::Context;
use llsd_plugin::Plugin;

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
    /// `<case>.base.yaml`
    #[arg(long, value_name = "FOLDER")]
    corpus: PathBuf,
    /// Case that is expected to differ; repeatable
    #[arg(long, value_name = "CASE")]
    expect: Vec<String>,
    #[command(flatten)]
    generation: generation::BaseOptions,
}

/// Rejects if a case differs that is not expected to.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let host = plugin_loader::host()?;
    let before = [plugin_loader::load_file(&host, &arguments.before)?];
    let after = [plugin_loader::load_file(&host, &arguments.after)?];
    let (mut same, mut unexpected) = (0, 0);
    for case in cases(&arguments.corpus)? {
        let old = outcome(&case, arguments, &before)?;
        let new = outcome(&case, arguments, &after)?;
        if old == new {
            same += 1;
            continue;
        }
        let is_expected = arguments.expect.contains(&case.name);
        unexpected += u32::from(!is_expected);
        output::print(&format!(
            "{}{}",
            case.name,
            if is_expected {
                ": differs, as expected"
            } else {
                ": differs"
            }
        ));
        output::print_styled(&text_diff::unified(&old, &new));
    }
    output::print_progress(&format!(
        "{same} equal, {unexpected} unexpected differences"
    ));
    Ok(if unexpected == 0 {
        Exit::Success
    } else {
        Exit::Rejected
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
fn outcome(case: &Case, arguments: &Arguments, plugins: &[Plugin]) -> anyhow::Result<String> {
    let mut text = String::new();
    let base = match &case.base {
        Some(file) => Some(LoadedBase::from_file(file)?),
        None => None,
    };
    for resource in files::distributions(&case.resource)? {
        let report = generation::run(resource, base.as_ref(), &arguments.generation, plugins)?;
        for diagnostic in &report.diagnostics {
            text += &format!("# {diagnostic}\n");
        }
        match report.outcome {
            Outcome::Generated(generated) => text += &generated.yaml,
            Outcome::Unchanged => text += "# the base configuration, unchanged\n",
            Outcome::Override(config_map) => text += &format!("# ConfigMap {config_map}\n"),
            Outcome::Rejected(_) => text += "# rejected\n",
        }
    }
    Ok(text)
}
