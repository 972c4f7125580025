//! What a plugin tells the author of a resource.
//!
//! A diagnostic says where (a field path of the user's resource), what is wrong and how to mend it.
//! An empty path addresses whoever made the base configuration.

use std::fmt;

/// One thing to tell whoever wrote the resource or made the base.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Field path in the user's resource; empty: the base.
    pub field: String,
    /// Whether the answer stands.
    pub severity: Severity,
    /// Stable and for machines.
    pub code: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// Whether an answer stands in spite of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// There is no answer until this is mended.
    Error,
    /// The answer stands.
    Warning,
}

impl Diagnostic {
    /// A problem that stops the answer.
    pub fn error(
        code: &str,
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            severity: Severity::Error,
            code: code.into(),
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    /// A remark that does not.
    pub fn warning(
        code: &str,
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, field, problem, fix)
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() {
            "base configuration"
        } else {
            &self.field
        };
        write!(f, "{field}: {}; {}", self.problem, self.fix)
    }
}

/// Collects diagnostics while an answer is made, so that all of them come at once.
#[derive(Debug, Default)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Adds a problem that stops the answer.
    pub fn error(
        &mut self,
        code: &str,
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(Diagnostic::error(code, field, problem, fix));
    }

    /// Adds a remark.
    pub fn warning(
        &mut self,
        code: &str,
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(Diagnostic::warning(code, field, problem, fix));
    }

    /// The answer with its warnings when nothing stops it; otherwise everything collected. Both
    /// sorted by field.
    pub fn finish<T>(self, answer: T) -> Answer<T> {
        // A few at most; sorting by insertion spares a component the code of a general sort.
        let mut all: Vec<Diagnostic> = Vec::with_capacity(self.0.len());
        for diagnostic in self.0 {
            if let Err(place) = all.binary_search(&diagnostic) {
                all.insert(place, diagnostic);
            }
        }
        if all.iter().any(|d| d.severity == Severity::Error) {
            Err(all)
        } else {
            Ok(Outcome {
                output: answer,
                warnings: all,
            })
        }
    }
}

/// What succeeded, and what its author should still look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome<T> {
    /// The answer.
    pub output: T,
    /// Remarks, sorted by field.
    pub warnings: Vec<Diagnostic>,
}

/// An outcome, or every reason why there is none.
pub type Answer<T> = Result<Outcome<T>, Vec<Diagnostic>>;
