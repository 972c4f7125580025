//! What the page is told: documents that become JSON.

use llsd_api::{Diagnostic, Severity, escape_line, escape_lines};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the page asks: everything that a link restores.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Question {
    /// The text of the editor.
    pub(super) text: String,
    /// The dialect to show; by default the one that the operator would select.
    #[serde(default)]
    pub(super) dialect: Option<String>,
    /// Two dialects to compare.
    #[serde(default)]
    pub(super) compare: Option<(String, String)>,
}

/// One part of the answer. Parts are sent as soon as they are known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "part")]
pub(super) enum Part {
    /// What becomes of the resource.
    View(Box<View>),
    /// Whether the releases of one dialect accept it.
    Release(ReleaseRow),
    /// Two dialects side by side.
    Comparison(Comparison),
    /// The answer is complete.
    #[serde(rename_all = "camelCase")]
    End {
        /// How long it took.
        millis: u64,
    },
    /// There is no more, because of this problem.
    Stopped {
        /// The problem and its fix.
        problem: String,
    },
}

/// What becomes of a resource in one dialect.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    /// Name of the resource.
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// What happens to the configuration, as a sentence.
    pub(super) summary: String,
    /// The dialect, if one was selected.
    pub(super) dialect: Option<String>,
    /// How it was selected.
    pub(super) dialect_source: Option<&'static str>,
    /// The releases that read it.
    pub(super) releases: Option<String>,
    pub(super) base: BaseSource,
    pub(super) problems: Vec<Problem>,
    /// Problems beyond the limit of a page.
    pub(super) more_problems: usize,
    /// The configuration; `None` if the resource is refused, or if only the image has it.
    pub(super) config: Option<String>,
    /// The lines of base and configuration.
    pub(super) diff: Vec<DiffLine>,
    pub(super) objects: Vec<ObjectYaml>,
    pub(super) variables: Vec<Value>,
    /// How the server is started, number of entries, ids of models.
    pub(super) facts: Option<Facts>,
    pub(super) receipt: Option<Value>,
}

/// Facts about a generated configuration.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    pub(super) startup: Value,
    pub(super) counts: Value,
    pub(super) models: Vec<Value>,
}

/// Whether a release accepts a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    Accepted,
    /// Accepted, with warnings.
    Warnings,
    #[default]
    Refused,
    /// Not known: a plugin failed, or a file cannot be read.
    Failed,
}

impl Verdict {
    /// The word that users read.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Warnings => "warnings",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The base configuration that was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BaseSource {
    /// That of the resource.
    #[default]
    Own,
    /// An example in the dialect.
    Example,
}

/// The answer about one dialect.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReleaseRow {
    pub(super) dialect: String,
    /// The releases that read it.
    pub(super) releases: String,
    /// Name and version of the adapter.
    pub(super) adapter: String,
    /// Whether the adapter is from `--plugin`.
    pub(super) is_plugin: bool,
    /// Whether this is the dialect that the operator would select.
    pub(super) is_own: bool,
    pub(super) verdict: Verdict,
    pub(super) base: BaseSource,
    pub(super) errors: usize,
    pub(super) warnings: usize,
    /// The first problem, which explains the verdict.
    pub(super) reason: Option<String>,
}

/// Two dialects side by side.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    pub(super) left: Side,
    pub(super) right: Side,
    pub(super) rows: Vec<SideBySide>,
}

/// One side of a comparison.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    pub(super) dialect: String,
    pub(super) verdict: Verdict,
    pub(super) problems: Vec<Problem>,
}

/// A line of one or both sides, with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SideBySide {
    pub(super) left: Option<(usize, String)>,
    pub(super) right: Option<(usize, String)>,
}

impl SideBySide {
    /// Whether both sides are the same.
    pub(super) fn is_equal(&self) -> bool {
        match (&self.left, &self.right) {
            (Some((_, left)), Some((_, right))) => left == right,
            _ => false,
        }
    }
}

/// A line of a diff: its sign (`+`, `-` or a space) and its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DiffLine(pub(super) char, pub(super) String);

/// A Kubernetes object.
#[derive(Debug, Serialize)]
pub(super) struct ObjectYaml {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) yaml: String,
}

/// A diagnostic, and where to mark it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Problem {
    pub(super) is_error: bool,
    pub(super) code: String,
    /// The field path as users read it.
    pub(super) field: String,
    pub(super) problem: String,
    pub(super) fix: String,
    pub(super) mark: Option<Mark>,
}

/// A range of the text. Line and column start at 1; the offsets count UTF-16 units, as browsers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Mark {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Problem {
    /// A diagnostic at its mark. A plugin may have written its texts, so control characters are escaped.
    pub(super) fn new(diagnostic: &Diagnostic, mark: Option<Mark>) -> Self {
        let Diagnostic {
            field,
            severity,
            code,
            problem,
            fix,
        } = diagnostic;
        Self {
            is_error: *severity == Severity::Error,
            code: escape_line(code).into_owned(),
            field: escape_line(&field.to_string()).into_owned(),
            problem: escape_lines(problem).into_owned(),
            fix: escape_lines(fix).into_owned(),
            mark,
        }
    }
}
