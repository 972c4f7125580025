//! Builds an adapter crate for WebAssembly and wraps it as a component.
//!
//! In: the directory of a crate that uses `llsd-adapter-sdk`. Out: the bytes of a component without
//! imports. The target is `wasm32-unknown-unknown`, because `wasm32-wasip2` adds WASI imports even to
//! code that does not use WASI.

mod names;

use std::path::{Path, PathBuf};
use std::process::Command;

use llsd_wasm_target::{MissingTarget, NoCompiler, TARGET, Toolchain};
use wit_component::ComponentEncoder;

/// Initial heap of 1 MiB, enough for an ordinary call. Growing the memory during a call is slow.
const HEAP: &str = "link-arg=--initial-heap=1048576";

/// Encodes function indexes and addresses in as few bytes as they need instead of always five, which
/// makes a component 30 KiB smaller. The instructions are the same.
const COMPRESS: [&str; 4] = [
    "-C",
    "link-arg=-O2",
    "-C",
    "link-arg=--compress-relocations",
];

/// Why building a component failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cargo could not be started.
    #[error("failed to run cargo; install Rust with rustup")]
    Cargo(#[source] std::io::Error),
    /// The compiler could not be started.
    #[error(transparent)]
    Compiler(#[from] NoCompiler),
    /// The toolchain lacks the standard library for WebAssembly.
    #[error(transparent)]
    Target(#[from] MissingTarget),
    /// The crate does not build.
    #[error("failed to build the adapter in {0} for WebAssembly; see the messages of cargo above")]
    Build(PathBuf),
    /// Cargo did not build a `cdylib`.
    #[error(
        "the crate in {0} has no WebAssembly library; add `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]`"
    )]
    NoLibrary(PathBuf),
    /// The library could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The library.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The library does not use the SDK's `export!`.
    #[error("{path} is not an adapter; export your type with `llsd_adapter_sdk::export!`")]
    Encode {
        /// The library.
        path: PathBuf,
        /// The error of the encoder.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A module of another language does not have the exports of its world.
    #[error("the module does not implement its world; use the bindings of the contract")]
    Wrap(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Builds the adapter crate in `folder` and wraps it as a component. Cargo writes to `target_dir`.
pub fn build(folder: &Path, target_dir: &Path) -> Result<Vec<u8>, Error> {
    Toolchain::of(&Toolchain::rustc(), folder)?.check_target()?;
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustc", "--lib", "--profile", "guest", "--target", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        .arg("--target-dir")
        .arg(target_dir)
        .args(["--", "-C", HEAP])
        .args(COMPRESS)
        .current_dir(folder)
        // A build script inherits flags and wrappers that are meant for the host's target.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(Error::Cargo)?;
    if !output.status.success() {
        return Err(Error::Build(folder.to_owned()));
    }
    let library = library(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Error::NoLibrary(folder.to_owned()))?;
    let module = std::fs::read(&library).map_err(|source| Error::Read {
        path: library.clone(),
        source,
    })?;
    wrap(&module).map_err(|source| Error::Encode {
        path: library,
        source,
    })
}

/// Wraps a core module of another language as a component of `world`. The module follows the canonical
/// ABI, as the bindings of wit-bindgen do; `wit` is the directory of the contract.
pub fn wrap_module(module: &[u8], wit: &Path, world: &str) -> Result<Vec<u8>, Error> {
    let wrapped = || -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        let mut resolve = wit_parser::Resolve::default();
        let (package, _) = resolve.push_dir(wit)?;
        let world = resolve.select_world(&[package], Some(world))?;
        let mut module = module.to_vec();
        let encoding = wit_component::StringEncoding::UTF8;
        wit_component::embed_component_metadata(&mut module, &resolve, world, encoding)?;
        wrap(&module)
    };
    wrapped().map_err(Error::Wrap)
}

/// Wraps a core module that uses the SDK as a component.
fn wrap(module: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let module = names::shorten(module)?;
    Ok(ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()?)
}

/// The last `.wasm` file in cargo's messages. Cargo builds the crate itself after its dependencies.
fn library(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .rfind(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        })
}
