//! `llsd plugin test`: the conformance suite.

use std::path::PathBuf;

use crate::{Verdict, adapters, talk};

/// What to test.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The component
    file: PathBuf,
    /// Folder of the plugin's own recorded calls and answers
    #[arg(long, value_name = "FOLDER")]
    fixtures: Option<PathBuf>,
}

/// Exit 1 when a check fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let plugin = adapters::load_file(&adapters::host()?, &arguments.file)?;
    let report = llsd_conformance::run(&plugin, arguments.fixtures.as_deref())?;
    for check in &report.checks {
        match &check.failure {
            None => talk::data(&format!("ok    {}", check.name)),
            Some(detail) => talk::data(&format!("FAIL  {}\n      {detail}", check.name)),
        }
    }
    let failed = report.checks.iter().filter(|check| check.failure.is_some()).count();
    talk::remark(&format!("{} passed, {failed} failed", report.checks.len() - failed));
    Ok(if failed == 0 { Verdict::Done } else { Verdict::Refused })
}
