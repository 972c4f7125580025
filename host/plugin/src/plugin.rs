//! A loaded plugin.
//!
//! Cheap to clone and shared between threads. A call blocks for up to the wall-clock limit, so
//! asynchronous code must call from `spawn_blocking`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Base, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::exchange::{self, Text};
use llsd_adapter_sdk::{Answer, Detection};
use llsd_render::adapter::{Adapter, Fault, FaultKind, Response};
use serde_json::Value;

use crate::call::{BoundComponent, Execution};
use crate::engine::Sandbox;
use crate::inspect::World;
use crate::limits::Limits;
use crate::observer::{CallReport, Observer};
use crate::output::{self, TypedOutput};
use crate::request::{RawOutput, Request};
use crate::result_cache::{CachedResult, Key, ResultCache};

/// A component that satisfies every load rule, with its limits.
#[derive(Clone)]
pub struct Plugin {
    component: Arc<Component>,
    limits: Arc<Limits>,
    shared: Arc<Shared>,
}

/// A loaded component.
pub(crate) struct Component {
    pub(crate) bound: BoundComponent,
    pub(crate) description: Description,
    pub(crate) digest: Arc<str>,
    pub(crate) world: World,
}

/// State that the plugins of a host share.
pub(crate) struct Shared {
    pub(crate) sandbox: Sandbox,
    pub(crate) results: ResultCache,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// The output of a call, and what the call used.
#[derive(Debug, Clone)]
pub struct RawResponse {
    /// The output.
    pub output: Arc<RawOutput>,
    /// Fuel used: the same for the same input. A cache hit has the fuel of the original call.
    pub fuel: u64,
    /// Linear memory of the guest at the end of the call.
    pub memory_bytes: usize,
    /// How long the call took.
    pub duration: Duration,
    /// Whether the output came from the result cache, without running the guest.
    pub cache_hit: bool,
    /// `sha256:…` of the request.
    pub input: String,
}

impl Plugin {
    pub(crate) fn new(component: Component, limits: Limits, shared: Arc<Shared>) -> Self {
        Self {
            component: Arc::new(component),
            limits: Arc::new(limits),
            shared,
        }
    }

    /// The world that the component exports.
    pub fn world(&self) -> World {
        self.component.world
    }

