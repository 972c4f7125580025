//! Contract evolution: old components keep loading, and new versions of the contract stay compatible.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use llsd_plugin::{Limits, Origin, Request, World};
use llsd_render::adapter::Adapter;
use wit_parser::{Resolve, Type, TypeDefKind, TypeId, WorldItem};

use crate::guests::{host, wit};

/// Components that were built when version 1.0.0 of the contract was released. Never build them again.
const FROZEN: [(&str, World); 2] = [
    ("contract-1.0.0-adapter.wasm", World::SchemaAdapter),
    ("contract-1.0.0-pack.wasm", World::ProviderPack),
];

#[test]
fn components_of_the_first_release_keep_loading_and_answering() {
    for (file, world) in FROZEN {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(file);
        let bytes = std::fs::read(&path).unwrap();
        let plugin = host(Limits::default())
            .load(&bytes, Origin::BuiltIn)
            .unwrap();
        assert_eq!(plugin.world(), world, "{file}");
        assert_eq!(failures(&plugin), Vec::<String>::new(), "{file}");
    }
}

/// The calls of a frozen component that fail.
fn failures(plugin: &llsd_plugin::Plugin) -> Vec<String> {
    let schema = plugin.description().schemas[0].id.clone();
    let provider = &plugin.description().providers[&schema]["inference"][0];
    let request = serde_json::json!({
        "schema": schema,
        "api": "inference",
        "path": "spec.providers.inference",
        "entry": {
            "id": "a",
            "provider": provider.name,
            "endpoint": "http://a:8000",
            "references": {"apiKey": "LLSD_A_API_KEY"},
            "keyOfANewerContract": true,
        },
        "keyOfANewerContract": {"a": [1]},
    });
    let mut calls = vec![("expand", request)];
    if plugin.world() == World::SchemaAdapter {
        calls.push((
            "detect",
            serde_json::json!({"base": {"version": 2}, "hints": {"keyOfANewerContract": 1}}),
        ));
        calls.push((
            "assemble",
            serde_json::json!({
                "schema": schema,
                "base": {"version": 2},
                "server": {"configFile": "/etc/config.yaml", "dataDir": "/data"},
                "keyOfANewerContract": {"a": [1]},
            }),
        ));
    }
    let failed = |(call, request): (&str, serde_json::Value)| {
        let response = plugin.call(&Request::from_json(call, &request).unwrap());
        match response {
            Ok(response) if response.output.to_json().contains("problems") => {
                Some(format!("{call}: {}", response.output.to_json()))
            }
            Ok(_) => None,
            Err(fault) => Some(format!("{call}: {fault}")),
        }
    };
    calls.into_iter().filter_map(failed).collect()
}

/// What a version of the contract promises: the members of every interface and world, by name.
fn promises(text: &str) -> BTreeMap<String, String> {
    let mut resolve = Resolve::default();
    resolve.push_str("adapter.wit", text).unwrap();
    let mut found = BTreeMap::new();
    for (_, interface) in &resolve.interfaces {
        let name = interface.name.clone().unwrap_or_default();
        for (member, id) in &interface.types {
            found.insert(format!("type {name}.{member}"), shape(&resolve, *id));
        }
        for (member, function) in &interface.functions {
            let parameters = function.params.iter();
            let parameters =
                parameters.map(|one| format!("{}: {}", one.name, written(&resolve, &one.ty)));
            let parameters: Vec<String> = parameters.collect();
            let result = function.result.as_ref().map(|one| written(&resolve, one));
            found.insert(
                format!("function {name}.{member}"),
                format!(
                    "({}) -> {}",
                    parameters.join(", "),
                    result.unwrap_or_default()
                ),
            );
        }
    }
    for (_, world) in &resolve.worlds {
        assert!(
            world.imports.is_empty(),
            "world {} imports something",
            world.name
        );
        let names = world.exports.values().map(|item| match item {
            WorldItem::Interface { id, .. } => {
                resolve.interfaces[*id].name.clone().unwrap_or_default()
            }
            other => format!("{other:?}"),
        });
        found.insert(
            format!("world {}", world.name),
            names.collect::<Vec<_>>().join(", "),
        );
    }
    found
}

