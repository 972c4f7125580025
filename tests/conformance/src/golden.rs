//! Answers that a plugin gave once and must keep giving.
//!
//! A folder of cases, each a folder with `request.json` (`{"call": "expand", "request": {…}}`) and
//! `answer.json`, which is what `llsd plugin run` prints for it: `{"output": …, "warnings": […]}`,
//! `{"problems": […]}`, `{"one": …}`, `{"oneOf": […]}` or `{"none": true}`.

use std::io;
use std::path::{Path, PathBuf};

use llsd_plugin::{Plugin, Request, RequestError};
use serde::Deserialize;
use serde_json::Value;

use crate::report::Check;

/// A request and the answer that was recorded for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Name of its folder.
    pub name: String,
    /// The call.
    pub request: Request,
    /// The answer, as JSON.
    pub answer: Value,
}

/// Why fixtures cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FixtureError {
    /// A file or folder cannot be read.
    #[error("could not read {path}: {source}; check the folder of fixtures")]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds no JSON of the right form.
    #[error("{path} is no fixture: {source}; write it as {{\"call\": …, \"request\": …}}")]
    Form {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A request cannot be made.
    #[error("{path}: {source}")]
    Request {
        /// Which.
        path: PathBuf,
        /// Why.
        source: RequestError,
    },
}

/// What a request file holds.
#[derive(Deserialize)]
struct RequestFile {
    call: String,
    #[serde(default)]
    request: Value,
}

/// Reads every case of a folder, by name.
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

/// Every case is answered as recorded.
pub(crate) fn check(plugin: &Plugin, cases: Result<Vec<Case>, FixtureError>) -> Check {
    const NAME: &str = "golden-fixtures";
    const RULE: &str = "the plugin's own fixtures are answered as recorded";
    let cases = match cases {
        Ok(cases) => cases,
        Err(error) => return Check::new(NAME, RULE, "unreadable".into(), vec![error.to_string()]),
    };
    let problems = cases
        .iter()
        .filter_map(|case| differs(plugin, case))
        .collect();
    Check::new(NAME, RULE, format!("{} cases", cases.len()), problems)
}

fn differs(
    plugin: &Plugin,
    Case {
        name,
        request,
        answer,
    }: &Case,
) -> Option<String> {
    let given = match plugin.call(request) {
        Ok(called) => called.answer.to_json(),
        Err(fault) => return Some(format!("{name}: {}", fault.kind)),
    };
    let given: Value = match serde_json::from_str(&given) {
        Ok(given) => given,
        Err(error) => return Some(format!("{name}: the answer is no JSON: {error}")),
    };
    difference(answer, &given, "").map(|difference| format!("{name}: {difference}"))
}

/// The first place where two values differ.
fn difference(recorded: &Value, given: &Value, at: &str) -> Option<String> {
    match (recorded, given) {
        (Value::Object(recorded), Value::Object(given)) => {
            let lost = recorded
                .keys()
                .find(|key| !given.contains_key(*key))
                .map(|key| format!("{at}/{key} is gone"));
            let added = || {
                given
                    .keys()
                    .find(|key| !recorded.contains_key(*key))
                    .map(|key| format!("{at}/{key} is new"))
            };
            let changed = || {
                recorded
                    .iter()
                    .find_map(|(key, value)| difference(value, &given[key], &format!("{at}/{key}")))
            };
            lost.or_else(added).or_else(changed)
        }
        (Value::Array(recorded), Value::Array(given)) if recorded.len() == given.len() => {
            let pairs = recorded.iter().zip(given).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (one, other))| difference(one, other, &format!("{at}/{index}")))
        }
        _ if recorded == given => None,
        _ => Some(format!(
            "{} is {given} and was {recorded}",
            if at.is_empty() { "the answer" } else { at }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let recorded = json!({ "output": { "config": [1, { "a": 1 }] } });
        let with = |value| difference(&recorded, &json!({ "output": { "config": value } }), "");
        assert_eq!(with(json!([1, { "a": 1 }])), None);
        assert_eq!(
            with(json!([1, { "a": 2 }])).unwrap(),
            "/output/config/1/a is 2 and was 1"
        );
        assert_eq!(with(json!([1, {}])).unwrap(), "/output/config/1/a is gone");
        assert_eq!(
            with(json!([1, { "a": 1, "b": 2 }])).unwrap(),
            "/output/config/1/b is new"
        );
        assert_eq!(
            with(json!([1])).unwrap(),
            r#"/output/config is [1] and was [1,{"a":1}]"#
        );
    }

    #[test]
    fn a_folder_is_read_case_by_case_and_a_bad_one_is_named() {
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
