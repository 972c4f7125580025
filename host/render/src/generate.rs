//! Generates the server configuration from a checked resource and a base configuration.
//!
//! In: the resource, the base configuration and the plugins. Out: the complete file, the environment
//! variables and startup options that it needs, diagnostics, and a receipt. The operator, the
//! webhook, the command line and the shadow run of a candidate plugin all call [`generate`].

mod capabilities;
mod config_patch;
mod input_size;
mod local_state;
mod needed_variables;
mod requests;
mod variables;

use std::collections::BTreeMap;

use llsd_adapter_sdk::Outcome;
use llsd_adapter_sdk::documents::{
    Counts, ExpansionRequest, Hints, ModelId, PlacedProvider, Startup, Variable,
};
use llsd_api::checked::Checked;
use llsd_api::{Diagnostic, FieldPath, Severity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::adapter::{Adapter, Fault, Response};
use crate::schema_selection::{
    ReleaseRange, SchemaChoice, SchemaError, SelectedSchema, select_schema,
};
use crate::{digest, key_order, yaml};

pub use config_patch::merge as merge_patch;
pub use requests::PodContext;
use requests::Target;
pub use variables::{PodVariable, ValueSource};

/// The inputs of [`generate`].
pub struct Inputs<'a> {
    /// The resource.
    pub checked: &'a Checked,
    /// The base configuration, with its keys in their original order.
    pub base: &'a Value,
    /// What is known about the base configuration: labels, server release, an explicit schema.
    pub hints: &'a Hints,
    /// The release that the running server reports. It decides only between several candidates, and
    /// the configuration does not depend on it otherwise.
    pub running_release: Option<&'a str>,
    /// Paths in the pod, and the packages of external providers.
    pub pod_context: &'a PodContext,
}

/// A generated server configuration and everything that it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// The server configuration as YAML.
    pub yaml: String,
    /// The same as a value, with the keys in the same order. A stored configuration has only the YAML.
    #[serde(skip)]
    pub config: Value,
    /// Environment variables that the pod must have.
    pub variables: Vec<PodVariable>,
    /// How to start the server with this configuration.
    pub startup: Startup,
    /// Number of providers, models and so on in the configuration.
    pub counts: Counts,
    /// The model ids that clients use.
    pub models: Vec<ModelId>,
    /// Warnings, sorted by field.
    pub warnings: Vec<Diagnostic>,
    /// The schema of the configuration.
    pub schema: SchemaChoice,
    /// The releases that read the schema.
    pub releases: ReleaseRange,
    /// Which plugin generated it, from which input.
    pub receipt: Receipt,
    /// The provider packs that expanded entries: the digest of the component by the name of the pack.
    #[serde(default)]
    pub packs: BTreeMap<String, String>,
    /// The faults of plugins that were asked to detect the schema, and that were not needed. Each is also
    /// a warning.
    #[serde(skip)]
    pub skipped: Vec<Fault>,
}

/// The plugin, input and output of a generation: enough to repeat it elsewhere and compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// `sha256:…` of the component.
    pub component: String,
    /// `sha256:…` over the digests of all requests, in order.
    pub input: String,
    /// `sha256:…` of the generated file.
    pub output: String,
    /// Fuel of all calls together.
    pub fuel: u64,
    /// The program that generated the file. Receipts of older releases do not have it.
    #[serde(default)]
    pub engine: String,
}

/// The program that generates, as receipts name it.
pub const ENGINE: &str = concat!("llsd ", env!("CARGO_PKG_VERSION"));

/// Why [`generate`] failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// A plugin reported errors in the resource, or the input is too large for plugins.
    #[error("the resource is invalid")]
    Rejected {
        /// The schema that was selected before; `None` if the input is too large.
        schema: Option<SchemaChoice>,
        /// All diagnostics, including warnings.
        diagnostics: Vec<Diagnostic>,
    },
    /// The schema of the base configuration is unknown, ambiguous or unsupported.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A plugin call failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Generates the server configuration.
