//! What the suite found.

use std::fmt;

use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter as _;
use serde::Serialize;

/// Problems of one check that are listed; more of the same kind teach nothing.
const LISTED: usize = 10;

/// The checks that a plugin went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// `sha256:…` of the component.
    pub digest: String,
    /// The world that it serves.
    pub world: &'static str,
    /// Every check, in the order of the suite.
    pub checks: Vec<Check>,
}

/// One rule, and how the plugin keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Stable and for machines: `same-input-same-answer`.
    pub name: &'static str,
    /// The sentence that holds when it passes.
    pub rule: &'static str,
    /// What was looked at: `312 requests`.
    pub scope: String,
    /// What breaks the rule; empty: it passed.
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
            scope,
            problems,
        }
    }

    /// Whether the plugin keeps the rule.
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
            let word = if check.passed() { "pass" } else { "FAIL" };
            writeln!(f, "  {word}  {} ({})", check.rule, check.scope)?;
            for problem in &check.problems {
                writeln!(f, "          {problem}")?;
            }
        }
        let failed = self.checks.iter().filter(|check| !check.passed()).count();
        write!(f, "{} checks, {failed} failed", self.checks.len())
    }
}
