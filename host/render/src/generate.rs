//! From a checked resource and a base configuration to the server's file.
//!
//! In: what the user asked for, the base, and the plugins. Out: the complete file, the variables and
//! start-up hints that go with it, everything worth saying about it, and a receipt. The operator, the
//! webhook, the command line and the shadow run of a candidate plugin all call [`generate`].

mod requests;
mod variables;

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{
    Counts, ExpansionRequest, Hints, ModelId, PlacedProvider, Startup, Variable,
};
use llsd_adapter_sdk::{Diagnostic, Outcome};
use llsd_api::checked::Checked;
use serde_json::Value;

use crate::adapter::{Adapter, Called, Fault};
use crate::choose::{self, Choice, Reason, Undecided};
use crate::{digest, order, yaml};

pub use requests::Surroundings;
pub use variables::{PodVariable, ValueSource};

/// What generation starts from.
pub struct Inputs<'a> {
    /// What the user asked for.
    pub checked: &'a Checked,
    /// The distribution's own configuration, in its own order.
    pub base: &'a Value,
    /// What is known about it from outside: labels, release, a stated schema.
    pub hints: &'a Hints,
    /// Where the pod will find things, and what external images declare.
    pub surroundings: &'a Surroundings,
}

/// A generated configuration and what it needs around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The server's file, as text.
    pub yaml: String,
    /// The same as a value, in the order of the text.
    pub config: Value,
    /// Variables that the pod must have.
    pub variables: Vec<PodVariable>,
    /// How to start the server with it.
    pub startup: Startup,
    /// What the file holds.
    pub counts: Counts,
    /// The ids by which clients ask for the resource's models.
    pub models: Vec<ModelId>,
    /// What its author should look at, sorted by field.
    pub warnings: Vec<Diagnostic>,
    /// The dialect written.
    pub schema: String,
    /// What decided about the dialect.
    pub reason: Reason,
    /// Proof of what was done.
    pub receipt: Receipt,
}

/// Who made a configuration of what: enough to do it again elsewhere and compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Name of the plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// `sha256:…` of the component.
    pub component: String,
    /// `sha256:…` over the digests of all requests, in order.
    pub input: String,
    /// `sha256:…` of the file.
    pub output: String,
    /// Fuel of all calls together.
    pub fuel: u64,
}

/// Why there is no configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The resource asks for something that cannot be; everything found, warnings included.
    #[error("the resource was refused")]
    Rejected(Vec<Diagnostic>),
    /// The dialect of the base is unknown or unsupported.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// A plugin failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Generates the server's configuration.
pub fn generate(adapters: &[&dyn Adapter], inputs: &Inputs<'_>) -> Result<Generated, Refusal> {
    let Inputs {
        checked,
        base,
        hints,
        surroundings,
    } = inputs;
    let choice = choose::choose(adapters, base, hints)?;
    let mut account = Account::default();

    let Expanded { placed, wants } = expand(adapters, &choice, inputs, &mut account)?;
    let request = requests::assembly(
        checked,
        placed,
        &choice.schema.id,
        hints,
        base,
        surroundings,
    );
    let answer = account.settle(choice.adapter.assemble(&request)?);
    let Ok(Outcome {
        output: assembly,
        warnings,
    }) = answer
    else {
        return Err(account.refuse(answer.err().unwrap_or_default()));
    };
    account.found.extend(warnings);
    if account.is_refused() {
        return Err(account.refuse(Vec::new()));
    }

    let wanted = wants.into_iter().chain(assembly.variables);
    let variables =
        variables::resolve(checked, wanted).map_err(|problems| account.refuse(problems))?;
    let config = order::like(base, Value::Object(assembly.config));
    let text = yaml::write(&config);
    let description = choice.adapter.description();
    Ok(Generated {
        variables,
        startup: assembly.startup,
        counts: assembly.counts,
        models: assembly.models,
        schema: choice.schema.id.clone(),
        reason: choice.reason,
        receipt: Receipt {
            plugin: description.name.clone(),
            version: description.version.clone(),
            component: choice.adapter.digest().to_owned(),
            input: digest::of(account.inputs.join("\n").as_bytes()),
            output: digest::of(text.as_bytes()),
            fuel: account.fuel,
        },
        warnings: account.into_findings(),
        config,
        yaml: text,
    })
}

/// What the plugins made of the provider entries: per API, and the variables wanted.
#[derive(Default)]
struct Expanded {
    placed: BTreeMap<String, Vec<PlacedProvider>>,
    wants: Vec<Variable>,
}

/// Asks for every provider entry, so that all problems come at once.
fn expand(
    adapters: &[&dyn Adapter],
    choice: &Choice<'_>,
    inputs: &Inputs<'_>,
    account: &mut Account,
) -> Result<Expanded, Refusal> {
    let mut expanded = Expanded::default();
    for request in requests::expansions(inputs.checked, &choice.schema.id, inputs.hints) {
        let answer = account.settle(responsible(adapters, choice, &request).expand(&request)?);
        match answer {
            Ok(Outcome { output, warnings }) => {
                account.found.extend(warnings);
                expanded.wants.extend(output.wants.iter().cloned());
                expanded
                    .placed
                    .entry(request.api)
                    .or_default()
                    .push(PlacedProvider {
                        path: request.path,
                        expansion: output,
                    });
            }
            Err(problems) => account.found.extend(problems),
        }
    }
    if account.is_refused() {
        return Err(account.refuse(Vec::new()));
    }
    Ok(expanded)
}

/// The plugin that expands an entry: the schema's own, unless it does not know the provider and a
/// provider pack does.
fn responsible<'a>(
    adapters: &[&'a dyn Adapter],
    choice: &Choice<'a>,
    request: &ExpansionRequest,
) -> &'a dyn Adapter {
    let knows = |adapter: &dyn Adapter| {
        let providers = &adapter.description().providers;
        let known = providers
            .get(&request.schema)
            .and_then(|apis| apis.get(&request.api));
        let wanted = &request.entry.provider;
        known.is_some_and(|all| {
            all.iter()
                .any(|one| one.name == *wanted || one.provider_type == *wanted)
        })
    };
    if knows(choice.adapter) {
        return choice.adapter;
    }
    adapters
        .iter()
        .copied()
        .find(|adapter| !adapter.is_schema_adapter() && knows(*adapter))
        .unwrap_or(choice.adapter)
}

/// What the calls of one generation cost and found.
#[derive(Default)]
struct Account {
    inputs: Vec<String>,
    fuel: u64,
    found: Vec<Diagnostic>,
}

impl Account {
    fn settle<T>(&mut self, called: Called<T>) -> T {
        self.inputs.push(called.input);
        self.fuel += called.fuel;
        called.answer
    }

    fn is_refused(&self) -> bool {
        self.found
            .iter()
            .any(|one| one.severity == llsd_adapter_sdk::Severity::Error)
    }

    fn refuse(&mut self, problems: Vec<Diagnostic>) -> Refusal {
        self.found.extend(problems);
        Refusal::Rejected(std::mem::take(self).into_findings())
    }

    fn into_findings(mut self) -> Vec<Diagnostic> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}
