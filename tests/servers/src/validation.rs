//! Validates configurations with the code of a server release.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::{Release, oracle, root, variable};

/// The findings of a release about one file.
#[derive(Debug, Deserialize)]
pub struct ValidationReport {
    file: PathBuf,
    /// Errors and warnings.
    pub findings: Vec<Finding>,
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Finding {
    /// `ERROR` or `WARN`.
    pub level: String,
    /// The check that reported it.
    pub check: String,
    /// The path in the file.
    pub path: String,
    /// The message.
    pub message: String,
}

impl ValidationReport {
    /// Findings that stop the server, or for which it ignores a key.
    pub fn errors(&self) -> Vec<&Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.level == "ERROR")
            .collect()
    }
}

/// Fails unless the package of a release accepts all files without an error.
pub fn expect_accepted(release: Release, files: &[PathBuf]) -> anyhow::Result<()> {
    for (file, report) in validate(release, files)? {
        let errors = report.errors();
        ensure!(
            errors.is_empty(),
            "{}: {errors:#?}\n{}",
            file.display(),
            std::fs::read_to_string(&file)?
        );
    }
    Ok(())
}

/// Validates all files in one process, because importing the release takes seconds.
pub fn validate(
    release: Release,
    files: &[PathBuf],
) -> anyhow::Result<BTreeMap<PathBuf, ValidationReport>> {
    let output = Command::new(variable("LLSD_PYTHON")?)
        .arg(root().join("tests/oracle/validate_config.py"))
        .args(files)
        .arg(release.name)
        .args(["--json", "--venvs"])
        .arg(oracle()?.join("venvs"))
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code().is_some_and(|code| code < 2),
        "failed to run the oracle: {stderr}"
    );
    let lines = String::from_utf8(output.stdout)?;
    let reports: Vec<ValidationReport> = lines
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .with_context(|| format!("unexpected output of the oracle: {line:?}"))
        })
        .collect::<anyhow::Result<_>>()?;
    ensure!(
        reports.len() == files.len(),
        "{} reports for {} files: {stderr}",
        reports.len(),
        files.len()
    );
    Ok(reports
        .into_iter()
        .map(|report| (report.file.clone(), report))
        .collect())
}