fn shape(resolve: &Resolve, id: TypeId) -> String {
    let list = |all: Vec<String>| all.join(", ");
    match &resolve.types[id].kind {
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter();
            list(
                fields
                    .map(|field| format!("{}: {}", field.name, written(resolve, &field.ty)))
                    .collect(),
            )
        }
        TypeDefKind::Enum(cases) => {
            list(cases.cases.iter().map(|case| case.name.clone()).collect())
        }
        TypeDefKind::Variant(cases) => {
            let payload = |ty: &Option<Type>| {
                ty.as_ref()
                    .map(|ty| written(resolve, ty))
                    .unwrap_or_default()
            };
            let cases = cases.cases.iter();
            list(
                cases
                    .map(|case| format!("{}({})", case.name, payload(&case.ty)))
                    .collect(),
            )
        }
        TypeDefKind::List(of) => format!("list<{}>", written(resolve, of)),
        TypeDefKind::Result(result) => {
            let side = |ty: &Option<Type>| {
                ty.as_ref()
                    .map_or_else(|| "_".to_owned(), |ty| written(resolve, ty))
            };
            format!("result<{}, {}>", side(&result.ok), side(&result.err))
        }
        TypeDefKind::Type(of) => written(resolve, of),
        other => format!("{other:?}"),
    }
}

fn written(resolve: &Resolve, ty: &Type) -> String {
    match ty {
        Type::Id(id) => match &resolve.types[*id].name {
            Some(name) => name.clone(),
            None => shape(resolve, *id),
        },
        other => format!("{other:?}"),
    }
}

/// What `newer` breaks for components that were built for `older`. Additions are compatible, except to a
/// record, a variant or a world: those are frozen.
fn breaks(older: &str, newer: &str) -> Vec<String> {
    let newer = promises(newer);
    let broken = |(name, promise): (String, String)| match newer.get(&name) {
        None => Some(format!("{name} is missing")),
        Some(now) if *now != promise => Some(format!("{name} was {promise}, is {now}")),
        Some(_) => None,
    };
    promises(older).into_iter().filter_map(broken).collect()
}

/// The directories of the published versions, oldest first.
fn versions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let folders = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    folders.sort_by_key(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let parts = name
            .trim_start_matches('v')
            .split('.')
            .map(|part| part.parse().unwrap());
        parts.collect::<Vec<u64>>()
    });
    folders
}

#[test]
fn every_version_of_the_contract_keeps_what_the_one_before_promised() {
    let texts: Vec<String> = versions()
        .iter()
        .map(|path| std::fs::read_to_string(path.join("adapter.wit")).unwrap())
        .collect();
    for pair in texts.windows(2) {
        assert_eq!(breaks(&pair[0], &pair[1]), Vec::<String>::new());
    }
    // A released folder never changes: only its comments may.
    let frozen = include_str!("../fixtures/contract-1.0.0.txt");
    let lines = promises(&texts[0]).into_iter();
    let lines: String = lines
        .map(|(name, promise)| format!("{name} = {promise}\n"))
        .collect();
    assert_eq!(lines, frozen);
}

#[test]
fn the_comparison_of_contracts_finds_what_breaks_components() {
    let changed = |from: &str, to: &str| {
        let text = wit().replace(from, to);
        assert_ne!(text, wit());
        breaks(&wit(), &text)
    };
    let widened = changed(
        "        json: string,\n",
        "        json: string,\n        extra: string,\n",
    );
    assert!(
        widened
            .iter()
            .any(|line| line.starts_with("type types.document was")),
        "{widened:?}"
    );
    let removed = changed("    describe: func() -> document;", "");
    assert_eq!(removed, ["function identity.describe is missing"]);
    let retyped = changed(
        "detect: func(base: document, hints: document)",
        "detect: func(base: document)",
    );
    assert!(
        retyped[0].starts_with("function detection.detect was"),
        "{retyped:?}"
    );
    let more_cases = changed("        none,\n", "        none,\n        many,\n");
    assert!(
        more_cases[0].starts_with("type detection.answer was"),
        "{more_cases:?}"
    );
    let required = changed(
        "    export expansion;\n}",
        "    export expansion;\n    export assembly;\n}",
    );
    assert!(
        required[0].starts_with("world provider-pack was"),
        "{required:?}"
    );

    let added = "    describe: func() -> document;\n    licence: func() -> u32;";
    assert_eq!(
        changed("    describe: func() -> document;", added),
        Vec::<String>::new()
    );
}
