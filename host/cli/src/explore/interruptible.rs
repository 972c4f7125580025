//! A plugin whose calls end with the answer that they are for.

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::{Answer, Detection};
use llsd_plugin::Plugin;
use llsd_render::adapter::{Adapter, Fault, FaultKind, Response};
use serde_json::Value;

/// A plugin that is not called any more when the answer is not wanted any more. A call that has begun
/// ends within the limits of the plugin.
pub(super) struct Interruptible<'a> {
    pub(super) plugin: &'a Plugin,
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl Interruptible<'_> {
    fn check(&self, call: &'static str) -> Result<(), Fault> {
        if !(self.stop)() {
            return Ok(());
        }
        Err(Fault {
            plugin: self.plugin.description().name.clone(),
            digest: self.plugin.digest().to_owned(),
            call,
            // Nobody reads it: the answer ends here.
            kind: FaultKind::OutOfTime { limit_ms: 0 },
        })
    }
}

impl Adapter for Interruptible<'_> {
    fn description(&self) -> &Description {
        self.plugin.description()
    }

    fn digest(&self) -> &str {
        self.plugin.digest()
    }

    fn is_schema_adapter(&self) -> bool {
        self.plugin.is_schema_adapter()
    }

    fn detect(&self, base: &Value, hints: &Hints) -> Result<Response<Detection>, Fault> {
        self.check("detect")?;
        self.plugin.detect(base, hints)
    }

    fn expand(&self, request: &ExpansionRequest) -> Result<Response<Answer<Expansion>>, Fault> {
        self.check("expand")?;
        self.plugin.expand(request)
    }

    fn assemble(&self, request: &AssemblyRequest) -> Result<Response<Answer<Assembly>>, Fault> {
        self.check("assemble")?;
        self.plugin.assemble(request)
    }
}