pub fn generate(
    adapters: &[&dyn Adapter],
    inputs: &Inputs<'_>,
) -> Result<Generated, GenerateError> {
    let Inputs {
        base,
        hints,
        running_release,
        ..
    } = inputs;
    input_size::check(inputs)?;
    let selected = select_schema(adapters, base, hints, *running_release)?;
    let releases = ReleaseRange::from(selected.schema);
    let target = Target {
        schema: &selected.schema.id,
        // A release that does not read the selected schema is overruled by what selected it.
        server_version: hints
            .server_version
            .as_deref()
            .filter(|version| releases.includes(version).unwrap_or(true)),
    };
    let mut calls = CallLog::default();
    calls
        .diagnostics
        .extend(selected.skipped.iter().map(skipped));
    let unsupported = capabilities::check(inputs.checked, selected.adapter.description());
    if !unsupported.is_empty() {
        calls.diagnostics.extend(unsupported);
        return Err(calls.into_rejection(&selected));
    }
    let Expanded {
        providers,
        wants,
        packs,
    } = expand(adapters, &selected, target, inputs, &mut calls)?;
    let request = requests::assembly(inputs, target, providers);
    let assembly = match calls.record(selected.adapter.assemble(&request)?) {
        Ok(Outcome { output, warnings }) => {
            calls.report(warnings);
            output
        }
        Err(problems) => {
            calls.report(problems);
            return Err(calls.into_rejection(&selected));
        }
    };
    if calls.has_errors() {
        return Err(calls.into_rejection(&selected));
    }

    let wanted = wants.into_iter().chain(assembly.variables);
    let variables = match variables::resolve(inputs.checked, wanted) {
        Ok(variables) => variables,
        Err(problems) => {
            calls.diagnostics.extend(problems);
            return Err(calls.into_rejection(&selected));
        }
    };
    let Patched { config, counts } = patch(inputs, assembly.config, assembly.counts, &mut calls);
    let needed = needed_variables::check(inputs, &config, &assembly.startup.env, &variables);
    calls.diagnostics.extend(needed);
    let local_state = config.as_object();
    let local_state = local_state.and_then(|config| local_state::check(inputs.checked, config));
    calls.diagnostics.extend(local_state);
    if calls.has_errors() {
        return Err(calls.into_rejection(&selected));
    }
    let yaml = yaml::write(&config);
    Ok(Generated {
        variables,
        startup: assembly.startup,
        counts,
        models: assembly.models,
        schema: selected.choice(),
        releases,
        receipt: calls.receipt(selected.adapter, &yaml),
        packs,
        skipped: selected.skipped,
        warnings: calls.into_diagnostics(),
        config,
        yaml,
    })
}

/// A configuration after the patch of the resource.
struct Patched {
    config: Value,
    counts: Counts,
}

/// Merges `spec.configPatch` over what the adapter assembled, and orders the keys.
fn patch(
    inputs: &Inputs<'_>,
    mut config: Map<String, Value>,
    mut counts: Counts,
    calls: &mut CallLog,
) -> Patched {
    let patch = &inputs.checked.config_patch;
    if !patch.is_empty() {
        calls
            .diagnostics
            .extend(config_patch::check(&config, patch));
        let before = input_size::providers(config.get("providers"));
        config_patch::merge(&mut config, patch);
        let after = input_size::providers(config.get("providers"));
        let number = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        counts.providers = (counts.providers + number(after)).saturating_sub(number(before));
    }
    Patched {
        config: key_order::like_base(inputs.base, Value::Object(config)),
        counts,
    }
}

/// The warning about a plugin that failed and was not needed.
fn skipped(fault: &Fault) -> Diagnostic {
    let Fault {
        plugin,
        digest,
        call,
        kind,
    } = fault;
    Diagnostic::warning(
        FieldPath::base_config(),
        format!("plugin {plugin:?} ({digest}) was skipped: {call} {kind}"),
        "another plugin recognises the base configuration; set spec.distribution.schema to ask no plugin",
    )
    .with_code("plugin-skipped")
}

/// The expanded provider entries by API, the variables that they need, and the packs that expanded them.
#[derive(Default)]
struct Expanded {
    providers: BTreeMap<String, Vec<PlacedProvider>>,
    wants: Vec<Variable>,
    packs: BTreeMap<String, String>,
}

