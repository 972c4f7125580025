//! An adapter compiled natively, without a sandbox: for tests, and as the baseline of the benches.

use adapter_llama_stack_0_7::Plugin as Compiled;
use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Base, Description, Document, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::exchange::{self, Text};
use llsd_adapter_sdk::{Answer, Detection, Outcome, ProviderPack};
use llsd_render::adapter::{Adapter, Fault, Response};
use serde_json::Value;

/// Passes the same JSON documents as the sandbox does.
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

    fn detect(&self, base: &Value, hints: &Hints) -> Result<Response<Detection>, Fault> {
        let (base, hints) = (Text::of::<Base>(base), exchange::write(hints));
        Ok(response(exchange::detect::<Compiled>(&base, &hints)))
    }

    fn expand(&self, request: &ExpansionRequest) -> Result<Response<Answer<Expansion>>, Fault> {
        Ok(response(typed(exchange::expand::<Compiled>(
            &exchange::write(request),
        ))))
    }

    fn assemble(&self, request: &AssemblyRequest) -> Result<Response<Answer<Assembly>>, Fault> {
        Ok(response(typed(exchange::assemble::<Compiled>(
            &exchange::write(request),
        ))))
    }
}

fn response<T>(output: T) -> Response<T> {
    Response {
        output,
        fuel: 0,
        input: String::new(),
    }
}

fn typed<T: Document>(outcome: Answer<Text>) -> Answer<T> {
    let Outcome { output, warnings } = outcome?;
    let output = exchange::read(&output).map_err(|problem| vec![problem])?;
    Ok(Outcome { output, warnings })
}
