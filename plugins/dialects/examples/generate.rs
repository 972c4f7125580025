//! Runs the adapters natively on a job given as JSON on standard input, and prints the answer.
//!
//! For development: a job is `{schema?, serverVersion?, base, providers: [{api, path, entry}], …}`,
//! where everything else is as in an assembly request. Without `schema` the adapters detect it.

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::collections::BTreeMap;
use std::io::Read as _;

use llsd_adapter_sdk::documents::{AssemblyRequest, ExpansionRequest, Hints, PlacedProvider};
use llsd_adapter_sdk::serde_json::{self, Value, json};
use llsd_adapter_sdk::{Detection, Diagnostic, Outcome};
use llsd_dialects::{ALL, Adapter};

const ADAPTER: Adapter = Adapter {
    name: "all",
    version: "0",
    dialects: ALL,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        println!("{}", answer(serde_json::from_str(line)?)?);
    }
    Ok(())
}

fn answer(mut job: Value) -> Result<Value, Box<dyn std::error::Error>> {
    let hints: Hints = serde_json::from_value(job.get("hints").cloned().unwrap_or(json!({})))?;
    let detected = match ADAPTER.detect(&job["base"], &hints) {
        Detection::One(id) => vec![id],
        Detection::OneOf(ids) => ids,
        Detection::None => Vec::new(),
    };
    let schema = job
        .get("schema")
        .and_then(Value::as_str)
        .or(detected.first().map(String::as_str))
        .unwrap_or("")
        .to_owned();
    if !ALL.iter().any(|dialect| dialect.id() == schema) {
        return Ok(json!({"detected": detected, "errors": ["no adapter"]}));
    }
    let version = job.get("serverVersion").cloned().unwrap_or(Value::Null);
    let mut notes: Vec<Diagnostic> = Vec::new();
    let mut wants = Vec::new();
    let mut providers: BTreeMap<String, Vec<PlacedProvider>> = BTreeMap::new();
    let mut failed = false;
    for item in job
        .get_mut("providers")
        .map(Value::take)
        .and_then(|list| list.as_array().cloned())
        .unwrap_or_default()
    {
        let mut request = item;
        request["schema"] = json!(schema);
        request["serverVersion"] = version.clone();
        let request: ExpansionRequest = serde_json::from_value(request)?;
        let (api, path) = (request.api.clone(), request.path.clone());
        match ADAPTER.expand(request) {
            Ok(Outcome { output, warnings }) => {
                notes.extend(warnings);
                wants.extend(output.wants.clone());
                providers.entry(api).or_default().push(PlacedProvider {
                    path,
                    expansion: output,
                });
            }
            Err(problems) => {
                failed = true;
                notes.extend(problems);
            }
        }
    }
    job["schema"] = json!(schema);
    job["providers"] = serde_json::to_value(providers)?;
    let request: AssemblyRequest = serde_json::from_value(job)?;
    let mut output = Value::Null;
    match ADAPTER.assemble(request) {
        Ok(outcome) => {
            notes.extend(outcome.warnings);
            output = serde_json::to_value(outcome.output)?;
        }
        Err(problems) => {
            failed = true;
            notes.extend(problems);
        }
    }
    let text: Vec<String> = notes
        .iter()
        .map(|note| format!("{:?} [{}] {note}", note.severity, note.code))
        .collect();
    Ok(
        json!({"detected": detected, "schema": schema, "failed": failed, "notes": text, "wants": wants, "assembly": output}),
    )
}
