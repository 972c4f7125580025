//! Selects the schema of a base configuration, and the plugin that implements it.
//!
//! The first of these that is known decides: an explicit schema, the release of the server, the
//! plugins' detection. If several schemas are possible, the release that the running server reports
//! decides between them; otherwise the user must choose. Nothing is guessed.
//!
//! A detected schema is selected only if its plugin is certain, which includes the schemas that the
//! plugin knows and does not implement, and if it clearly beats the candidates of all other plugins.
//! They are compared on one scale: the points against each of them (see [`Candidate`]). A plugin that
//! does not weigh, because it is older than the points, is neither preferred nor outvoted: its
//! candidate is selected only when it is the only one.

use std::fmt;

use llsd_adapter_sdk::documents::{Hints, ServedSchema};
use llsd_adapter_sdk::{Candidate, Detection, Release};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::adapter::{Adapter, Fault};
use crate::generate::GenerateError;

/// The selected schema, its plugin, and how it was selected.
#[derive(Clone)]
pub(crate) struct SelectedSchema<'a> {
    pub(crate) adapter: &'a dyn Adapter,
    pub(crate) schema: &'a ServedSchema,
    pub(crate) source: SchemaSource,
    /// The faults of plugins that were asked to detect the schema, and that were not needed.
    pub(crate) skipped: Vec<Fault>,
}

impl SelectedSchema<'_> {
    pub(crate) fn choice(&self) -> SchemaChoice {
        SchemaChoice {
            id: self.schema.id.clone(),
            source: self.source,
        }
    }
}

/// How the schema was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaSource {
    /// By its id in the resource, in the distribution map or in a label of the image.
    Stated,
    /// By the release of the server package.
    ServerVersion,
    /// By a plugin that recognised the base configuration.
    Detected,
    /// By the release that the running server reports, among several candidates of the plugins.
    RunningServer,
}

impl SchemaSource {
    /// The value of `schemaSource` in JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::ServerVersion => "serverVersion",
            Self::Detected => "detected",
            Self::RunningServer => "runningServer",
        }
    }
}

/// A selected schema, and how it was selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaChoice {
    /// The id of the schema.
    pub id: String,
    /// How it was selected.
    pub source: SchemaSource,
}

/// The releases that read a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseRange {
    /// The first release.
    pub from: String,
    /// The first release after the schema; `None` for the newest schema.
    pub before: Option<String>,
}

impl ReleaseRange {
    /// Whether a release is in the range; `None` if the string contains no release.
    pub fn includes(&self, release: &str) -> Option<bool> {
        Some(is_between(
            Release::parse(release)?,
            &self.from,
            self.before.as_deref(),
        ))
    }
}

impl From<&ServedSchema> for ReleaseRange {
    fn from(schema: &ServedSchema) -> Self {
        Self {
            from: schema.from.clone(),
            before: schema.before.clone(),
        }
    }
}

impl fmt::Display for ReleaseRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, before } = self;
        match before {
            Some(before) => write!(f, "from {from} to before {before}"),
            None => write!(f, "from {from}"),
        }
    }
}

/// The schema that a release reads, among those of the plugins.
pub fn schema_of_release(adapters: &[&dyn Adapter], release: &str) -> Option<String> {
    let release = Release::parse(release)?;
    schemas(adapters)
        .find(|(_, schema)| includes(schema, release))
        .map(|(_, schema)| schema.id.clone())
}

/// The schema of a base configuration, selected as [`generate`](crate::generate) selects it.
pub fn schema_of_base(
    adapters: &[&dyn Adapter],
    base: &Value,
    hints: &Hints,
) -> Result<SchemaChoice, GenerateError> {
    Ok(select_schema(adapters, base, hints, None)?.choice())
}

/// How well a schema reads a base configuration that may be written in another one: the candidate that
/// its adapter detects, or `None` if the adapter excludes it or does not exist.
pub fn candidate(adapters: &[&dyn Adapter], base: &Value, schema: &str) -> Option<Candidate> {
    let (adapter, _) = schemas(adapters).find(|(_, served)| served.id == schema)?;
    let (detected, _) = detect(&[adapter], base, &Hints::default());
    let mut candidates = detected.into_iter().map(|one| one.candidate);
    candidates.find(|one| one.schema == schema)
}

/// Every schema that the plugins serve, each once, in the order of their releases.
pub fn served_schemas(adapters: &[&dyn Adapter]) -> Vec<String> {
    let mut served: Vec<&ServedSchema> = schemas(adapters).map(|(_, schema)| schema).collect();
    served.sort_by_key(|schema| Release::parse_bound(&schema.from));
    unique(served.into_iter().map(|schema| schema.id.clone()))
}

