//! What the command line says: data on standard output, talk to people on standard error.
//!
//! Colour only decorates: it is left out when the stream is no terminal or `NO_COLOR` is set.

use anstream::{eprint, eprintln};
use anstyle::{AnsiColor, Style};
use llsd_api::{Diagnostic, Severity};

const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default().bold();
const PLACE: Style = Style::new().bold();

/// For whom a command's data is.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// People.
    Human,
    /// Machines: stable keys.
    Json,
}

/// Why a command could not run, with its causes.
pub(crate) fn failure(error: &anyhow::Error) {
    eprintln!("{BAD}error:{BAD:#} {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because {cause}");
    }
}

/// A command's data, on standard output.
#[allow(
    clippy::print_stdout,
    reason = "this is where a command's data goes out"
)]
pub(crate) fn data(text: &str) {
    anstream::println!("{}", text.trim_end_matches('\n'));
}

/// A remark about what the program does.
pub(crate) fn remark(text: &str) {
    eprintln!("{text}");
}

/// The verdict over one file or resource, then everything found, the worst first.
pub(crate) fn findings(subject: &str, found: &[Diagnostic]) {
    let errors = found.iter().filter(|one| one.is_error()).count();
    let warnings = found.len() - errors;
    match (errors, warnings) {
        (0, 0) => eprintln!("{subject}: accepted"),
        (0, _) => eprintln!("{subject}: accepted, {}", counted(warnings, "warning")),
        (_, 0) => eprintln!(
            "{subject}: {BAD}refused{BAD:#}, {}",
            counted(errors, "problem")
        ),
        _ => eprintln!(
            "{subject}: {BAD}refused{BAD:#}, {}, {}",
            counted(errors, "problem"),
            counted(warnings, "warning")
        ),
    }
    let mut sorted: Vec<&Diagnostic> = found.iter().collect();
    sorted.sort_by_key(|one| one.severity);
    for Diagnostic {
        field,
        severity,
        problem,
        fix,
        ..
    } in sorted
    {
        let (style, word) = match severity {
            Severity::Error => (BAD, ""),
            Severity::Warning => (ODD, "warning: "),
        };
        eprint!(
            "\n  {PLACE}{field}{PLACE:#}\n    {style}{word}{style:#}{problem}\n    fix: {fix}\n"
        );
    }
    if !found.is_empty() {
        eprintln!();
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A finding for machines.
pub(crate) fn as_json(
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
