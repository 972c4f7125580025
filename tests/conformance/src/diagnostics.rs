//! What a plugin tells the author of a resource: in the right place, and in the right form.

use llsd_adapter_sdk::{Diagnostic, Outcome};
use llsd_plugin::{Plugin, RawAnswer, Request};

use crate::ordinary::Named;
use crate::paths;
use crate::report::Check;

/// The diagnostics of one answer.
struct Told<'a> {
    name: &'a str,
    request: &'a Request,
    diagnostics: Vec<Diagnostic>,
}

/// Every diagnostic of every answer.
fn all<'a>(plugin: &Plugin, requests: [&'a [Named]; 2]) -> Vec<Told<'a>> {
    let diagnostics = |request: &Request| match &*plugin.call(request).ok()?.answer {
        RawAnswer::Outcome(Ok(Outcome { warnings, .. })) => Some(warnings.clone()),
        RawAnswer::Outcome(Err(problems)) => Some(problems.clone()),
        RawAnswer::Description(_) | RawAnswer::Detection(_) => None,
    };
    let told = |Named { name, request }: &'a Named| {
        Some(Told {
            name,
            request,
            diagnostics: diagnostics(request)?,
        })
    };
    requests.into_iter().flatten().filter_map(told).collect()
}

fn scope(answers: &[Told<'_>]) -> String {
    let count: usize = answers.iter().map(|told| told.diagnostics.len()).sum();
    format!("{count} diagnostics of {} requests", answers.len())
}

/// Every diagnostic names a field of the resource, or nothing.
pub(crate) fn have_paths_of_the_request(
    plugin: &Plugin,
    ordinary: &[Named],
    hostile: &[Named],
) -> Check {
    let answers = all(plugin, [ordinary, hostile]);
    let mut problems = Vec::new();
    for Told {
        name,
        request,
        diagnostics,
    } in &answers
    {
        let known = paths::of(request);
        for Diagnostic { field, code, .. } in diagnostics {
            if !paths::covers(&known, field) {
                problems.push(format!(
                    "{name}: {code} names the field {field:?}, which the request does not hold"
                ));
            }
        }
    }
    Check::new(
        "diagnostics-have-paths",
        "every diagnostic names a field of the request, or the base by an empty one",
        scope(&answers),
        problems,
    )
}

/// Every diagnostic has a stable code, a problem and a fix, and they come in the order of fields.
pub(crate) fn are_well_formed(plugin: &Plugin, ordinary: &[Named], hostile: &[Named]) -> Check {
    let answers = all(plugin, [ordinary, hostile]);
    let mut problems = Vec::new();
    for Told {
        name, diagnostics, ..
    } in &answers
    {
        let mut say = |what: String| problems.push(format!("{name}: {what}"));
        if !diagnostics.is_sorted_by(|a, b| a.field <= b.field) {
            say("the diagnostics are not sorted by field".into());
        }
        for Diagnostic {
            code, problem, fix, ..
        } in diagnostics
        {
            let is_code = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if code.is_empty() || !code.chars().all(is_code) {
                say(format!("{code:?} is no code like `unknown-provider`"));
            }
            for (what, text) in [("problem", problem), ("fix", fix)] {
                if text.trim().is_empty() {
                    say(format!("{code} has no {what}"));
                } else if text.ends_with('.') && !text.ends_with("..") {
                    say(format!(
                        "the {what} of {code} ends with a full stop: {text:?}"
                    ));
                }
            }
        }
    }
    Check::new(
        "diagnostics-are-well-formed",
        "every diagnostic has a code, a problem and a fix, in the order of fields",
        scope(&answers),
        problems,
    )
}
