//! The rules of generation, one by one, in every dialect that they concern.
//!
//! The bases are those of the plugins' golden fixtures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod detection;
mod expansion;
mod hostile;
mod providers;
mod registrations;
mod resources;
mod server;
mod storage;
mod telemetry;

use llsd_adapter_sdk::documents::{AssemblyRequest, ExpansionRequest};
use llsd_adapter_sdk::serde_json::{self, Value, json};
use llsd_adapter_sdk::{Answer, Diagnostic, Severity};
use llsd_dialects::{Adapter, Dialect, LLAMA_STACK_0_1_3, LLAMA_STACK_0_2_13, LLAMA_STACK_0_7};

const COUNT: usize = llsd_dialects::ALL.len();

/// Every dialect, newest first.
const DIALECTS: [&Dialect; COUNT] = {
    let mut all = [llsd_dialects::ALL[0]; COUNT];
    let mut place = 0;
    while place < COUNT {
        all[place] = llsd_dialects::ALL[COUNT - 1 - place];
        place += 1;
    }
    all
};

const ALL: Adapter = Adapter {
    name: "all",
    version: "0.0.0",
    dialects: &DIALECTS,
};

const V0_1_3: &str = "llama-stack/0.1.3";
const V0_2_13: &str = "llama-stack/0.2.13";
const V0_3: &str = "llama-stack/0.3";
const V0_4: &str = "llama-stack/0.4";
const V0_5: &str = "llama-stack/0.5";
const V0_7: &str = "llama-stack/0.7";
const OGX_0_8: &str = "ogx/0.8";
const OGX_1_0: &str = "ogx/1.0";

/// Every schema, newest first.
const SCHEMAS: [&str; COUNT] = {
    let mut all = [""; COUNT];
    let mut place = 0;
    while place < COUNT {
        all[place] = DIALECTS[place].id();
        place += 1;
    }
    all
};

/// The assembly request of a golden case. A dialect needs only `minimal`: other cases that it does not
/// have are those of the newest dialect that has them, on its own base.
fn golden(schema: &str, case: &str) -> Value {
    if let Some(request) = read_golden(schema, case) {
        return request;
    }
    let minimal = read_golden(schema, "minimal");
    let minimal = minimal.unwrap_or_else(|| panic!("{schema} has no golden case minimal"));
    let mut others = SCHEMAS.iter();
    let other = others.find_map(|other| read_golden(other, case));
    let mut request = other.unwrap_or_else(|| panic!("no dialect has a golden case {case}"));
    for key in ["base", "schema", "serverVersion"] {
        request[key] = minimal[key].clone();
    }
    request
}

fn read_golden(schema: &str, case: &str) -> Option<Value> {
    let (product, short) = schema.split_once('/').unwrap();
    let plugins = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap();
    let path = std::fs::read_dir(plugins)
        .unwrap()
        .map(|plugin| plugin.unwrap())
        .filter(|plugin| plugin.file_name().to_str().unwrap().starts_with(product))
        .map(|plugin| {
            let case = format!("tests/golden/{short}-{case}/request.json");
            plugin.path().join(case)
        })
        .find(|path| path.exists())?;
    let file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    Some(file["request"].clone())
}

/// A request on the base of a dialect that asks for what `change` adds to it.
fn request(schema: &str, change: Value) -> Value {
    let mut request = golden(schema, "minimal");
    request["providers"] = json!({});
    request["resources"] = json!({});
    for (key, value) in change.as_object().unwrap() {
        request[key.as_str()] = value.clone();
    }
    request
}

/// What an answer contains: the output and the diagnostics.
struct Report {
    output: Value,
    diagnostics: Vec<Diagnostic>,
}

impl Report {
    fn codes(&self) -> Vec<String> {
        self.diagnostics
            .iter()
            .map(|diagnostic| format!("{} {}", diagnostic.code, diagnostic.field))
            .collect()
    }

    fn errors(&self) -> Vec<String> {
        let errors = self
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error);
        errors
            .map(|diagnostic| format!("{} {}", diagnostic.code, diagnostic.field))
            .collect()
    }

    fn config(&self) -> &Value {
        assert!(self.errors().is_empty(), "refused: {:?}", self.diagnostics);
        &self.output["config"]
    }

    /// The provider of an API with an id, conditional or not.
    fn provider(&self, api: &str, id: &str) -> &Value {
        let list = self.config()["providers"][api].as_array().unwrap();
        let is = |entry: &&Value| {
            entry["provider_id"]
                .as_str()
                .is_some_and(|text| text.trim_end_matches('}').ends_with(id))
        };
        list.iter()
            .find(is)
            .unwrap_or_else(|| panic!("no {api} provider {id}: {list:?}"))
    }

    fn ids(&self, api: &str) -> Vec<&str> {
        let list = self.config()["providers"][api].as_array();
        list.into_iter()
            .flatten()
            .filter_map(|entry| entry["provider_id"].as_str())
            .collect()
    }
}

fn report<T: serde::Serialize>(answer: Answer<T>) -> Report {
    match answer {
        Ok(outcome) => Report {
            output: serde_json::to_value(outcome.output).unwrap(),
            diagnostics: outcome.warnings,
        },
        Err(diagnostics) => Report {
            output: Value::Null,
            diagnostics,
        },
    }
}

fn assemble(request: Value) -> Report {
    report(ALL.assemble(serde_json::from_value::<AssemblyRequest>(request).unwrap()))
}

/// Expands an entry at `p`, for the release of the golden cases.
fn expand(schema: &str, api: &str, entry: Value) -> Report {
    let version = golden(schema, "minimal")["serverVersion"].clone();
    expand_for(schema, version, api, entry)
}

fn expand_for(schema: &str, version: Value, api: &str, mut entry: Value) -> Report {
    if entry.get("id").is_none() {
        entry["id"] = json!("x");
    }
    let request = json!({"schema": schema, "serverVersion": version, "api": api, "path": "p", "entry": entry});
    report(ALL.expand(serde_json::from_value::<ExpansionRequest>(request).unwrap()))
}

/// An expanded provider at `p`.
fn placed(id: &str, provider_type: &str, config: Value) -> Value {
    json!({"path": "p", "expansion": {"id": id, "type": provider_type, "config": config, "wants": []}})
}

/// vLLM in the keys of a dialect.
fn vllm(schema: &str) -> Value {
    let key = if [V0_1_3, V0_2_13, V0_3].contains(&schema) {
        "url"
    } else {
        "base_url"
    };
    placed("vllm", "remote::vllm", json!({key: "http://vllm:8000/v1"}))
}
