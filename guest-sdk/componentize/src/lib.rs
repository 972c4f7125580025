//! Builds an adapter crate for WebAssembly and wraps it as a component.
//!
//! In: the folder of a crate that uses `llsd-adapter-sdk`. Out: the bytes of a component that
//! imports nothing. The target is `wasm32-unknown-unknown` on purpose: `wasm32-wasip2` adds WASI
//! imports to code that uses none of them.

mod names;

use std::path::{Path, PathBuf};
use std::process::Command;

use llsd_wasm_target::{MissingTarget, NoCompiler, TARGET, Toolchain};
use wit_component::ComponentEncoder;

/// Memory that an adapter starts with and an ordinary call does not exceed: growing it takes longer
/// than using it.
const HEAP: &str = "link-arg=--initial-heap=1048576";

/// Why there is no component.
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
    #[error("the adapter in {0} does not build for WebAssembly; cargo's own messages stand above")]
    Build(PathBuf),
    /// Cargo built something else than one library.
    #[error(
        "the crate in {0} makes no WebAssembly library; add `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]`"
    )]
    NoLibrary(PathBuf),
    /// The library could not be read.
    #[error("could not read {path}")]
    Read {
        /// The library.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The library does not use the SDK's `export!`.
    #[error("{path} is no adapter; name your type in `llsd_adapter_sdk::export!`")]
    Encode {
        /// The library.
        path: PathBuf,
        /// What the encoder says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Builds the adapter crate in `folder` into `target_dir` and wraps it as a component.
pub fn build(folder: &Path, target_dir: &Path) -> Result<Vec<u8>, Error> {
    Toolchain::of(&Toolchain::rustc(), folder)?.check_target()?;
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustc", "--lib", "--profile", "guest", "--target", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        .arg("--target-dir")
        .arg(target_dir)
        .args(["--", "-C", HEAP])
        .current_dir(folder)
        // A build script's own flags and wrappers are about the host's target.
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

/// Wraps a core module made with the SDK as a component.
fn wrap(module: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let module = names::shorten(module)?;
    Ok(ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()?)
}

/// The last `.wasm` file that cargo says it made: the crate itself comes after its dependencies.
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
