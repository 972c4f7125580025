//! A plugin, loaded and ready to be asked.
//!
//! Cheap to clone and shared between threads. A call blocks for at most the wall-clock limit, so
//! that asynchronous code calls from `spawn_blocking`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Base, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::exchange::{self, Text};
use llsd_adapter_sdk::{Answer, Detection};
use llsd_render::adapter::{Adapter, Called, Fault, FaultKind};
use serde_json::Value;

use crate::answer::{self, Typed};
use crate::call::{Bound, Ran};
use crate::engine::Sandbox;
use crate::inspect::World;
use crate::limits::Limits;
use crate::request::{RawAnswer, Request};
use crate::results::{Key, Remembered, Results};

/// A component that passed every load rule.
#[derive(Clone)]
pub struct Plugin {
    component: Arc<Component>,
    limits: Arc<Limits>,
    shared: Arc<Shared>,
}

/// What was loaded.
pub(crate) struct Component {
    pub(crate) bound: Bound,
    pub(crate) description: Description,
    pub(crate) digest: Arc<str>,
    pub(crate) world: World,
}

/// What the plugins of a host share.
pub(crate) struct Shared {
    pub(crate) sandbox: Sandbox,
    pub(crate) results: Results,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// Is told about every call, for metrics.
pub trait Observer: Send + Sync {
    /// A call ended. Runs on the caller's thread: be quick.
    fn called(&self, report: &CallReport<'_>);
}

/// One call, for metrics.
#[derive(Debug, Clone)]
pub struct CallReport<'a> {
    /// Name of the plugin.
    pub plugin: &'a str,
    /// Digest of the component.
    pub digest: &'a str,
    /// The function.
    pub call: &'static str,
    /// Fuel burned, also when the answer was remembered.
    pub fuel: u64,
    /// Time it took.
    pub duration: Duration,
    /// Whether no guest ran.
    pub is_remembered: bool,
    /// What went wrong, if anything did.
    pub fault: Option<&'a FaultKind>,
}

/// What a call gave and what it cost.
#[derive(Debug, Clone)]
pub struct RawCalled {
    /// The answer.
    pub answer: Arc<RawAnswer>,
    /// Fuel that it burned; the same for the same input, also when it was remembered.
    pub fuel: u64,
    /// Linear memory that the guest had at the end.
    pub memory_bytes: usize,
    /// Time from the request to the answer.
    pub duration: Duration,
    /// Whether no guest ran.
    pub is_remembered: bool,
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

    /// The world that it serves.
    pub fn world(&self) -> World {
        self.component.world
    }

    /// What it is granted.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The same plugin under other limits.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        Self {
            limits: Arc::new(limits),
            ..self.clone()
        }
    }

    /// Calls a function, or recalls what it answered before.
    pub fn call(&self, request: &Request) -> Result<RawCalled, Fault> {
        self.obtain(request).map(|(called, _)| called)
    }

    /// Calls a function even if its answer is known: for measuring and for proofs of purity.
    pub fn call_afresh(&self, request: &Request) -> Result<RawCalled, Fault> {
        self.call_guest(request, request.digest())
            .map(|(called, _)| called)
    }

    /// The answer, and what was read from it unless it was recalled.
    fn obtain(&self, request: &Request) -> Result<(RawCalled, Option<Typed>), Fault> {
        let started = Instant::now();
        let (component, call) = (self.component.digest.clone(), request.call());
        let key = Key {
            component,
            call,
            shapes: request.shapes(),
            input: request.digest(),
        };
        let Some(Remembered {
            answer,
            fuel,
            memory_bytes,
        }) = self.shared.results.recall(&key)
        else {
            let (called, typed) = self.call_guest(request, key.input.clone())?;
            let RawCalled {
                answer,
                fuel,
                memory_bytes,
                ..
            } = called.clone();
            self.shared.results.remember(
                key,
                Remembered {
                    answer,
                    fuel,
                    memory_bytes,
                },
            );
            return Ok((called, Some(typed)));
        };
        let duration = started.elapsed();
        self.report(call, fuel, duration, true, None);
        let input = key.input;
        Ok((
            RawCalled {
                answer,
                fuel,
                memory_bytes,
                duration,
                is_remembered: true,
                input,
            },
            None,
        ))
    }

    fn call_guest(&self, request: &Request, input: String) -> Result<(RawCalled, Typed), Fault> {
        let Ran {
            result,
            fuel,
            memory_bytes,
            duration,
        } = self
            .component
            .bound
            .run(&self.shared.sandbox, &self.limits, request);
        let checked = result
            .and_then(|answer| answer::check(answer, &self.limits))
            .and_then(|answer| Ok((self.read(request, &answer)?, answer)));
        self.report(
            request.call(),
            fuel,
            duration,
            false,
            checked.as_ref().err(),
        );
        let (typed, answer) = checked.map_err(|kind| self.fault(request.call(), kind))?;
        let answer = Arc::new(answer);
        Ok((
            RawCalled {
                answer,
                fuel,
                memory_bytes,
                duration,
                is_remembered: false,
                input,
            },
            typed,
        ))
    }

    fn read(&self, request: &Request, answer: &RawAnswer) -> Result<Typed, FaultKind> {
        answer::read(request, answer, Some(&self.component.description))
    }

    fn report(
        &self,
        call: &'static str,
        fuel: u64,
        duration: Duration,
        is_remembered: bool,
        fault: Option<&FaultKind>,
    ) {
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
            is_remembered,
            ?fault,
            "called"
        );
        if let Some(observer) = &self.shared.observer {
            let plugin = &description.name;
            observer.called(&CallReport {
                plugin,
                digest,
                call,
                fuel,
                duration,
                is_remembered,
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

    /// Calls, and picks the typed answer with `pick`.
    fn typed<T>(
        &self,
        request: &Request,
        pick: impl FnOnce(Typed) -> Option<T>,
    ) -> Result<Called<T>, Fault> {
        let (
            RawCalled {
                answer,
                fuel,
                input,
                ..
            },
            typed,
        ) = self.obtain(request)?;
        let read = typed.map_or_else(|| self.read(request, &answer), Ok);
        // Each function has its own kind of answer in the bindings, so that another cannot come up.
        let crossed = || FaultKind::BadAnswer("the answer belongs to another function".into());
        let answer = read
            .and_then(|typed| pick(typed).ok_or_else(crossed))
            .map_err(|kind| self.fault(request.call(), kind))?;
        Ok(Called {
            answer,
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

    fn detect(&self, base: &Value, hints: &Hints) -> Result<Called<Detection>, Fault> {
        let request = Request::Detect {
            base: Text::of::<Base>(base),
            hints: exchange::write(hints),
        };
        self.typed(&request, |typed| match typed {
            Typed::Detection(detection) => Some(detection),
            _ => None,
        })
    }

    fn expand(&self, request: &ExpansionRequest) -> Result<Called<Answer<Expansion>>, Fault> {
        self.typed(
            &Request::Expand(exchange::write(request)),
            |typed| match typed {
                Typed::Expansion(answer) => Some(answer),
                _ => None,
            },
        )
    }

    fn assemble(&self, request: &AssemblyRequest) -> Result<Called<Answer<Assembly>>, Fault> {
        self.typed(
            &Request::Assemble(exchange::write(request)),
            |typed| match typed {
                Typed::Assembly(answer) => Some(answer),
                _ => None,
            },
        )
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
