//! Selects the schema of a base configuration, and the plugin that implements it.
//!
//! The first of these that is known decides: an explicit schema, the release of the server, the
//! plugins' detection. If several schemas are possible, the release that the running server reports
//! decides between them; otherwise the user must choose. Nothing is guessed.
//!
//! The candidates of all plugins are compared on one scale: the points against each of them (see
//! [`Candidate`]). A plugin that does not weigh, because it is older than the points, is neither
//! preferred nor outvoted: its candidate is selected only when it is the only one.

use std::fmt;

use llsd_adapter_sdk::documents::{Hints, ServedSchema};
use llsd_adapter_sdk::{Candidate, Detection, Release};
use serde_json::Value;

use crate::adapter::{Adapter, Fault};
use crate::generate::GenerateError;

/// The selected schema, its plugin, and how it was selected.
#[derive(Clone, Copy)]
pub(crate) struct SelectedSchema<'a> {
    pub(crate) adapter: &'a dyn Adapter,
    pub(crate) schema: &'a ServedSchema,
    pub(crate) source: SchemaSource,
}

/// How the schema was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The releases that read a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    let (mut candidates, is_certain) = detect(adapters, base, hints)?;
    match candidates.as_slice() {
        [] => Err(unsupported(adapters, &unrecognised(base)).into()),
        [one] if is_certain => {
            let id = &one.schema;
            Ok(find_schema(
                adapters,
                SchemaSource::Detected,
                id,
                |schema| schema.id == *id,
            )?)
        }
        _ => {
            if let Some(selected) = running.and_then(|it| choose(adapters, &candidates, it)) {
                return Ok(selected);
            }
            candidates.sort_by_key(|candidate| candidate.points);
            Err(SchemaError::Ambiguous(candidates).into())
        }
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
        })
        .ok_or_else(|| unsupported(adapters, found))
}

/// The candidates of all plugins that no other candidate clearly beats, and whether every one of them
/// is certain: the plugin excludes all schemas that it knows but does not implement, or the schema
/// reads every key of the base.
fn detect(
    adapters: &[&dyn Adapter],
    base: &Value,
    hints: &Hints,
) -> Result<(Vec<Candidate>, bool), Fault> {
    let hints = Hints {
        weigh: true,
        ..hints.clone()
    };
    let mut all: Vec<(Candidate, bool)> = Vec::new();
    for adapter in adapters
        .iter()
        .filter(|adapter| adapter.is_schema_adapter())
    {
        let (ids, is_certain) = match adapter.detect(base, &hints)?.output {
            Detection::One(id) => (vec![id], true),
            Detection::OneOf(ids) => (ids, false),
            Detection::None => continue,
        };
        for candidate in ids.iter().map(|id| Candidate::parse(id)) {
            let is_certain = is_certain || candidate.points == Some(0);
            let is_known = |(known, _): &(Candidate, bool)| known.schema == candidate.schema;
            if !all.iter().any(is_known) {
                all.push((candidate, is_certain));
            }
        }
    }
    let is_beaten = |candidate: &Candidate| {
        let mut others = all.iter().map(|(other, _)| other);
        others.any(|other| other.clearly_beats(candidate))
    };
    let left: Vec<_> = all
        .iter()
        .filter(|(candidate, _)| !is_beaten(candidate))
        .cloned()
        .collect();
    let is_certain = left.iter().all(|(_, is_certain)| *is_certain);
    Ok((
        left.into_iter().map(|(candidate, _)| candidate).collect(),
        is_certain,
    ))
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
