//! Validates the output of a guest: first its size, then its shape, then its types.
//!
//! In: what a guest returned. Out: the same with control characters escaped, or how it violates the
//! contract. Control characters are escaped because guest strings appear in terminals, statuses and
//! logs.

use std::borrow::Cow;

use llsd_adapter_sdk::documents::{Assembly, Description, Document, Expansion, Variable};
use llsd_adapter_sdk::exchange::{self, Text};
use llsd_adapter_sdk::{Answer, Candidate, Detection, Diagnostic, Outcome, Severity};
use llsd_api::escape_line;
use llsd_render::adapter::{FaultKind, LimitedResource};

use crate::limits::Limits;
use crate::request::{RawOutput, Request};

/// Checks sizes and diagnostics.
pub(crate) fn check(output: RawOutput, limits: &Limits) -> Result<RawOutput, FaultKind> {
    let exceeded = |resource, limit: usize| FaultKind::LimitExceeded {
        resource,
        limit: limit as u64,
    };
    if output.size() > limits.output_bytes {
        return Err(exceeded(LimitedResource::OutputBytes, limits.output_bytes));
    }
    if output.values() > limits.output_values {
        return Err(exceeded(
            LimitedResource::OutputValues,
            limits.output_values,
        ));
    }
    Ok(match output {
        RawOutput::Outcome(Ok(Outcome { output, warnings })) => {
            let warnings = diagnostics(warnings, limits)?;
            if let Some(error) = warnings.iter().find(|d| d.severity == Severity::Error) {
                return Err(invalid(format!(
                    "a successful outcome contains the error {:?}",
                    error.code
                )));
            }
            RawOutput::Outcome(Ok(Outcome { output, warnings }))
        }
        RawOutput::Outcome(Err(problems)) => {
            let problems = diagnostics(problems, limits)?;
            if !problems.iter().any(|d| d.severity == Severity::Error) {
                return Err(invalid("a failed outcome contains no error".into()));
            }
            RawOutput::Outcome(Err(problems))
        }
        other => other,
    })
}

/// An output parsed into the document types.
#[derive(Debug)]
pub(crate) enum TypedOutput {
    Description(Description),
    Detection(Detection),
    Expansion(Answer<Expansion>),
    Assembly(Answer<Assembly>),
}

/// Parses the output of a request, and checks the rules that its types do not express.
///
/// `description` is the plugin's description, `None` while it is loaded.
pub(crate) fn parse(
    request: &Request,
    output: &RawOutput,
    description: Option<&Description>,
) -> Result<TypedOutput, FaultKind> {
    match output {
        RawOutput::Description(text) => parse_document(text).map(TypedOutput::Description),
        RawOutput::Detection(detection) => {
            check_detection(detection, description)?;
            Ok(TypedOutput::Detection(detection.clone()))
        }
        RawOutput::Outcome(outcome) if matches!(request, Request::Expand(_)) => {
            parse_outcome(outcome).map(TypedOutput::Expansion)
        }
        RawOutput::Outcome(outcome) => parse_outcome(outcome).map(TypedOutput::Assembly),
    }
}

fn parse_document<T: Document>(text: &Text) -> Result<T, FaultKind> {
    exchange::read(text)
        .map_err(|diagnostic| invalid(escape_line(&diagnostic.problem).into_owned()))
}

fn parse_outcome<T: Document + Validate>(outcome: &Answer<Text>) -> Result<Answer<T>, FaultKind> {
    match outcome {
        Ok(Outcome { output, warnings }) => {
            let output: T = parse_document(output)?;
            output.validate()?;
            Ok(Ok(Outcome {
                output,
                warnings: warnings.clone(),
            }))
        }
        Err(problems) => Ok(Err(problems.clone())),
    }
}

/// Checks that a detection names only schemas that the plugin serves.
fn check_detection(
    detection: &Detection,
    description: Option<&Description>,
) -> Result<(), FaultKind> {
    let named: &[String] = match detection {
        Detection::One(id) => std::slice::from_ref(id),
        Detection::OneOf(ids) if ids.is_empty() => {
            return Err(invalid(
                "detect returned an empty list of candidates".into(),
            ));
        }
        Detection::OneOf(ids) => ids,
        Detection::None => &[],
    };
    let is_served = |id: &str| {
        let id = Candidate::parse(id).schema;
        description.is_none_or(|known| known.schemas.iter().any(|served| served.id == id))
    };
    match named.iter().find(|id| !is_served(id)) {
        Some(id) => Err(invalid(format!(
            "detect returned the schema {id:?}, which is not in the plugin's description"
        ))),
        None => Ok(()),
    }
}

/// Rules of a document that its type does not express.
trait Validate {
    fn validate(&self) -> Result<(), FaultKind>;
}

impl Validate for Expansion {
    fn validate(&self) -> Result<(), FaultKind> {
        variables(&self.wants)
    }
}

impl Validate for Assembly {
    fn validate(&self) -> Result<(), FaultKind> {
        variables(&self.variables)?;
        match self
            .startup
            .env
            .keys()
            .find(|name| !is_variable(name, char::is_alphanumeric))
        {
            Some(name) => Err(invalid(format!(
                "{name:?} is not a valid name of a startup variable; it must match [A-Za-z0-9_]+"
            ))),
            None => Ok(()),
        }
    }
}