    /// The limits of each call.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The same plugin with other limits.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        Self {
            limits: Arc::new(limits),
            ..self.clone()
        }
    }

    /// Calls a function, or returns its cached result.
    pub fn call(&self, request: &Request) -> Result<RawResponse, Fault> {
        self.call_cached(request).map(|(response, _)| response)
    }

    /// Calls a function without the result cache, to measure it or to test that it is pure.
    pub fn call_uncached(&self, request: &Request) -> Result<RawResponse, Fault> {
        self.call_guest(request, request.digest())
            .map(|(response, _)| response)
    }

    /// The response, and the parsed output if the guest ran.
    fn call_cached(&self, request: &Request) -> Result<(RawResponse, Option<TypedOutput>), Fault> {
        let started = Instant::now();
        let key = Key {
            component: self.component.digest.clone(),
            limits: self.limits.clone(),
            call: request.call(),
            shapes: request.shapes(),
            input: request.digest(),
        };
        let Some(cached) = self.shared.results.get(&key) else {
            let (response, typed) = self.call_guest(request, key.input.clone())?;
            self.shared.results.insert(
                key,
                CachedResult {
                    output: response.output.clone(),
                    fuel: response.fuel,
                    memory_bytes: response.memory_bytes,
                },
            );
            return Ok((response, Some(typed)));
        };
        let CachedResult {
            output,
            fuel,
            memory_bytes,
        } = cached;
        let response = RawResponse {
            output,
            fuel,
            memory_bytes,
            duration: started.elapsed(),
            cache_hit: true,
            input: key.input,
        };
        let duration = response.duration;
        self.report(request, Ok(&*response.output), fuel, duration, true);
        Ok((response, None))
    }

    fn call_guest(
        &self,
        request: &Request,
        input: String,
    ) -> Result<(RawResponse, TypedOutput), Fault> {
        let Execution {
            result,
            fuel,
            memory_bytes,
            duration,
        } = self
            .component
            .bound
            .run(&self.shared.sandbox, &self.limits, request);
        let checked = result
            .and_then(|output| output::check(output, &self.limits))
            .and_then(|output| Ok((self.parse(request, &output)?, output)));
        let result = checked.as_ref().map(|(_, output)| output);
        self.report(request, result, fuel, duration, false);
        let (typed, output) = checked.map_err(|kind| self.fault(request.call(), kind))?;
        let response = RawResponse {
            output: Arc::new(output),
            fuel,
            memory_bytes,
            duration,
            cache_hit: false,
            input,
        };
        Ok((response, typed))
    }

    fn parse(&self, request: &Request, output: &RawOutput) -> Result<TypedOutput, FaultKind> {
        output::parse(request, output, Some(&self.component.description))
    }

    fn report(
        &self,
        request: &Request,
        result: Result<&RawOutput, &FaultKind>,
        fuel: u64,
        duration: Duration,
        cache_hit: bool,
    ) {
        let (call, fault) = (request.call(), result.err());
        let Component {
            description,
            digest,
            ..
        } = &*self.component;
        tracing::debug!(
            plugin = description.name,
            call,
            fuel,
            ?duration,
            cache_hit,
            ?fault,
            "plugin called"
        );
        if let Some(observer) = &self.shared.observer {
            let plugin = &description.name;
            observer.called(&CallReport {
                plugin,
                digest,
                call,
                request,
                output: result.ok(),
                fuel,
                duration,
                cache_hit,
                fault,
            });
        }
    }

    fn fault(&self, call: &'static str, kind: FaultKind) -> Fault {
        Fault {
            plugin: self.component.description.name.clone(),
            digest: self.component.digest.to_string(),
            call,
            kind,
        }
    }

    /// Calls a function, and extracts its type of output with `extract`.
    fn call_typed<T>(
        &self,
        request: &Request,
        extract: impl FnOnce(TypedOutput) -> Option<T>,
    ) -> Result<Response<T>, Fault> {
        let (response, typed) = self.call_cached(request)?;
        let RawResponse {
            output,
            fuel,
            input,
            ..
        } = response;
        let parsed = typed.map_or_else(|| self.parse(request, &output), Ok);
        // The bindings give each function its own output type, so a mismatch cannot happen.
        let mismatch = || FaultKind::InvalidOutput("the output of another function".into());
        let output = parsed
            .and_then(|typed| extract(typed).ok_or_else(mismatch))
            .map_err(|kind| self.fault(request.call(), kind))?;
        Ok(Response {
            output,
            fuel,
            input,
        })
    }
}

impl Adapter for Plugin {
    fn description(&self) -> &Description {
        &self.component.description
    }

    fn digest(&self) -> &str {
        &self.component.digest
    }

    fn is_schema_adapter(&self) -> bool {
        self.component.world == World::SchemaAdapter
    }

    fn detect(&self, base: &Value, hints: &Hints) -> Result<Response<Detection>, Fault> {
        let request = Request::Detect {
            base: Text::of::<Base>(base),
            hints: exchange::write(hints),
        };
        self.call_typed(&request, |typed| match typed {
            TypedOutput::Detection(detection) => Some(detection),
            _ => None,
        })
    }

    fn expand(&self, request: &ExpansionRequest) -> Result<Response<Answer<Expansion>>, Fault> {
        let request = Request::Expand(exchange::write(request));
        self.call_typed(&request, |typed| match typed {
            TypedOutput::Expansion(expansion) => Some(expansion),
            _ => None,
        })
    }

    fn assemble(&self, request: &AssemblyRequest) -> Result<Response<Answer<Assembly>>, Fault> {
        let request = Request::Assemble(exchange::write(request));
        self.call_typed(&request, |typed| match typed {
            TypedOutput::Assembly(assembly) => Some(assembly),
            _ => None,
        })
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.component.description.name)
            .field("digest", &self.component.digest)
            .field("world", &self.component.world)
            .finish_non_exhaustive()
    }
}
