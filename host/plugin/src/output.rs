//! What the host believes of an answer: sizes first, then the shape, then the types.
//!
//! In: what a guest returned. Out: the same with control characters made harmless, or why it breaks
//! the contract. A guest is not trusted to keep terminals, statuses and logs readable.

use std::borrow::Cow;

use llsd_adapter_sdk::documents::{Assembly, Description, Document, Expansion, Variable};
use llsd_adapter_sdk::exchange::{self, Text};
use llsd_adapter_sdk::{Answer, Detection, Diagnostic, Outcome, Severity};
use llsd_render::adapter::FaultKind;

use crate::limits::Limits;
use crate::request::{RawAnswer, Request};

/// Checks sizes and the rules of the envelope.
pub(crate) fn check(answer: RawAnswer, limits: &Limits) -> Result<RawAnswer, FaultKind> {
    if answer.size() > limits.output_bytes {
        return Err(FaultKind::OverLimit {
            what: "output bytes",
            granted: limits.output_bytes as u64,
        });
    }
    Ok(match answer {
        RawAnswer::Outcome(Ok(Outcome { output, warnings })) => {
            let warnings = diagnostics(warnings, limits)?;
            if let Some(error) = warnings.iter().find(|d| d.severity == Severity::Error) {
                return Err(bad(format!(
                    "it answered in spite of the error {:?}",
                    error.code
                )));
            }
            RawAnswer::Outcome(Ok(Outcome { output, warnings }))
        }
        RawAnswer::Outcome(Err(problems)) => {
            let problems = diagnostics(problems, limits)?;
            if !problems.iter().any(|d| d.severity == Severity::Error) {
                return Err(bad("it refused without an error".into()));
            }
            RawAnswer::Outcome(Err(problems))
        }
        other => other,
    })
}

/// An answer read into the types of the documents.
#[derive(Debug)]
pub(crate) enum Typed {
    Description(Description),
    Detection(Detection),
    Expansion(Answer<Expansion>),
    Assembly(Answer<Assembly>),
}

/// Reads what was answered to a request, and checks the rules that its types do not say.
///
/// `description` is the plugin's own, once it is known.
pub(crate) fn read(
    request: &Request,
    answer: &RawAnswer,
    description: Option<&Description>,
) -> Result<Typed, FaultKind> {
    match answer {
        RawAnswer::Description(text) => document(text).map(Typed::Description),
        RawAnswer::Detection(detection) => {
            check_detection(detection, description)?;
            Ok(Typed::Detection(detection.clone()))
        }
        RawAnswer::Outcome(answer) if matches!(request, Request::Expand(_)) => {
            outcome(answer).map(Typed::Expansion)
        }
        RawAnswer::Outcome(answer) => outcome(answer).map(Typed::Assembly),
    }
}

fn document<T: Document>(text: &Text) -> Result<T, FaultKind> {
    exchange::read(text).map_err(|diagnostic| bad(escaped(&diagnostic.problem).into_owned()))
}

fn outcome<T: Document + Checked>(answer: &Answer<Text>) -> Result<Answer<T>, FaultKind> {
    match answer {
        Ok(Outcome { output, warnings }) => {
            let output: T = document(output)?;
            output.check()?;
            Ok(Ok(Outcome {
                output,
                warnings: warnings.clone(),
            }))
        }
        Err(problems) => Ok(Err(problems.clone())),
    }
}

/// A detection names schemas that the plugin serves.
fn check_detection(
    detection: &Detection,
    description: Option<&Description>,
) -> Result<(), FaultKind> {
    let named: &[String] = match detection {
        Detection::One(id) => std::slice::from_ref(id),
        Detection::OneOf(ids) if ids.is_empty() => {
            return Err(bad("detect gave an empty list of candidates".into()));
        }
        Detection::OneOf(ids) => ids,
        Detection::None => &[],
    };
    let is_served = |id: &str| {
        description.is_none_or(|known| known.schemas.iter().any(|served| served.id == id))
    };
    match named.iter().find(|id| !is_served(id)) {
        Some(id) => Err(bad(format!(
            "detect named the schema {id:?}, which the plugin does not serve"
        ))),
        None => Ok(()),
    }
}

