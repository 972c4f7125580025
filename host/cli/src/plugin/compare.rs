//! `llsd plugin diff A B --corpus FOLDER`: what a new version of a plugin would change.

use std::path::{Path, PathBuf};

use anyhow::Context;
use llsd_plugin::Plugin;

use crate::generation::{self, GivenBase, Outcome};
use crate::{Verdict, adapters, diff, files, talk};

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The component in use
    before: PathBuf,
    /// The candidate
    after: PathBuf,
    /// Folder of cases: every resource `<case>.yaml`, with its base beside it as `<case>.base.yaml`
    #[arg(long, value_name = "FOLDER")]
    corpus: PathBuf,
    /// Cases that are meant to differ; may be repeated
    #[arg(long, value_name = "CASE")]
    expect: Vec<String>,
    #[command(flatten)]
    generation: generation::BaseOptions,
}

/// Exit 1 when a case differs that was not expected to.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let host = adapters::host()?;
    let before = [adapters::load_file(&host, &arguments.before)?];
    let after = [adapters::load_file(&host, &arguments.after)?];
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
        talk::data(&format!(
            "{}{}",
            case.name,
            if is_expected {
                ": differs, as expected"
            } else {
                ": differs"
            }
        ));
        talk::data(&diff::unified(&old, &new));
    }
    talk::remark(&format!(
        "{same} the same, {unexpected} different without being expected"
    ));
    Ok(if unexpected == 0 {
        Verdict::Done
    } else {
        Verdict::Refused
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
        std::fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?
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
    anyhow::ensure!(!cases.is_empty(), "{} holds no resource", folder.display());
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// Everything that a user could see of the case, as one text.
fn outcome(case: &Case, arguments: &Arguments, plugins: &[Plugin]) -> anyhow::Result<String> {
    let mut text = String::new();
    let base = match &case.base {
        Some(file) => Some(GivenBase::from_file(file)?),
        None => None,
    };
    for resource in files::distributions(&case.resource)? {
        let report = generation::run(resource, base.as_ref(), &arguments.generation, plugins)?;
        for finding in &report.found {
            text += &format!("# {finding}\n");
        }
        match report.outcome {
            Outcome::Generated(generated) => text += &generated.yaml,
            Outcome::Unchanged => text += "# the base unchanged\n",
            Outcome::Override(config_map) => text += &format!("# the ConfigMap {config_map}\n"),
            Outcome::Refused => text += "# refused\n",
        }
    }
    Ok(text)
}
