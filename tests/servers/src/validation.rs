//! The release's own code looks at configurations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::{Release, oracle, root, variable};

/// What a release thinks of one file.
#[derive(Debug, Deserialize)]
pub struct Verdict {
    file: PathBuf,
    /// What it found.
    pub findings: Vec<Finding>,
}

/// One thing that a release found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Finding {
    /// `ERROR` or `WARN`.
    pub level: String,
    /// Which check.
    pub check: String,
    /// Where in the file.
    pub path: String,
    /// What.
    pub message: String,
}

impl Verdict {
    /// What would stop the server or be dropped.
    pub fn errors(&self) -> Vec<&Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.level == "ERROR")
            .collect()
    }
}

/// Gives all files to the release at once: importing it takes seconds.
pub fn judge(release: Release, files: &[PathBuf]) -> anyhow::Result<BTreeMap<PathBuf, Verdict>> {
    let output = Command::new(variable("LLSD_PYTHON")?)
        .arg(root().join("tests/oracle/validate_config.py"))
        .args(files)
        .arg(release.name)
        .args(["--json", "--venvs"])
        .arg(oracle()?.join("venvs"))
        .output()?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code().is_some_and(|code| code < 2),
        "the oracle could not run: {talk}"
    );
    let lines = String::from_utf8(output.stdout)?;
    let verdicts: Vec<Verdict> = lines
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("the oracle said {line:?}")))
        .collect::<anyhow::Result<_>>()?;
    ensure!(
        verdicts.len() == files.len(),
        "{} verdicts over {} files: {talk}",
        verdicts.len(),
        files.len()
    );
    Ok(verdicts
        .into_iter()
        .map(|verdict| (verdict.file.clone(), verdict))
        .collect())
}
