//! Loads plugins, and owns what they share: the engine, the compile cache and the result cache.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use llsd_render::digest;
use wasmtime::component;

use crate::compile::{self, ChildOutput, CompileError, Task};
use crate::compile_cache::{CompileCache, Entry};
use crate::engine::Sandbox;
use crate::inspect::{self, Inspection, World};
use crate::limits::Limits;
use crate::load::{self, LoadError, error_chain};
use crate::observer::Observer;
use crate::plugin::{Component, Plugin, Shared};
use crate::result_cache::{ResultCache, ResultCacheCapacity};

/// The origin of a component, which decides where it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Part of this binary: compiled in this process.
    BuiltIn,
    /// Anything else: compiled in a child process with limits.
    External,
}

/// The program that compiles external components, as a child process.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// This program. Its `main` must call [`child_main`](crate::child_main) first.
    #[default]
    ThisProgram,
    /// Another program whose `main` does so.
    Program(PathBuf),
}

/// The configuration of a [`Host`].
#[derive(Default)]
pub struct HostConfig {
    /// Limits of plugins that are loaded with [`Host::load`].
    pub limits: Limits,
    /// The program that compiles external components.
    pub compiler: Compiler,
    /// Stores machine code between runs. `None`: each start compiles.
    pub compile_cache: Option<CompileCache>,
    /// Maximum size of the result cache.
    pub result_cache: ResultCacheCapacity,
    /// Receives a report of every call.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Why the engine could not be created.
#[derive(Debug, thiserror::Error)]
#[error("failed to create the WebAssembly engine: {0}")]
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
    compile_cache: Option<CompileCache>,
}

