//! Builds the adapters of the floor and leaves them where `lib.rs` includes them.

use std::path::PathBuf;

/// Adapters inside the binary, newest first.
const ADAPTERS: [&str; 3] = ["llama-stack-0.7", "llama-stack-0.4", "llama-stack-0.2"];

fn main() {
    if let Err(error) = build() {
        // One line: cargo shows each line of a build script's message as an error of its own.
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        println!("cargo::error={}", message.replace('\n', " "));
    }
}

fn build() -> Result<(), Box<dyn std::error::Error>> {
    let plugins = PathBuf::from(env("CARGO_MANIFEST_DIR")?).join("..");
    let out = PathBuf::from(env("OUT_DIR")?);
    for watched in [
        "../dialects",
        "../../guest-sdk/src",
        "../../guest-sdk/Cargo.toml",
        "../../wit",
        "../../Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={watched}");
    }
    // Cargo holds a lock on the folder this script runs in; beside it, all profiles share one build.
    let guests = out.ancestors().nth(4).unwrap_or(&out).join("guests");
    let mut table = String::from("&[");
    for adapter in ADAPTERS {
        println!("cargo::rerun-if-changed=../{adapter}");
        let component = llsd_componentize::build(&plugins.join(adapter), &guests)?;
        std::fs::write(out.join(format!("{adapter}.wasm")), component)?;
        table += &format!(
            "Builtin {{ name: {adapter:?}, component: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{adapter}.wasm\")) }},"
        );
    }
    std::fs::write(out.join("adapters.rs"), table + "]")?;
    Ok(())
}

fn env(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}
