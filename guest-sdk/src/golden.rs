//! Golden fixtures: calls and their recorded outputs.
//!
//! A folder of cases, each with `request.json` (`{"call": "expand", "request": {…}}`, where the call is
//! `describe`, `detect`, `expand` or `assemble`) and `answer.json`, in the form that `llsd plugin run` prints. The
//! conformance suite replays the same folder in the sandbox. With `LLSD_GOLDEN=rewrite` in the
//! environment, the answers are rewritten: review the diff before you commit it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::adapter::{Detection, ProviderPack, SchemaAdapter};
use crate::diagnostic::{Answer, Diagnostic, Outcome, Severity};
use crate::documents::{AssemblyRequest, Base, ExpansionRequest, Hints};
use crate::exchange::{self, Text};

/// Why a fixture failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum GoldenError {
    /// A file cannot be read, written, or is not JSON.
    File(PathBuf, String),
    /// The request names a call that the plugin does not have.
    UnknownCall(PathBuf, String),
    /// The output differs: the case, the recorded output, the actual output.
    Differs(PathBuf, Box<Value>, Box<Value>),
}

/// Replays the fixtures of a schema adapter. Returns all errors.
pub fn replay_adapter<A: SchemaAdapter>(folder: &Path) -> Result<usize, Vec<GoldenError>> {
    replay(folder, |call, request| match call {
        "detect" => {
            let part = |key: &str| request.get(key).cloned().unwrap_or_else(|| json!({}));
            Some(detection(exchange::detect::<A>(
                &Text::of::<Base>(&part("base")),
                &Text::of::<Hints>(&part("hints")),
            )))
        }
        "assemble" => Some(outcome(exchange::assemble::<A>(
            &Text::of::<AssemblyRequest>(request),
        ))),
        _ => pack_answer::<A>(call, request),
    })
}

/// Replays the fixtures of a provider pack. Returns all errors.
pub fn replay_pack<P: ProviderPack>(folder: &Path) -> Result<usize, Vec<GoldenError>> {
    replay(folder, pack_answer::<P>)
}

fn pack_answer<P: ProviderPack>(call: &str, request: &Value) -> Option<Value> {
    match call {
        "describe" => Some(parsed(&exchange::describe::<P>())),
        "expand" => Some(outcome(exchange::expand::<P>(
            &Text::of::<ExpansionRequest>(request),
        ))),
        _ => None,
    }
}

fn replay(
    folder: &Path,
    answer: impl Fn(&str, &Value) -> Option<Value>,
) -> Result<usize, Vec<GoldenError>> {
    let rewrite = std::env::var_os("LLSD_GOLDEN").is_some_and(|value| value == "rewrite");
    let failed =
        |error: std::io::Error| vec![GoldenError::File(folder.to_owned(), error.to_string())];
    let mut cases: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            cases.push(path);
        }
    }
    cases.sort();
    let errors: Vec<GoldenError> = cases
        .iter()
        .filter_map(|case| check(case, rewrite, &answer).err())
        .collect();
    if errors.is_empty() {
        Ok(cases.len())
    } else {
        Err(errors)
    }
}

fn check(
    case: &Path,
    rewrite: bool,
    answer: &impl Fn(&str, &Value) -> Option<Value>,
) -> Result<(), GoldenError> {
    let request = load(&case.join("request.json"))?;
    let call = request
        .get("call")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let argument = request.get("request").unwrap_or(&Value::Null);
    let given = answer(call, argument)
        .ok_or_else(|| GoldenError::UnknownCall(case.to_owned(), call.to_owned()))?;
    let path = case.join("answer.json");
    if rewrite {
        let text = format!("{given:#}\n");
        return fs::write(&path, text).map_err(|error| GoldenError::File(path, error.to_string()));
    }
    let recorded = load(&path)?;
    if recorded == given {
        Ok(())
    } else {
        Err(GoldenError::Differs(
            case.to_owned(),
            Box::new(recorded),
            Box::new(given),
        ))
    }
}

fn load(path: &Path) -> Result<Value, GoldenError> {
    let failed = |error: String| GoldenError::File(path.to_owned(), error);
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

fn parsed(text: &Text) -> Value {
    serde_json::from_str(&text.json).unwrap_or_default()
}

fn detection(answer: Detection) -> Value {
    match answer {
        Detection::One(id) => json!({"one": id}),
        Detection::OneOf(ids) => json!({"oneOf": ids}),
        Detection::None => json!({"none": true}),
    }
}

fn outcome(answer: Answer<Text>) -> Value {
    match answer {
        Ok(Outcome { output, warnings }) => {
            json!({"output": parsed(&output), "warnings": diagnostics(&warnings)})
        }
        Err(problems) => json!({"problems": diagnostics(&problems)}),
    }
}

fn diagnostics(all: &[Diagnostic]) -> Value {
    let one = |Diagnostic {
                   field,
                   severity,
                   code,
                   problem,
                   fix,
               }: &Diagnostic| {
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        json!({"field": field, "severity": severity, "code": code, "problem": problem, "fix": fix})
    };
    all.iter().map(one).collect()
}
