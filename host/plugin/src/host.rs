//! What loads plugins and what they share: the engine, the compile cache, the remembered answers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use llsd_render::digest;
use wasmtime::component;

use crate::cache::{CompileCache, Entry};
use crate::compile::{self, CompileError};
use crate::engine::Sandbox;
use crate::inspect::{self, Inspection};
use crate::limits::Limits;
use crate::load::{self, LoadError, chain};
use crate::plugin::{Component, Observer, Plugin, Shared};
use crate::results::{Memory, Results};

/// Where a component's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// They are part of this binary: compiled in this process.
    BuiltIn,
    /// They are somebody else's: compiled in a child process under limits.
    Outside,
}

/// The program that compiles bytes from outside, as a child process.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// This one. Its `main` calls [`child_main`](crate::child_main) before anything else.
    #[default]
    ThisProgram,
    /// Another one that does.
    Program(PathBuf),
}

/// How a [`Host`] is set up.
#[derive(Default)]
pub struct HostConfig {
    /// What plugins are granted unless [`Host::load_within`] says otherwise.
    pub limits: Limits,
    /// Who compiles bytes from outside.
    pub compiler: Compiler,
    /// Where machine code is kept between runs; absent: nowhere.
    pub cache: Option<CompileCache>,
    /// How many answers are remembered.
    pub memory: Memory,
    /// Who is told about calls.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
#[error("this machine cannot run WebAssembly: {0}")]
pub struct HostError(String);

/// Loads plugins. Cheap to clone; all clones share the engine and the caches.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    limits: Limits,
    compiler: Compiler,
    cache: Option<CompileCache>,
}

impl Host {
    /// Sets up the engine and starts its clock.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        let HostConfig {
            limits,
            compiler,
            cache,
            memory,
            observer,
        } = config;
        let sandbox = Sandbox::start().map_err(|error| HostError(chain(&error)))?;
        let shared = Arc::new(Shared {
            sandbox,
            results: Results::new(memory),
            observer,
        });
        Ok(Self {
            inner: Arc::new(Inner {
                shared,
                limits,
                compiler,
                cache,
            }),
        })
    }

    /// Looks at bytes without running them.
    pub fn inspect(&self, bytes: &[u8]) -> Inspection {
        inspect::inspect(bytes, &self.inner.limits)
    }

    /// Loads a plugin under the host's limits. Blocks while it compiles.
    pub fn load(&self, bytes: &[u8], origin: Origin) -> Result<Plugin, LoadError> {
        self.load_within(bytes, origin, &self.inner.limits)
    }

    /// Loads a plugin under limits of its own. Blocks while it compiles.
    pub fn load_within(
        &self,
        bytes: &[u8],
        origin: Origin,
        limits: &Limits,
    ) -> Result<Plugin, LoadError> {
        if bytes.len() > limits.component_bytes {
            return Err(LoadError::TooLarge {
                size: bytes.len(),
                granted: limits.component_bytes,
            });
        }
        let digest: Arc<str> = digest::of(bytes).into();
        let component = match self.recall(&digest) {
            Some(component) => component,
            None => self.make(bytes, digest, origin, limits)?,
        };
        let shared = self.inner.shared.clone();
        Ok(Plugin::new(component, limits.clone(), shared))
    }

    /// A component from the compile cache, which holds only what passed every load rule.
    fn recall(&self, digest: &Arc<str>) -> Option<Component> {
        let engine = &self.inner.shared.sandbox.engine;
        let Entry {
            world,
            description,
            code,
        } = self.inner.cache.as_ref()?.find(engine, digest)?;
        let bound = self
            .deserialize(&code)
            .map_err(|error| LoadError::Incompatible(chain(&error)))
            .and_then(|component| load::bind(engine, &component, world));
        match bound {
            Ok(bound) => Some(Component {
                bound,
                description,
                digest: digest.clone(),
                world,
            }),
            Err(error) => {
                tracing::warn!(%digest, %error, "cached machine code does not fit; compiling again");
                None
            }
        }
    }

    /// A component by all the load rules.
    fn make(
        &self,
        bytes: &[u8],
        digest: Arc<str>,
        origin: Origin,
        limits: &Limits,
    ) -> Result<Component, LoadError> {
        let engine = &self.inner.shared.sandbox.engine;
        let inspection = inspect::inspect(bytes, limits);
        if let Some(problem) = inspection.problems.into_iter().next() {
            return Err(problem);
        }
        let Some(world) = inspection.world else {
            return Err(LoadError::WrongWorld {
                found: inspection.exports,
            });
        };
        let code = match origin {
            Origin::BuiltIn => compile::here(engine, bytes)?,
            Origin::Outside => compile::in_child(&self.compiler()?, bytes, limits)?,
        };
        let component = self
            .deserialize(&code)
            .map_err(|error| CompileError::Refused(chain(&error)))?;
        let bound = load::bind(engine, &component, world)?;
        let description = load::describe(&bound, &self.inner.shared.sandbox, limits)?;
        load::check_description(&description, world)?;
        if let Some(cache) = &self.inner.cache {
            let entry = Entry {
                world,
                description: description.clone(),
                code,
            };
            // Without the cache the next start is slower and nothing else.
            if let Err(error) = cache.keep(engine, &digest, entry) {
                tracing::warn!(%digest, %error, "could not keep machine code in the compile cache");
            }
        }
        Ok(Component {
            bound,
            description,
            digest,
            world,
        })
    }

    fn compiler(&self) -> Result<PathBuf, CompileError> {
        match &self.inner.compiler {
            Compiler::ThisProgram => std::env::current_exe().map_err(CompileError::Start),
            Compiler::Program(path) => Ok(path.clone()),
        }
    }

    #[allow(
        unsafe_code,
        reason = "machine code has to be taken as such somewhere; this is the one place"
    )]
    fn deserialize(&self, code: &[u8]) -> wasmtime::Result<component::Component> {
        // SAFETY: `code` is what this version of wasmtime made of a component, unchanged. It comes
        // from `compile::here`, or over a pipe from a child process of the program that the caller
        // configured, or from the compile cache, which returns nothing that does not bear a MAC made
        // with our key over these very bytes, already in memory. The engine checks version and
        // settings itself.
        unsafe { component::Component::deserialize(&self.inner.shared.sandbox.engine, code) }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}
