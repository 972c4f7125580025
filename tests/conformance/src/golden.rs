//! Golden fixtures: recorded requests, and the results that the plugin must still return.
//!
//! Each case is a folder with `request.json` (`{"call": "expand", "request": {…}}`) and
//! `answer.json`, which holds what `llsd plugin run` prints for that request: `{"output": …, "warnings": […]}`,
//! `{"problems": […]}`, `{"one": …}`, `{"oneOf": […]}` or `{"none": true}`.

use std::io;
use std::path::{Path, PathBuf};

use llsd_plugin::{Plugin, Request, RequestError};
use serde::Deserialize;
use serde_json::Value;

use crate::report::Check;

/// A request and the result that was recorded for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The name of its folder.
    pub name: String,
    /// The call.
    pub request: Request,
    /// The recorded result, as JSON.
    pub answer: Value,
}

/// Why the fixtures could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FixtureError {
    /// A file or folder could not be read.
    #[error("failed to read {path}: {source}; each case needs request.json and answer.json")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not JSON of the expected form.
    #[error(
        "{path} is not a valid fixture: {source}; request.json must be {{\"call\": …, \"request\": …}} and answer.json any JSON"
    )]
    Form {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A request is not valid for its call.
    #[error("{path}: {source}")]
    Request {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: RequestError,
    },
}

/// The content of `request.json`.
#[derive(Deserialize)]
struct RequestFile {
    call: String,
    #[serde(default)]
    request: Value,
}

/// Reads every case of a folder, sorted by name.
pub fn read(folder: &Path) -> Result<Vec<Case>, FixtureError> {
    let failed = |path: &Path, source| FixtureError::Read {
        path: path.to_owned(),
        source,
    };
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|source| failed(folder, source))? {
        let path = entry.map_err(|source| failed(folder, source))?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    folders.iter().map(|folder| case(folder)).collect()
}

fn case(folder: &Path) -> Result<Case, FixtureError> {
    fn load<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FixtureError> {
        let text = std::fs::read_to_string(path).map_err(|source| FixtureError::Read {
            path: path.to_owned(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|source| FixtureError::Form {
            path: path.to_owned(),
            source,
        })
    }
    let path = folder.join("request.json");
    let RequestFile { call, request } = load(&path)?;
    let request = Request::from_json(&call, &request)
        .map_err(|source| FixtureError::Request { path, source })?;
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(Case {
        name,
        request,
        answer: load(&folder.join("answer.json"))?,
    })
}

/// The plugin returns what each case recorded.
pub(crate) fn check(plugin: &Plugin, cases: Result<Vec<Case>, FixtureError>) -> Check {
    const NAME: &str = "golden-fixtures";
    const RULE: &str = "the plugin must return what its own golden fixtures recorded";
    const FIX: &str = "restore the old behaviour, or record the new result with `llsd plugin run` if it is intended";
    let cases = match cases {
        Ok(cases) => cases,
        Err(error) => {
            return Check::new(
                NAME,
                RULE,
                FIX,
                "unreadable".into(),
                vec![error.to_string()],
            );
        }
    };
    let problems = cases
        .iter()
        .filter_map(|case| problem(plugin, case))
        .collect();
    Check::new(NAME, RULE, FIX, format!("{} cases", cases.len()), problems)
}

/// How the result of one case differs from what was recorded.
fn problem(
    plugin: &Plugin,
    Case {
        name,
        request,
        answer,
    }: &Case,
) -> Option<String> {
    let returned = match plugin.call(request) {
        Ok(called) => called.output.to_json(),
        Err(fault) => return Some(format!("{name}: the call failed: {}", fault.kind)),
    };
    let returned: Value = match serde_json::from_str(&returned) {
        Ok(returned) => returned,
        Err(error) => return Some(format!("{name}: the result is not valid JSON: {error}")),
    };
    difference(answer, &returned, "").map(|difference| format!("{name}: {difference}"))
}

/// The first difference between two values, by its JSON pointer.
fn difference(recorded: &Value, returned: &Value, at: &str) -> Option<String> {
    match (recorded, returned) {
        (Value::Object(recorded), Value::Object(returned)) => {
            let missing = recorded
                .keys()
                .find(|key| !returned.contains_key(*key))
                .map(|key| format!("{at}/{key} was recorded, but is missing now"));
            let added = || {
                returned
                    .keys()
                    .find(|key| !recorded.contains_key(*key))
                    .map(|key| format!("{at}/{key} was not recorded"))
            };
            let changed = || {
                recorded.iter().find_map(|(key, value)| {
                    difference(value, &returned[key], &format!("{at}/{key}"))
                })
            };
            missing.or_else(added).or_else(changed)
        }
        (Value::Array(recorded), Value::Array(returned)) if recorded.len() == returned.len() => {
            let pairs = recorded.iter().zip(returned).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (one, other))| difference(one, other, &format!("{at}/{index}")))
        }
        _ if recorded == returned => None,
        _ => Some(format!(
            "{} is {returned}, but {recorded} was recorded",
            if at.is_empty() { "the result" } else { at }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_reported_by_its_json_pointer() {
        let recorded = json!({ "output": { "config": [1, { "a": 1 }] } });
        let with = |value| difference(&recorded, &json!({ "output": { "config": value } }), "");
        assert_eq!(with(json!([1, { "a": 1 }])), None);
        assert_eq!(
            with(json!([1, { "a": 2 }])).unwrap(),
            "/output/config/1/a is 2, but 1 was recorded"
        );
        assert_eq!(
            with(json!([1, {}])).unwrap(),
            "/output/config/1/a was recorded, but is missing now"
        );
        assert_eq!(
            with(json!([1, { "a": 1, "b": 2 }])).unwrap(),
            "/output/config/1/b was not recorded"
        );
        assert_eq!(
            with(json!([1])).unwrap(),
            r#"/output/config is [1], but [1,{"a":1}] was recorded"#
        );
    }

    #[test]
    fn every_case_of_a_folder_is_read_and_an_invalid_call_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let case = folder.path().join("one");
        std::fs::create_dir(&case).unwrap();
        std::fs::write(case.join("request.json"), r#"{"call":"describe"}"#).unwrap();
        std::fs::write(case.join("answer.json"), "{}").unwrap();
        std::fs::write(folder.path().join("README.md"), "about these").unwrap();
        let cases = read(folder.path()).unwrap();
        assert_eq!(
            cases,
            [Case {
                name: "one".into(),
                request: Request::Describe,
                answer: json!({})
            }]
        );
        std::fs::write(case.join("request.json"), r#"{"call":"dance"}"#).unwrap();
        assert!(
            read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("dance")
        );
    }
}
