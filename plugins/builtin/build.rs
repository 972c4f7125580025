//! Builds the adapters of the floor and leaves them where `lib.rs` includes them.

use std::path::PathBuf;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// All plugins of this repository. Those that are built in are loaded in this order, newest first.
const LIST: &str = "../plugins.json";

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
        LIST,
    ] {
        println!("cargo::rerun-if-changed={watched}");
    }
    // Cargo holds a lock on the folder this script runs in; beside it, all profiles share one build.
    let guests = out.ancestors().nth(4).unwrap_or(&out).join("guests");
    let mut table = String::from("&[");
    for adapter in built_in_adapters()? {
        println!("cargo::rerun-if-changed=../{adapter}");
        let component = llsd_componentize::build(&plugins.join(&adapter), &guests)?;
        let digest = HEXLOWER.encode(&Sha256::digest(&component));
        std::fs::write(out.join(format!("{adapter}.wasm")), component)?;
        table += &format!(
            "Builtin {{ name: {adapter:?}, digest: \"sha256:{digest}\", component: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{adapter}.wasm\")) }},"
        );
    }
    std::fs::write(out.join("adapters.rs"), table + "]")?;
    Ok(())
}

fn built_in_adapters() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let list: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(LIST)?)?;
    let built_in = list.iter().filter(|plugin| plugin["builtIn"] == true);
    let names = built_in.filter_map(|plugin| plugin["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

fn env(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}
