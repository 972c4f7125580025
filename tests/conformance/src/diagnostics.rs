//! Checks of the diagnostics that a plugin returns: their fields, codes and wording.

use llsd_adapter_sdk::{Diagnostic, Outcome};
use llsd_plugin::{Plugin, RawOutput, Request};

use crate::ordinary::NamedRequest;
use crate::paths;
use crate::report::Check;

/// The diagnostics that the plugin returned for one request.
struct Reported<'a> {
    name: &'a str,
    request: &'a Request,
    diagnostics: Vec<Diagnostic>,
}

/// Calls the plugin with every request and collects the diagnostics.
fn all<'a>(plugin: &Plugin, requests: [&'a [NamedRequest]; 2]) -> Vec<Reported<'a>> {
    let diagnostics = |request: &Request| match &*plugin.call(request).ok()?.output {
        RawOutput::Outcome(Ok(Outcome { warnings, .. })) => Some(warnings.clone()),
        RawOutput::Outcome(Err(problems)) => Some(problems.clone()),
        RawOutput::Description(_) | RawOutput::Detection(_) => None,
    };
    let report = |NamedRequest { name, request }: &'a NamedRequest| {
        Some(Reported {
            name,
            request,
            diagnostics: diagnostics(request)?,
        })
    };
    requests.into_iter().flatten().filter_map(report).collect()
}

fn scope(reported: &[Reported<'_>]) -> String {
    let count: usize = reported.iter().map(|one| one.diagnostics.len()).sum();
    format!("{count} diagnostics of {} requests", reported.len())
}

/// `field` is empty or a path at or below one that the request carries.
pub(crate) fn name_fields_of_the_request(
    plugin: &Plugin,
    ordinary: &[NamedRequest],
    hostile: &[NamedRequest],
) -> Check {
    let reported = all(plugin, [ordinary, hostile]);
    let mut problems = Vec::new();
    for Reported {
        name,
        request,
        diagnostics,
    } in &reported
    {
        let known = paths::of(request);
        for Diagnostic { field, code, .. } in diagnostics {
            if !paths::covers(&known, field) {
                problems.push(format!(
                    "{name}: the diagnostic `{code}` has the field {field:?}, which is not a path in the request"
                ));
            }
        }
    }
    Check::new(
        "diagnostics-have-paths",
        "the field of a diagnostic must be a path in the request, or empty for the base configuration",
        "build `field` from the `path` of the entry in the request, or start it with `spec.access`, `spec.networking`, `spec.storage` or `spec.workload`",
        scope(&reported),
        problems,
    )
}

/// Every diagnostic has a code, a problem and a fix, and diagnostics are sorted by field.
pub(crate) fn are_well_formed(
    plugin: &Plugin,
    ordinary: &[NamedRequest],
    hostile: &[NamedRequest],
) -> Check {
    let reported = all(plugin, [ordinary, hostile]);
    let mut problems = Vec::new();
    for Reported {
        name, diagnostics, ..
    } in &reported
    {
        let mut add = |problem: String| problems.push(format!("{name}: {problem}"));
        if !diagnostics.is_sorted_by(|a, b| a.field <= b.field) {
            add("the diagnostics are not sorted by `field`".into());
        }
        for Diagnostic {
            code, problem, fix, ..
        } in diagnostics
        {
            let is_code = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if code.is_empty() || !code.chars().all(is_code) {
                add(format!(
                    "{code:?} is not a valid code: it must consist of a-z, 0-9 and `-`, as in `unknown-provider`"
                ));
            }
            for (what, text) in [("problem", problem), ("fix", fix)] {
                if text.trim().is_empty() {
                    add(format!("the `{what}` of the diagnostic `{code}` is empty"));
                } else if text.ends_with('.') && !text.ends_with("..") {
                    add(format!(
                        "the `{what}` of the diagnostic `{code}` ends with a full stop: {text:?}"
                    ));
                }
            }
        }
    }
    Check::new(
        "diagnostics-are-well-formed",
        "every diagnostic must have a code, a problem and a fix, and diagnostics must be sorted by field",
        "fill in all three, write problem and fix without a final full stop, and sort before you return",
        scope(&reported),
        problems,
    )
}
