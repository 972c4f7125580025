//! Runs schema adapters, which are WebAssembly components, in a sandbox.
//!
//! In: the bytes of a component and the limits that its installer grants. Out: a [`Plugin`], which
//! answers like any [`Adapter`](llsd_render::adapter::Adapter), or the [`LoadError`] that says which
//! rule the bytes break. A guest sees its arguments and nothing else; every call has a fresh store,
//! and ends within its limits whatever the guest does.
//!
//! A binary that loads bytes from outside calls [`child_main`] first thing in `main`: compiling them
//! happens in a child process of the same binary.

mod answer;
mod bindings;
mod cache;
mod call;
mod compile;
mod engine;
mod host;
mod inspect;
mod limits;
mod load;
mod places;
mod plugin;
mod request;
mod results;
mod structure;

pub use cache::{CacheError, CompileCache};
pub use compile::{CompileError, child_main};
pub use host::{Compiler, Host, HostConfig, HostError, Origin};
pub use inspect::{CONTRACT, Form, Inspection, World, inspect};
pub use limits::Limits;
pub use load::LoadError;
pub use plugin::{CallReport, Observer, Plugin, RawCalled};
pub use request::{RawAnswer, Request, RequestError};
pub use results::Memory;
