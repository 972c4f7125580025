//! The bindings of the SDK: the functions that a component exports, generated from the contract.
//!
//! They are committed, because the macro that generates them while a plugin is built takes most of that
//! build with its own dependencies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::Opts;
use wit_parser::Resolve;

/// The worlds of the contract, and the modules of the SDK with their bindings.
const WORLDS: [(&str, &str); 2] = [
    ("schema-adapter", "schema_adapter"),
    ("provider-pack", "provider_pack"),
];

/// Path in the checkout and content of the bindings of each world of a contract.
pub fn files(wit: &str) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let worlds = WORLDS.into_iter();
    worlds
        .map(|(world, module)| {
            let file = format!("guest-sdk/src/bindings/{module}.rs");
            Ok((file.into(), bindings(wit, world, module)?))
        })
        .collect()
}

fn bindings(wit: &str, world: &str, module: &str) -> anyhow::Result<String> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("adapter.wit", wit)?;
    let world = resolve.select_world(&[package], Some(world))?;
    let options = Opts {
        format: true,
        runtime_path: Some("wit_bindgen::rt".to_owned()),
        pub_export_macro: true,
        export_macro_name: Some(format!("export_{module}")),
        default_bindings_module: Some(format!("llsd_adapter_sdk::bindings::{module}")),
        ..Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let (_, content) = files.iter().next().context("no bindings were generated")?;
    Ok(String::from_utf8(content.to_vec())?)
}
