//! The report of a run of the suite.

use std::fmt;

use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter as _;
use serde::Serialize;

/// The number of problems that a check lists. Further ones are only counted.
const LISTED: usize = 10;

/// The result of every check for one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// `sha256:…` of the component.
    pub digest: String,
    /// The WIT world that it implements.
    pub world: &'static str,
    /// The checks, in the order of the suite.
    pub checks: Vec<Check>,
}

/// One rule of the contract, and how the plugin breaks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// A stable identifier, such as `same-input-same-answer`.
    pub name: &'static str,
    /// What the contract demands.
    pub rule: &'static str,
    /// What to change in the plugin when the check fails.
    pub fix: &'static str,
    /// What was checked, such as `312 requests`.
    pub scope: String,
    /// What the plugin did instead. Empty when the check passed.
    pub problems: Vec<String>,
}

impl Report {
    pub(crate) fn new(plugin: &Plugin, checks: Vec<Check>) -> Self {
        let description = plugin.description();
        Self {
            plugin: description.name.clone(),
            version: description.version.clone(),
            digest: plugin.digest().to_owned(),
            world: plugin.world().name(),
            checks,
        }
    }

    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(Check::passed)
    }
}

impl Check {
    pub(crate) fn new(
        name: &'static str,
        rule: &'static str,
        fix: &'static str,
        scope: String,
        problems: Vec<String>,
    ) -> Self {
        let more = problems.len().saturating_sub(LISTED);
        let mut problems: Vec<String> = problems.into_iter().take(LISTED).collect();
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Self {
            name,
            rule,
            fix,
            scope,
            problems,
        }
    }

    /// Whether the check found no problem.
    pub fn passed(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} {} ({}, {})",
            self.plugin, self.version, self.world, self.digest
        )?;
        for check in &self.checks {
            let result = if check.passed() { "pass" } else { "FAIL" };
            writeln!(f, "  {result}  {} ({})", check.rule, check.scope)?;
            for problem in &check.problems {
                writeln!(f, "          {problem}")?;
            }
            if !check.passed() {
                writeln!(f, "          fix: {}", check.fix)?;
            }
        }
        let failed = self.checks.iter().filter(|check| !check.passed()).count();
        write!(f, "{} checks, {failed} failed", self.checks.len())
    }
}