fn variables(all: &[Variable]) -> Result<(), FaultKind> {
    match all
        .iter()
        .find(|v| !is_variable(&v.env, |c| c.is_ascii_uppercase() || c.is_ascii_digit()))
    {
        Some(variable) => Err(invalid(format!(
            "{:?} is not a valid name of a variable; it must match [A-Z0-9_]+",
            variable.env
        ))),
        None => Ok(()),
    }
}

fn is_variable(name: &str, allowed: impl Fn(char) -> bool) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c == '_' || (c.is_ascii() && allowed(c)))
}

fn diagnostics(all: Vec<Diagnostic>, limits: &Limits) -> Result<Vec<Diagnostic>, FaultKind> {
    if all.len() > limits.diagnostics {
        return Err(FaultKind::LimitExceeded {
            resource: LimitedResource::Diagnostics,
            limit: limits.diagnostics as u64,
        });
    }
    let max_bytes = limits.diagnostic_bytes;
    Ok(all
        .into_iter()
        .map(|diagnostic| sanitized(diagnostic, max_bytes))
        .collect())
}

/// The diagnostic with control characters escaped and each string truncated. A plugin may quote a
/// value of the resource, which can be arbitrarily long.
fn sanitized(diagnostic: Diagnostic, max_bytes: usize) -> Diagnostic {
    let Diagnostic {
        field,
        severity,
        code,
        problem,
        fix,
    } = diagnostic;
    let clean = |text: String| {
        let clean = match escape_line(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        };
        if clean.len() <= max_bytes {
            return clean;
        }
        format!("{}…", &clean[..clean.floor_char_boundary(max_bytes)])
    };
    Diagnostic {
        field: clean(field),
        severity,
        code: clean(code),
        problem: clean(problem),
        fix: clean(fix),
    }
}

fn invalid(problem: String) -> FaultKind {
    FaultKind::InvalidOutput(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(env: &str) -> Variable {
        serde_json::from_value(serde_json::json!({ "env": env })).unwrap()
    }

    #[test]
    fn variable_names_have_only_capitals_digits_and_underscores() {
        assert!(variables(&[variable("LLSD_V1_API_KEY")]).is_ok());
        for name in ["", "lower", "A B", "A=B", "ÄÖ", "A\n"] {
            assert!(variables(&[variable(name)]).is_err(), "{name:?}");
        }
    }

    /// Issue I, row 8: 2 MB of text became 75 MB of values.
    #[test]
    fn an_output_with_too_many_values_is_rejected_before_it_is_parsed() {
        let output = |values: usize| {
            let json = format!(r#"{{"config":[{}]}}"#, vec!["0"; values].join(","));
            let output = Text {
                shape: String::new(),
                json,
            };
            RawOutput::Outcome(Ok(Outcome {
                output,
                warnings: Vec::new(),
            }))
        };
        let limits = Limits::default();
        assert!(check(output(50_000), &limits).is_ok());
        assert_eq!(
            check(output(1_000_000), &limits).unwrap_err(),
            FaultKind::LimitExceeded {
                resource: LimitedResource::OutputValues,
                limit: 100_000,
            }
        );
    }

    #[test]
    fn control_characters_in_a_diagnostic_are_escaped() {
        let diagnostic = Diagnostic::warning("c", "spec.a", "red \u{1b}[31m", "none");
        let output = RawOutput::Outcome(Ok(Outcome {
            output: Text {
                shape: String::new(),
                json: "{}".into(),
            },
            warnings: vec![diagnostic],
        }));
        let RawOutput::Outcome(Ok(outcome)) = check(output, &Limits::default()).unwrap() else {
            panic!()
        };
        assert_eq!(outcome.warnings[0].problem, "red \\u001b[31m");
    }

    #[test]
    fn a_success_must_not_contain_an_error_and_a_failure_must() {
        let outcome = |outcome| check(RawOutput::Outcome(outcome), &Limits::default());
        let output = Text {
            shape: String::new(),
            json: "{}".into(),
        };
        let error = Diagnostic::error("c", "", "p", "f");
        let warning = Diagnostic::warning("c", "", "p", "f");
        assert!(
            outcome(Ok(Outcome {
                output,
                warnings: vec![error]
            }))
            .is_err()
        );
        assert!(outcome(Err(vec![])).is_err());
        assert!(outcome(Err(vec![warning])).is_err());
    }

    #[test]
    fn too_many_diagnostics_exceed_the_limit() {
        let limits = Limits {
            diagnostics: 1,
            ..Limits::default()
        };
        let problems = vec![Diagnostic::error("c", "", "p", "f"); 2];
        assert_eq!(
            check(RawOutput::Outcome(Err(problems)), &limits).unwrap_err(),
            FaultKind::LimitExceeded {
                resource: LimitedResource::Diagnostics,
                limit: 1
            }
        );
    }

    #[test]
    fn a_long_string_in_a_diagnostic_is_truncated_between_characters() {
        let limits = Limits {
            diagnostic_bytes: 7,
            ..Limits::default()
        };
        let problems = vec![Diagnostic::error("c", "spec", "äöüäöü", "f")];
        let RawOutput::Outcome(Err(truncated)) =
            check(RawOutput::Outcome(Err(problems)), &limits).unwrap()
        else {
            panic!()
        };
        assert_eq!(truncated, [Diagnostic::error("c", "spec", "äöü…", "f")]);
    }
}
