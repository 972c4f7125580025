//! Runs plugins, which are WebAssembly components, in a sandbox.
//!
//! In: the bytes of a component and its limits. Out: a [`Plugin`], which implements
//! [`Adapter`](llsd_render::adapter::Adapter), or a [`LoadError`] that names the load rule that the
//! component violates. A guest can access its arguments and nothing else. Each call gets a new store
//! and ends within its limits, whatever the guest does.
//!
//! Components that are not part of the binary are compiled in a child process of the same binary. A
//! binary that loads such components must call [`child_main`] first in its `main`.

mod bindings;
mod call;
mod compile;
mod compile_cache;
mod engine;
mod host;
mod inspect;
mod limits;
mod load;
mod observer;
mod output;
mod plugin;
mod request;
mod result_cache;
mod semaphore;
mod structure;

pub use compile::{CompileError, child_main};
pub use compile_cache::{CacheError, CompileCache};
pub use host::{Compiler, Host, HostConfig, HostError, Origin};
pub use inspect::{CONTRACT, Form, Inspection, World, inspect};
pub use limits::Limits;
pub use load::{LoadError, OlderSide};
pub use observer::{CallReport, Observer};
pub use plugin::{Plugin, RawResponse};
pub use request::{RawOutput, Request, RequestError};
pub use result_cache::ResultCacheCapacity;
