//! Recordings of a generation: every call of a plugin, the receipt and the file.
//!
//! `llsd render --requests` and `llsd why --requests` write one, and `llsd plugin replay` repeats it. A recording is a directory:
//! `receipt.json`, the generated `config.yaml`, and `calls/<number>-<function>`, each with `request.json` and
//! `answer.json` in the form of a plugin's golden fixtures.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use llsd_plugin::{CallReport, Observer};
use llsd_render::{Receipt, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files;

/// The version of the form.
const FORM: &str = "llamastack.io/receipt/v1";

/// The directory of the calls, which a plugin's author can use as fixtures.
const CALLS: &str = "calls";

/// Records every call that does not fail.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Vec<RecordedCall>>);

/// One call, with its argument and output as canonical JSON.
#[derive(Clone)]
pub(crate) struct RecordedCall {
    pub(crate) entry: CallEntry,
    pub(crate) request: String,
    pub(crate) answer: String,
}

/// What the receipt says about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CallEntry {
    /// The function.
    pub(crate) call: String,
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// `sha256:…` of the component.
    pub(crate) component: String,
    /// `sha256:…` of the argument.
    pub(crate) input: String,
    /// `sha256:…` of the output.
    pub(crate) output: String,
    /// Fuel used.
    pub(crate) fuel: u64,
}

/// The content of `receipt.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptFile {
    form: String,
    #[serde(flatten)]
    receipt: Receipt,
    calls: Vec<CallEntry>,
}

/// A recording that was read.
pub(crate) struct Recording {
    pub(crate) receipt: Receipt,
    pub(crate) calls: Vec<RecordedCall>,
    /// The generated file.
    pub(crate) config: String,
}

impl Observer for Recorder {
    fn called(&self, report: &CallReport<'_>) {
        let Some(output) = report.output else { return };
        let (request, answer) = (report.request.to_json(), output.to_json());
        let entry = CallEntry {
            call: report.call.to_owned(),
            plugin: report.plugin.to_owned(),
            component: report.digest.to_owned(),
            input: report.request.digest(),
            output: digest::of(answer.as_bytes()),
            fuel: report.fuel,
        };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(RecordedCall {
            entry,
            request,
            answer,
        });
    }
}

impl Recorder {
    /// Removes the calls until now.
    #[cfg(feature = "network")]
    pub(crate) fn clear(&self) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.clear();
    }

    /// Writes the recording of a generation to a new directory.
    pub(crate) fn write(
        &self,
        folder: &Path,
        receipt: &Receipt,
        config: &str,
    ) -> anyhow::Result<()> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let create = || {
            std::fs::create_dir_all(folder.parent().unwrap_or(folder))?;
            std::fs::create_dir(folder)
        };
        create().with_context(|| {
            format!(
                "failed to create {}; use a directory that does not exist",
                folder.display()
            )
        })?;
        let mut entries = Vec::new();
        for (
            number,
            RecordedCall {
                entry,
                request,
                answer,
            },
        ) in calls.iter().enumerate()
        {
            let case = folder.join(CALLS).join(case_name(number, entry));
            std::fs::create_dir_all(&case)
                .with_context(|| format!("failed to create {}", case.display()))?;
            let request = format!("{{\"call\":{:?},\"request\":{request}}}\n", entry.call);
            files::write(&case.join("request.json"), &request)?;
            files::write(&case.join("answer.json"), format!("{answer}\n"))?;
            entries.push(entry.clone());
        }
        files::write(&folder.join("config.yaml"), config)?;
        let file = ReceiptFile {
            form: FORM.to_owned(),
            receipt: receipt.clone(),
            calls: entries,
        };
        files::write(
            &folder.join("receipt.json"),
            &(serde_json::to_string_pretty(&file)? + "\n"),
        )
    }
}

impl Recording {
    /// Reads a recording, and checks that its files belong together.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("receipt.json");
        let file: ReceiptFile = serde_json::from_str(&files::text(&path)?)
            .with_context(|| format!("{} is not a receipt", path.display()))?;
        ensure!(
            file.form == FORM,
            "{} has the form {:?}, but this llsd reads {FORM:?}; use a newer llsd",
            path.display(),
            file.form
        );
        let mut calls = Vec::new();
        for (number, entry) in file.calls.into_iter().enumerate() {
            let case = folder.join(CALLS).join(case_name(number, &entry));
            let fixture: Value = serde_json::from_str(&files::text(&case.join("request.json"))?)
                .with_context(|| format!("{} has no valid request", case.display()))?;
            let answer = files::text(&case.join("answer.json"))?
                .trim_end()
                .to_owned();
            ensure!(
                fixture["call"] == entry.call.as_str(),
                "{} has another function than the receipt",
                case.display()
            );
            calls.push(RecordedCall {
                request: llsd_adapter_sdk::exchange::canonical(&fixture["request"]),
                answer,
                entry,
            });
        }
        Ok(Self {
            receipt: file.receipt,
            calls,
            config: files::text(&folder.join("config.yaml"))?,
        })
    }

    /// What does not agree within the recording itself: each is a sentence.
    pub(crate) fn contradictions(&self) -> anyhow::Result<Vec<String>> {
        let Self {
            receipt,
            calls,
            config,
            ..
        } = self;
        let mut found = Vec::new();
        for RecordedCall { entry, answer, .. } in calls {
            if digest::of(answer.as_bytes()) != entry.output {
                found.push(format!("the recorded answer of {} was changed", entry.call));
            }
        }
        let mut generating = Vec::new();
        let mut seen = BTreeSet::new();
        for RecordedCall { entry, .. } in calls {
            let is_generating = ["expand", "assemble"].contains(&entry.call.as_str());
            if is_generating && seen.insert((&entry.component, &entry.input)) {
                generating.push(entry.input.as_str());
            }
        }
        if digest::of(generating.join("\n").as_bytes()) != receipt.input {
            found.push("the recorded requests are not those of the receipt".to_owned());
        }
        if digest::of(config.as_bytes()) != receipt.output {
            found.push("config.yaml is not the file of the receipt".to_owned());
        }
        let Some(last) = calls.iter().rfind(|call| call.entry.call == "assemble") else {
            bail!("the recording has no call of assemble");
        };
        let assembled: Value = serde_json::from_str(&last.answer)?;
        let file = llsd_render::yaml::read(config)?;
        let canonical = |value: &Value| llsd_adapter_sdk::exchange::canonical(value);
        if canonical(&file) != canonical(&assembled["output"]["config"]) {
            found.push("config.yaml is not what assemble returned".to_owned());
        }
        if last.entry.component != receipt.component {
            found.push("another component assembled than the receipt says".to_owned());
        }
        Ok(found)
    }
}

fn case_name(number: usize, entry: &CallEntry) -> String {
    format!("{:03}-{}", number + 1, entry.call)
}