/// Why no schema was selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// No plugin implements the schema or release, or none recognises the base configuration.
    #[error("Unsupported config.yaml version {found}. Supported versions: {}", .supported.join(", "))]
    Unsupported {
        /// The schema id or release, or what the base configuration looks like.
        found: String,
        /// Every schema id of the installed plugins.
        supported: Vec<String>,
    },
    /// The base configuration matches several schemas, or one of the installed plugins and others.
    #[error("the base configuration matches {}; set spec.distribution.schema to the right one, label the image with io.llamastack.config.schema, or pass --schema or --server-version to llsd", describe(.0))]
    Ambiguous(Vec<Candidate>),
}

/// The candidates, with the keys that tell them apart.
fn describe(candidates: &[Candidate]) -> String {
    let list = |verb: &str, keys: &[String]| {
        let keys: Vec<String> = keys
            .iter()
            .take(LISTED_KEYS)
            .map(|key| clean(key))
            .collect();
        (!keys.is_empty()).then(|| format!("{verb} {}", keys.join(", ")))
    };
    let one = |candidate: &Candidate| {
        let reasons: Vec<String> = [
            list("reads", &candidate.supports),
            list("ignores", &candidate.contradicts),
        ]
        .into_iter()
        .flatten()
        .collect();
        if reasons.is_empty() {
            candidate.schema.clone()
        } else {
            format!("{} ({})", candidate.schema, reasons.join("; "))
        }
    };
    let all: Vec<String> = candidates.iter().map(one).collect();
    match all.as_slice() {
        [only] => format!("{only} and schemas that no installed plugin implements"),
        _ => format!("several schemas: {}", all.join(", ")),
    }
}

/// How many keys are listed for and against a candidate.
const LISTED_KEYS: usize = 4;

/// A key as a plugin names it, without control characters and not longer than a line.
fn clean(key: &str) -> String {
    key.chars().filter(|c| !c.is_control()).take(100).collect()
}

/// Selects a schema. If two plugins implement it, the first one is used. `running` is the release that
/// the running server reports.
pub(crate) fn select_schema<'a>(
    adapters: &[&'a dyn Adapter],
    base: &Value,
    hints: &Hints,
    running: Option<&str>,
) -> Result<SelectedSchema<'a>, GenerateError> {
    if let Some(stated) = &hints.schema {
        return Ok(find_schema(
            adapters,
            SchemaSource::Stated,
            stated,
            |schema| schema.id == *stated,
        )?);
    }
    // A version without a number, such as `latest`, is ignored.
    let version = hints.server_version.as_deref();
    if let Some((version, release)) = version.and_then(|v| Some((v, Release::parse(v)?))) {
        // The product is not needed: the release ranges of llama-stack and ogx do not overlap.
        let source = SchemaSource::ServerVersion;
        return Ok(find_schema(adapters, source, version, |schema| {
            includes(schema, release)
        })?);
    }
    let (detected, faults) = detect(adapters, base, hints);
    if let Some(id) = winner(&detected) {
        let source = SchemaSource::Detected;
        let selected = find_schema(adapters, source, id, |schema| schema.id == id)?;
        return without_faulty(selected, faults);
    }
    // A plugin that failed might have been certain.
    if let Some(fault) = faults.into_iter().next() {
        return Err(fault.into());
    }
    if detected.is_empty() {
        return Err(unsupported(adapters, &unrecognised(base)).into());
    }
    let mut candidates: Vec<_> = detected.into_iter().map(|one| one.candidate).collect();
    if let Some(selected) = running.and_then(|it| choose(adapters, &candidates, it)) {
        return Ok(selected);
    }
    candidates.sort_by_key(|candidate| candidate.points);
    Err(SchemaError::Ambiguous(candidates).into())
}

/// The selection, with the faults of other plugins. Fails if the selected plugin itself failed: its output
/// would be worth nothing, and another plugin for the same schema could write another configuration.
fn without_faulty(
    selected: SelectedSchema<'_>,
    faults: Vec<Fault>,
) -> Result<SelectedSchema<'_>, GenerateError> {
    let is_selected = |fault: &&Fault| fault.digest == selected.adapter.digest();
    match faults.iter().find(is_selected) {
        Some(fault) => Err(fault.clone().into()),
        None => Ok(SelectedSchema {
            skipped: faults,
            ..selected
        }),
    }
}

