//! Errors and warnings that a plugin returns.
//!
//! A diagnostic holds a field path of the user's resource, the problem and the fix. An empty path means
//! the base configuration.

use std::fmt;

/// One error or warning about the resource or the base configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Field path in the user's resource; empty: the base.
    pub field: String,
    /// Error or warning.
    pub severity: Severity,
    /// Stable and for machines.
    pub code: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// How severe a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// There is no output until this is fixed.
    Error,
    /// There is an output.
    Warning,
}

impl Diagnostic {
    /// Creates an error: a problem that prevents an output.
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

    /// Creates a warning: a problem that does not prevent an output.
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

/// Collects diagnostics, so that all of them are returned at once.
#[derive(Debug, Default)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Adds an error.
    pub fn error(
        &mut self,
        code: &str,
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(Diagnostic::error(code, field, problem, fix));
    }

    /// Adds a warning.
    pub fn warning(
        &mut self,
        code: &str,
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(Diagnostic::warning(code, field, problem, fix));
    }

    /// The output with its warnings if there is no error; otherwise all diagnostics. Both are sorted by
    /// field.
    pub fn finish<T>(self, answer: T) -> Answer<T> {
        // There are only a few, and insertion needs less code in a component than a general sort.
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

/// An output and its warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome<T> {
    /// The answer.
    pub output: T,
    /// Warnings, sorted by field.
    pub warnings: Vec<Diagnostic>,
}

/// An outcome, or every error that prevents one.
pub type Answer<T> = Result<Outcome<T>, Vec<Diagnostic>>;