/// Rules of a document that its type does not say.
trait Checked {
    fn check(&self) -> Result<(), FaultKind>;
}

impl Checked for Expansion {
    fn check(&self) -> Result<(), FaultKind> {
        variables(&self.wants)
    }
}

impl Checked for Assembly {
    fn check(&self) -> Result<(), FaultKind> {
        variables(&self.variables)?;
        match self
            .startup
            .env
            .keys()
            .find(|name| !is_variable(name, char::is_alphanumeric))
        {
            Some(name) => Err(bad(format!(
                "the start-up variable {name:?} is no name of a variable"
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
        Some(variable) => Err(bad(format!(
            "the variable {:?} is not named [A-Z0-9_]+",
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
        return Err(FaultKind::OverLimit {
            what: "diagnostics",
            granted: limits.diagnostics as u64,
        });
    }
    let longest = limits.diagnostic_bytes;
    Ok(all
        .into_iter()
        .map(|diagnostic| harmless(diagnostic, longest))
        .collect())
}

/// The diagnostic without control characters, and with each text cut to a length: what a plugin
/// quotes of a resource may be as long as its author likes.
fn harmless(diagnostic: Diagnostic, longest: usize) -> Diagnostic {
    let Diagnostic {
        field,
        severity,
        code,
        problem,
        fix,
    } = diagnostic;
    let clean = |text: String| {
        let clean = match escaped(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        };
        if clean.len() <= longest {
            return clean;
        }
        format!("{}…", &clean[..clean.floor_char_boundary(longest)])
    };
    Diagnostic {
        field: clean(field),
        severity,
        code: clean(code),
        problem: clean(problem),
        fix: clean(fix),
    }
}

/// The text with control characters written as escapes.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        let escape = |c: char| {
            if c.is_control() {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        };
        Cow::Owned(text.chars().map(escape).collect())
    } else {
        Cow::Borrowed(text)
    }
}

fn bad(what: String) -> FaultKind {
    FaultKind::BadAnswer(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(env: &str) -> Variable {
        serde_json::from_value(serde_json::json!({ "env": env })).unwrap()
    }

    #[test]
    fn a_variable_has_a_name_of_capitals_digits_and_underscores() {
        assert!(variables(&[variable("LLSD_V1_API_KEY")]).is_ok());
        for name in ["", "lower", "A B", "A=B", "ÄÖ", "A\n"] {
            assert!(variables(&[variable(name)]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn control_characters_in_a_diagnostic_are_escaped() {
        let diagnostic = Diagnostic::warning("c", "spec.a", "red \u{1b}[31m", "none");
        let answer = RawAnswer::Outcome(Ok(Outcome {
            output: Text {
                shape: String::new(),
                json: "{}".into(),
            },
            warnings: vec![diagnostic],
        }));
        let RawAnswer::Outcome(Ok(outcome)) = check(answer, &Limits::default()).unwrap() else {
            panic!()
        };
        assert_eq!(outcome.warnings[0].problem, "red \\u{1b}[31m");
    }

    #[test]
    fn an_answer_cannot_carry_an_error_nor_a_refusal_lack_one() {
        let outcome = |answer| check(RawAnswer::Outcome(answer), &Limits::default());
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
    fn too_many_diagnostics_are_over_the_limit() {
        let limits = Limits {
            diagnostics: 1,
            ..Limits::default()
        };
        let problems = vec![Diagnostic::error("c", "", "p", "f"); 2];
        assert_eq!(
            check(RawAnswer::Outcome(Err(problems)), &limits).unwrap_err(),
            FaultKind::OverLimit {
                what: "diagnostics",
                granted: 1
            }
        );
    }

    #[test]
    fn a_long_text_in_a_diagnostic_is_cut_between_characters() {
        let limits = Limits {
            diagnostic_bytes: 7,
            ..Limits::default()
        };
        let problems = vec![Diagnostic::error("c", "spec", "äöüäöü", "f")];
        let RawAnswer::Outcome(Err(cut)) =
            check(RawAnswer::Outcome(Err(problems)), &limits).unwrap()
        else {
            panic!()
        };
        assert_eq!(cut, [Diagnostic::error("c", "spec", "äöü…", "f")]);
    }
}