/// What a base configuration that no plugin recognises says about itself.
fn unrecognised(base: &Value) -> String {
    match &base["version"] {
        Value::Null => "(not recognised, without a version)".to_owned(),
        Value::String(version) => format!("\"{}\" (not recognised)", clean(version)),
        version @ (Value::Number(_) | Value::Bool(_)) => format!("{version} (not recognised)"),
        _ => "(not recognised, version is not a number or string)".to_owned(),
    }
}

/// The candidate that a release reads. `None` if the release reads none of them: a base of another
/// release than the running server's stays a question.
fn choose<'a>(
    adapters: &[&'a dyn Adapter],
    candidates: &[Candidate],
    running: &str,
) -> Option<SelectedSchema<'a>> {
    let release = Release::parse(running)?;
    let is_candidate = |schema: &ServedSchema| candidates.iter().any(|one| one.schema == schema.id);
    let source = SchemaSource::RunningServer;
    let found = find_schema(adapters, source, running, |schema| {
        includes(schema, release) && is_candidate(schema)
    });
    found.ok()
}

/// The first schema that matches. `found` describes it in the error.
fn find_schema<'a>(
    adapters: &[&'a dyn Adapter],
    source: SchemaSource,
    found: &str,
    matches: impl Fn(&ServedSchema) -> bool,
) -> Result<SelectedSchema<'a>, SchemaError> {
    schemas(adapters)
        .find(|(_, schema)| matches(schema))
        .map(|(adapter, schema)| SelectedSchema {
            adapter,
            schema,
            source,
            skipped: Vec::new(),
        })
        .ok_or_else(|| unsupported(adapters, found))
}

/// A schema that a plugin detected.
struct Detected {
    candidate: Candidate,
    /// Whether the plugin excludes every other schema that it knows.
    is_certain: bool,
}

/// The candidates of all plugins, each once, and the faults of those that failed.
fn detect(adapters: &[&dyn Adapter], base: &Value, hints: &Hints) -> (Vec<Detected>, Vec<Fault>) {
    let hints = Hints {
        weigh: true,
        ..hints.clone()
    };
    let mut all: Vec<Detected> = Vec::new();
    let mut faults = Vec::new();
    for adapter in adapters
        .iter()
        .filter(|adapter| adapter.is_schema_adapter())
    {
        let detection = match adapter.detect(base, &hints) {
            Ok(response) => response.output,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        let (ids, is_certain) = match detection {
            Detection::One(id) => (vec![id], true),
            Detection::OneOf(ids) => (ids, false),
            Detection::None => continue,
        };
        for candidate in ids.iter().map(|id| Candidate::parse(id)) {
            let is_known = |one: &Detected| one.candidate.schema == candidate.schema;
            if !all.iter().any(is_known) {
                all.push(Detected {
                    candidate,
                    is_certain,
                });
            }
        }
    }
    (all, faults)
}

/// The id of the certain candidate that clearly beats all others.
fn winner(detected: &[Detected]) -> Option<&str> {
    let beats_all = |one: &&Detected| {
        let mut others = detected.iter().map(|other| &other.candidate);
        others
            .all(|other| other.schema == one.candidate.schema || one.candidate.clearly_beats(other))
    };
    let mut certain = detected.iter().filter(|one| one.is_certain);
    certain
        .find(beats_all)
        .map(|one| one.candidate.schema.as_str())
}

fn unsupported(adapters: &[&dyn Adapter], found: &str) -> SchemaError {
    SchemaError::Unsupported {
        found: found.to_owned(),
        supported: unique(schemas(adapters).map(|(_, schema)| schema.id.clone())),
    }
}

/// Every schema of the schema adapters, with its plugin.
fn schemas<'a>(
    adapters: &[&'a dyn Adapter],
) -> impl Iterator<Item = (&'a dyn Adapter, &'a ServedSchema)> {
    adapters
        .iter()
        .copied()
        .filter(|adapter| adapter.is_schema_adapter())
        .flat_map(|adapter| {
            let schemas = &adapter.description().schemas;
            schemas.iter().map(move |schema| (adapter, schema))
        })
}

/// Whether the range of a schema includes a release.
fn includes(schema: &ServedSchema, release: Release) -> bool {
    is_between(release, &schema.from, schema.before.as_deref())
}

fn is_between(release: Release, from: &str, before: Option<&str>) -> bool {
    let bound = |text: &str| Release::parse_bound(text);
    let is_before_end = before.and_then(bound).is_none_or(|before| release < before);
    is_before_end && bound(from).is_some_and(|from| release >= from)
}

fn unique(ids: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for id in ids {
        if !seen.contains(&id) {
            seen.push(id);
        }
    }
    seen
}