impl Host {
    /// Creates the engine.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        let HostConfig {
            limits,
            compiler,
            compile_cache,
            result_cache,
            observer,
        } = config;
        let sandbox = Sandbox::new().map_err(|error| HostError(error_chain(&error)))?;
        let shared = Arc::new(Shared {
            sandbox,
            results: ResultCache::new(result_cache),
            observer,
        });
        Ok(Self {
            inner: Arc::new(Inner {
                shared,
                limits,
                compiler,
                compile_cache,
            }),
        })
    }

    /// The memory of the cached results of calls, in bytes.
    pub fn result_bytes(&self) -> usize {
        self.inner.shared.results.bytes()
    }

    /// The bytes of compiled components on disk; 0 without a compile cache.
    pub fn compiled_bytes(&self) -> u64 {
        let cache = self.inner.compile_cache.as_ref();
        cache.map_or(0, CompileCache::bytes)
    }

    /// Inspects a component from outside, without compiling or running it. Blocks while the child process
    /// reads it.
    pub fn inspect(&self, bytes: &[u8]) -> Inspection {
        let limits = &self.inner.limits;
        let mut inspection = Inspection::of_format(bytes, limits);
        if inspection.problems.is_empty() {
            let output = self.run_child(Task::Inspect, bytes, limits);
            inspection.add_result(
                output
                    .map_err(LoadError::from)
                    .and_then(|one| one.structure),
            );
        }
        inspection
    }

    /// Loads a plugin with the host's limits. Blocks while it compiles.
    pub fn load(&self, bytes: &[u8], origin: Origin) -> Result<Plugin, LoadError> {
        self.load_with_limits(bytes, origin, &self.inner.limits)
    }

    /// Loads a plugin with its own limits. Blocks while it compiles.
    pub fn load_with_limits(
        &self,
        bytes: &[u8],
        origin: Origin,
        limits: &Limits,
    ) -> Result<Plugin, LoadError> {
        if bytes.len() > limits.component_bytes {
            return Err(LoadError::TooLarge {
                size: bytes.len(),
                limit: limits.component_bytes,
            });
        }
        self.load_digested(bytes, &digest::of(bytes), origin, limits)
    }

    /// Loads a component that is part of this binary, with the host's limits. Its digest was computed when the
    /// binary was built: computing it takes as long as loading the component from the compile cache.
    pub fn load_built_in(&self, bytes: &[u8], digest: &str) -> Result<Plugin, LoadError> {
        self.load_digested(bytes, digest, Origin::BuiltIn, &self.inner.limits)
    }

    fn load_digested(
        &self,
        bytes: &[u8],
        digest: &str,
        origin: Origin,
        limits: &Limits,
    ) -> Result<Plugin, LoadError> {
        let digest: Arc<str> = digest.into();
        let component = match self.load_from_cache(&digest) {
            Some(component) => component,
            None => self.compile(bytes, digest, origin, limits)?,
        };
        let shared = self.inner.shared.clone();
        Ok(Plugin::new(component, limits.clone(), shared))
    }

    /// Loads a component from the compile cache, which stores only components that satisfy every load
    /// rule.
    fn load_from_cache(&self, digest: &Arc<str>) -> Option<Component> {
        let engine = &self.inner.shared.sandbox.engine;
        let Entry {
            world,
            description,
            code,
        } = self.inner.compile_cache.as_ref()?.get(engine, digest)?;
        let bound = self
            .deserialize(&code)
            .map_err(|error| LoadError::Incompatible(error_chain(&error)))
            .and_then(|component| load::bind(engine, &component, world));
        match bound {
            Ok(bound) => Some(Component {
                bound,
                description,
                digest: digest.clone(),
                world,
            }),
            Err(error) => {
                tracing::warn!(%digest, %error, "failed to load the machine code from the compile cache; compiling the component again");
                None
            }
        }
    }

    /// Checks all load rules, compiles the component, and adds it to the compile cache.
    fn compile(
        &self,
        bytes: &[u8],
        digest: Arc<str>,
        origin: Origin,
        limits: &Limits,
    ) -> Result<Component, LoadError> {
        let engine = &self.inner.shared.sandbox.engine;
        let (world, code) = match origin {
            Origin::BuiltIn => {
                let world = inspect::inspect(bytes, limits).into_world()?;
                (world, compile::in_process(engine, bytes)?)
            }
            Origin::External => self.compile_in_child(bytes, limits)?,
        };
        let component = self
            .deserialize(&code)
            .map_err(|error| CompileError::Rejected(error_chain(&error)))?;
        let bound = load::bind(engine, &component, world)?;
        let description = load::describe(&bound, &self.inner.shared.sandbox, limits)?;
        load::check_description(&description, world)?;
        if let Some(cache) = &self.inner.compile_cache {
            let entry = Entry {
                world,
                description: description.clone(),
                code,
            };
            // A failure only makes the next start slower.
            if let Err(error) = cache.insert(engine, &digest, entry) {
                tracing::warn!(%digest, %error, "failed to write machine code to the compile cache");
            }
        }
        Ok(Component {
            bound,
            description,
            digest,
            world,
        })
    }

    /// Inspects and compiles a component from outside in one child process.
    fn compile_in_child(
        &self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<(World, Vec<u8>), LoadError> {
        let mut inspection = Inspection::of_format(bytes, limits);
        if !inspection.problems.is_empty() {
            return inspection.into_world().map(|world| (world, Vec::new()));
        }
        // Guests that run meanwhile share the memory of the pod with the child.
        let _reserved = self.inner.shared.sandbox.reserve_for_compiler();
        let ChildOutput { structure, code } = self.run_child(Task::Compile, bytes, limits)?;
        inspection.add_result(structure);
        Ok((inspection.into_world()?, code))
    }

    fn run_child(
        &self,
        task: Task,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<ChildOutput, CompileError> {
        compile::in_child(&self.compiler()?, task, bytes, limits)
    }

    fn compiler(&self) -> Result<PathBuf, CompileError> {
        match &self.inner.compiler {
            Compiler::ThisProgram => std::env::current_exe().map_err(CompileError::Start),
            Compiler::Program(path) => Ok(path.clone()),
        }
    }

    #[allow(
        unsafe_code,
        reason = "deserializing machine code is unsafe; this is the only place that does it"
    )]
    fn deserialize(&self, code: &[u8]) -> wasmtime::Result<component::Component> {
        // SAFETY: `code` is the unmodified output of this version of wasmtime. It comes from
        // `compile::in_process`, or over a pipe from a child process of the program that the caller
        // configured, or from the compile cache, which verifies a MAC with our key over these bytes
        // after reading them into memory. The engine itself checks its version and settings.
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
