//! An adapter without a sandbox: generation in tests, and what a bench compares the sandbox with.

use adapter_llama_stack_0_7::Plugin as Compiled;
use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Base, Description, Document, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::exchange::{self, Text};
use llsd_adapter_sdk::{Answer, Detection, Outcome, ProviderPack};
use llsd_render::adapter::{Adapter, Called, Fault};
use serde_json::Value;

/// Calls through the same JSON documents as the sandbox does.
pub(crate) struct Native {
    description: Description,
}

impl Native {
    pub(crate) fn new() -> Self {
        Self {
            description: Compiled::describe(),
        }
    }
}

impl Adapter for Native {
    fn description(&self) -> &Description {
        &self.description
    }

    fn digest(&self) -> &str {
        "native"
    }

    fn is_schema_adapter(&self) -> bool {
        true
    }

    fn detect(&self, base: &Value, hints: &Hints) -> Result<Called<Detection>, Fault> {
        let (base, hints) = (Text::of::<Base>(base), exchange::write(hints));
        Ok(called(exchange::detect::<Compiled>(&base, &hints)))
    }

    fn expand(&self, request: &ExpansionRequest) -> Result<Called<Answer<Expansion>>, Fault> {
        Ok(called(typed(exchange::expand::<Compiled>(
            &exchange::write(request),
        ))))
    }

    fn assemble(&self, request: &AssemblyRequest) -> Result<Called<Answer<Assembly>>, Fault> {
        Ok(called(typed(exchange::assemble::<Compiled>(
            &exchange::write(request),
        ))))
    }
}

fn called<T>(answer: T) -> Called<T> {
    Called {
        answer,
        fuel: 0,
        input: String::new(),
    }
}

fn typed<T: Document>(answer: Answer<Text>) -> Answer<T> {
    let Outcome { output, warnings } = answer?;
    let output = exchange::read(&output).map_err(|problem| vec![problem])?;
    Ok(Outcome { output, warnings })
}