/// Expands every provider entry. Continues after an error, so that all errors are reported at once.
fn expand(
    adapters: &[&dyn Adapter],
    selected: &SelectedSchema<'_>,
    target: Target<'_>,
    inputs: &Inputs<'_>,
    calls: &mut CallLog,
) -> Result<Expanded, GenerateError> {
    let mut expanded = Expanded::default();
    for request in requests::expansions(inputs.checked, target) {
        let adapter = expanding_adapter(adapters, selected, &request);
        if !adapter.is_schema_adapter() {
            let name = adapter.description().name.clone();
            expanded.packs.insert(name, adapter.digest().to_owned());
        }
        match calls.record(adapter.expand(&request)?) {
            Ok(Outcome { output, warnings }) => {
                calls.report(warnings);
                expanded.wants.extend(output.wants.iter().cloned());
                let providers = expanded.providers.entry(request.api).or_default();
                providers.push(PlacedProvider {
                    path: request.path,
                    expansion: output,
                });
            }
            Err(problems) => calls.report(problems),
        }
    }
    if calls.has_errors() {
        return Err(std::mem::take(calls).into_rejection(selected));
    }
    Ok(expanded)
}

/// The plugin that expands an entry: the schema adapter, or a provider pack if only that knows the
/// provider.
fn expanding_adapter<'a>(
    adapters: &[&'a dyn Adapter],
    selected: &SelectedSchema<'a>,
    request: &ExpansionRequest,
) -> &'a dyn Adapter {
    if knows_provider(selected.adapter, request) {
        return selected.adapter;
    }
    adapters
        .iter()
        .copied()
        .find(|adapter| !adapter.is_schema_adapter() && knows_provider(*adapter, request))
        .unwrap_or(selected.adapter)
}

/// Whether a plugin's description lists the provider of an entry, by its name or its type.
fn knows_provider(adapter: &dyn Adapter, request: &ExpansionRequest) -> bool {
    let wanted = &request.entry.provider;
    let known = adapter
        .description()
        .providers
        .get(&request.schema)
        .and_then(|apis| apis.get(&request.api));
    known.is_some_and(|providers| {
        providers
            .iter()
            .any(|one| one.name == *wanted || one.provider_type == *wanted)
    })
}

/// The inputs, fuel and diagnostics of all calls of one generation.
#[derive(Default)]
struct CallLog {
    inputs: Vec<String>,
    fuel: u64,
    diagnostics: Vec<Diagnostic>,
}

impl CallLog {
    /// Adds a call, and returns its output.
    fn record<T>(&mut self, response: Response<T>) -> T {
        self.inputs.push(response.input);
        self.fuel += response.fuel;
        response.output
    }

    /// Adds the diagnostics of a plugin.
    fn report(&mut self, diagnostics: Vec<llsd_adapter_sdk::Diagnostic>) {
        self.diagnostics
            .extend(diagnostics.into_iter().map(from_plugin));
    }

    fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    fn receipt(&self, adapter: &dyn Adapter, yaml: &str) -> Receipt {
        let description = adapter.description();
        Receipt {
            plugin: description.name.clone(),
            version: description.version.clone(),
            component: adapter.digest().to_owned(),
            input: digest::of(self.inputs.join("\n").as_bytes()),
            output: digest::of(yaml.as_bytes()),
            fuel: self.fuel,
            engine: ENGINE.to_owned(),
        }
    }

    fn into_rejection(self, selected: &SelectedSchema<'_>) -> GenerateError {
        GenerateError::Rejected {
            schema: Some(selected.choice()),
            diagnostics: self.into_diagnostics(),
        }
    }

    /// The diagnostics, sorted and without duplicates.
    fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort();
        self.diagnostics.dedup();
        self.diagnostics
    }
}

/// Converts a diagnostic of a plugin. In the contract, an empty field means the base configuration.
fn from_plugin(diagnostic: llsd_adapter_sdk::Diagnostic) -> Diagnostic {
    let llsd_adapter_sdk::Diagnostic {
        field,
        severity,
        code,
        problem,
        fix,
    } = diagnostic;
    Diagnostic {
        field: match field.as_str() {
            "" => FieldPath::base_config(),
            _ => FieldPath::from(field),
        },
        severity: match severity {
            llsd_adapter_sdk::Severity::Error => Severity::Error,
            llsd_adapter_sdk::Severity::Warning => Severity::Warning,
        },
        code,
        problem,
        fix,
    }
}
