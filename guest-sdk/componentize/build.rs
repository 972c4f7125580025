//! Fails at once, with one instruction, when the toolchain cannot compile adapters.
//!
//! The script has no heavy dependency, so cargo runs it in the first seconds of a build. Without it
//! the build script of `llsd-builtin` would be the first to notice, minutes later.

use std::path::Path;

use llsd_wasm_target::Toolchain;

fn main() {
    // Without this line, cargo would rerun the script whenever a file of the package changes. A target
    // that is removed later is reported by `llsd_componentize::build`.
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTUP_TOOLCHAIN");
    let checked = match Toolchain::of(&Toolchain::rustc(), Path::new(".")) {
        Ok(toolchain) => toolchain.check_target().map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(message) = checked {
        println!("cargo::error={message}");
    }
}
