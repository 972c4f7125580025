//! Output of the commands: data on standard output, messages on standard error.
//!
//! Colour is used only on a terminal, and not if `NO_COLOR` is set. What a plugin, registry, image or
//! cluster says is printed with its control characters escaped: everything passes through this module.

use anstream::{eprint, eprintln};
use anstyle::{AnsiColor, Style};
use llsd_api::{Diagnostic, Severity, escape_lines};
use llsd_render::{SchemaChoice, SchemaSource};

use crate::generation::{Outcome, Report};
use crate::progress::print_above;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const FIELD: Style = Style::new().bold();

/// The format of a command's data.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for people
    Human,
    /// JSON with stable keys
    Json,
}

/// Prints an error and its causes.
pub(crate) fn print_error(error: &anyhow::Error) {
    print_above(|| {
        eprintln!(
            "{ERROR}error:{ERROR:#} {}",
            escape_lines(&error.to_string())
        );
        for cause in error.chain().skip(1) {
            eprintln!("  caused by: {}", escape_lines(&cause.to_string()));
        }
    });
}

/// Prints a command's data to standard output.
pub(crate) fn print(text: &str) {
    print_styled(&escape_lines(text));
}

/// Prints data that contains our own colours. The caller has escaped everything else.
#[allow(clippy::print_stdout, reason = "a command prints its data here only")]
pub(crate) fn print_styled(text: &str) {
    print_above(|| anstream::println!("{}", text.trim_end_matches('\n')));
}

/// Prints a warning.
#[cfg(feature = "network")]
pub(crate) fn print_warning(text: &str) {
    print_above(|| eprintln!("{WARNING}warning:{WARNING:#} {}", escape_lines(text)));
}

/// Prints a message that is not data.
pub(crate) fn print_note(text: &str) {
    print_above(|| eprintln!("{}", escape_lines(text)));
}

/// Prints the diagnostics of a generation, and the schema if the resource is rejected although one was
/// selected.
pub(crate) fn print_report(subject: &str, report: &Report) {
    print_diagnostics(subject, &report.diagnostics);
    if let Outcome::Rejected(Some(SchemaChoice { id, source })) = &report.outcome {
        let source = match source {
            SchemaSource::Stated => "stated",
            SchemaSource::ServerVersion => "derived from the release of the server",
            SchemaSource::Detected => "detected in the base configuration",
            SchemaSource::RunningServer => "chosen by the release of the running server",
        };
        print_above(|| eprintln!("  schema: {} ({source})\n", escape_lines(id)));
    }
}

/// Prints whether a file or resource is accepted, and its diagnostics, errors first.
pub(crate) fn print_diagnostics(subject: &str, diagnostics: &[Diagnostic]) {
    print_above(|| write_diagnostics(subject, diagnostics));
}

fn write_diagnostics(subject: &str, diagnostics: &[Diagnostic]) {
    let subject = escape_lines(subject);
    let errors = diagnostics.iter().filter(|one| one.is_error()).count();
    let warnings = diagnostics.len() - errors;
    match (errors, warnings) {
        (0, 0) => eprintln!("{subject}: accepted"),
        (0, _) => eprintln!("{subject}: accepted, {}", counted(warnings, "warning")),
        (_, 0) => eprintln!(
            "{subject}: {ERROR}rejected{ERROR:#}, {}",
            counted(errors, "problem")
        ),
        _ => eprintln!(
            "{subject}: {ERROR}rejected{ERROR:#}, {}, {}",
            counted(errors, "problem"),
            counted(warnings, "warning")
        ),
    }
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    sorted.sort_by_key(|one| one.severity);
    for Diagnostic {
        field,
        severity,
        problem,
        fix,
        ..
    } in sorted
    {
        let (style, label) = match severity {
            Severity::Error => (ERROR, ""),
            Severity::Warning => (WARNING, "warning: "),
        };
        let field = field.to_string();
        let [field, problem, fix] = [&field, problem, fix].map(|text| escape_lines(text));
        eprint!(
            "\n  {FIELD}{field}{FIELD:#}\n    {style}{label}{style:#}{problem}\n    fix: {fix}\n"
        );
    }
    if !diagnostics.is_empty() {
        eprintln!();
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A diagnostic as JSON.
pub(crate) fn diagnostic_json(
    Diagnostic {
        field,
        severity,
        code,
        problem,
        fix,
    }: &Diagnostic,
) -> serde_json::Value {
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    serde_json::json!({ "severity": severity, "code": code, "field": field.as_str(), "problem": problem, "fix": fix })
}
