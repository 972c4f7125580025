//! The load rules, each violated by a real component.

use llsd_plugin::{Form, Limits, LoadError, Origin, World, inspect};
use llsd_render::adapter::Adapter as _;
use serde_json::json;

use crate::guests::{Guest, description, expand, host, wit};

fn load_error(bytes: &[u8]) -> LoadError {
    host(Limits::default())
        .load(bytes, Origin::BuiltIn)
        .unwrap_err()
}

fn imports(text: &str) -> Vec<String> {
    let bytes = wat::parse_str(text).unwrap();
    let listed = inspect(&bytes, &Limits::default()).imports;
    match load_error(&bytes) {
        LoadError::Imports(rejected) => assert_eq!(rejected, listed),
        other => assert!(listed.is_empty(), "{other}"),
    }
    listed
}

#[test]
fn both_worlds_load_and_have_no_imports() {
    for (name, world) in [
        ("schema-adapter", World::SchemaAdapter),
        ("provider-pack", World::ProviderPack),
    ] {
        let bytes = Guest {
            world: name,
            ..Guest::default()
        }
        .build();
        let inspection = inspect(&bytes, &Limits::default());
        assert!(
            inspection.problems.is_empty() && inspection.imports.is_empty(),
            "{inspection:?}"
        );
        assert_eq!(
            (inspection.world, inspection.contract.as_deref()),
            (Some(world), Some("1.0.0"))
        );
        let plugin = host(Limits::default())
            .load(&bytes, Origin::BuiltIn)
            .unwrap();
        assert_eq!(
            (plugin.world(), plugin.digest()),
            (world, inspection.digest.as_str())
        );
        assert_eq!(plugin.description().name, "guest");
    }
}

#[test]
fn a_file_that_is_not_a_component_is_rejected_by_its_format() {
    assert!(matches!(load_error(b""), LoadError::NotWasm));
    assert!(matches!(load_error(b"#!/bin/sh"), LoadError::NotWasm));
    let module = wat::parse_str("(module)").unwrap();
    assert!(matches!(load_error(&module), LoadError::CoreModule));
    let component = Guest::default().build();
    assert!(matches!(
        load_error(&component[..component.len() / 2]),
        LoadError::Malformed(_)
    ));
}

#[test]
fn precompiled_machine_code_is_rejected() {
    let engine = wasmtime::Engine::default();
    let code = engine
        .precompile_component(&Guest::default().build())
        .unwrap();
    assert_eq!(inspect(&code, &Limits::default()).form, Form::Precompiled);
    assert!(matches!(load_error(&code), LoadError::Precompiled));
}

#[test]
fn a_component_that_exceeds_the_size_limit_is_not_parsed() {
    let limits = Limits {
        component_bytes: 100,
        ..Limits::default()
    };
    let error = host(limits)
        .load(&Guest::default().build(), Origin::BuiltIn)
        .unwrap_err();
    assert!(
        matches!(error, LoadError::TooLarge { limit: 100, .. }),
        "{error}"
    );
}

#[test]
fn an_import_of_wasi_is_rejected_by_name() {
    let found = imports(
        r#"(component
            (import "wasi:cli/environment@0.2.6" (instance
                (export "get-environment" (func (result (list (tuple string string))))))))"#,
    );
    assert_eq!(found, ["wasi:cli/environment@0.2.6#get-environment"]);
}

#[test]
fn an_import_deep_inside_instance_types_is_found() {
    let found = imports(
        r#"(component
            (import "harmless" (instance
                (export "inner" (instance
                    (export "read" (func (result string))))))))"#,
    );
    assert_eq!(found, ["harmless#inner#read"]);
}

#[test]
fn imports_of_modules_components_and_resources_are_rejected() {
    let found = imports(
        r#"(component
            (import "code" (core module))
            (import "part" (component))
            (import "file" (type (sub resource))))"#,
    );
    assert_eq!(
        found,
        ["code (module)", "part (component)", "file (resource)"]
    );
}

#[test]
fn an_import_of_types_only_is_allowed() {
    let text = r#"(component
        (import "llamastack:config-adapter/types@1.0.0" (instance
            (type $severity (enum "warning" "error"))
            (export "severity" (type (eq $severity))))))"#;
    assert!(imports(text).is_empty());
    let inspection = inspect(&wat::parse_str(text).unwrap(), &Limits::default());
    assert_eq!(
        inspection.type_imports,
        ["llamastack:config-adapter/types@1.0.0"]
    );
}

#[test]
fn an_import_hidden_in_an_inner_component_is_found() {
    let found = imports(
        r#"(component
            (component $outer
                (component $inner
                    (import "wasi:clocks/wall-clock@0.2.6" (instance (export "now" (func (result u64))))))
                (export "inner" (component $inner)))
            (instance (instantiate $outer)))"#,
    );
    assert_eq!(
        found,
        ["wasi:clocks/wall-clock@0.2.6#now (in the inner component 1, inner component 1)"]
    );
}

#[test]
fn an_import_hidden_in_an_inner_module_is_found() {
    let found = imports(
        r#"(component (core module $m (import "wasi_snapshot_preview1" "fd_write" (func))))"#,
    );
    assert_eq!(
        found,
        [r#""wasi_snapshot_preview1" "fd_write" (in the inner module 1)"#]
    );
}

#[test]
fn inner_imports_that_are_provided_inside_are_not_reported() {
    // A composed component: one part provides what the other imports, here through an outer alias.
    let found = imports(
        r#"(component
            (core module $clock (func (export "now") (result i64) i64.const 0))
            (component $virtual
                (alias outer 1 $clock (core module $clock))
                (core instance $clock (instantiate $clock))
                (func (export "now") (result u64) (canon lift (core func $clock "now"))))
            (component $guest
                (import "wasi:clocks/wall-clock@0.2.6" (instance (export "now" (func (result u64))))))
            (instance $virtual (instantiate $virtual))
            (instance (instantiate $guest (with "wasi:clocks/wall-clock@0.2.6" (instance $virtual)))))"#,
    );
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn forbidden_features_are_rejected_by_name() {
    for (module, word) in [
        ("(memory 1 1 shared)", "threads"),
        ("(memory i64 1)", "memory64"),
        (
            "(func (param v128 v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 1)))",
            "relaxed",
        ),
        ("(type (struct))", "gc"),
        ("(tag)", "exceptions"),
    ] {
        let bytes = wat::parse_str(format!("(component (core module {module}))")).unwrap();
        let error = load_error(&bytes);
        let LoadError::Feature(why) = &error else {
            panic!("{module}: {error}")
        };
        assert!(why.to_lowercase().contains(word), "{module}: {why}");
    }
}

#[test]
fn a_component_of_another_world_is_rejected_with_its_exports() {
    let bytes = wat::parse_str(
        r#"(component
            (core module $m (func (export "run")))
            (core instance $i (instantiate $m))
            (func $run (canon lift (core func $i "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.6" (instance $run)))"#,
    )
    .unwrap();
    let LoadError::WrongWorld { found } = load_error(&bytes) else {
        panic!()
    };
    assert_eq!(found, ["wasi:cli/run@0.2.6"]);
}

#[test]
fn another_major_version_of_the_contract_is_rejected() {
    let bytes = wat::parse_str(
        r#"(component (instance $none) (export "llamastack:config-adapter/identity@2.0.0" (instance $none)))"#,
    )
    .unwrap();
    let LoadError::WrongContract { found } = load_error(&bytes) else {
        panic!()
    };
    assert_eq!(found, "2.0.0");
}

#[test]
fn the_message_about_a_contract_names_the_side_that_is_older() {
    for (version, expected) in [
        ("2.0.0", "the plugin is newer: update the operator and llsd"),
        (
            "0.9.0",
            "the plugin is older: use a newer version of the plugin",
        ),
        ("1.0.0-rc.1", "built for a released version of the contract"),
    ] {
        let bytes = wat::parse_str(format!(
            r#"(component (instance $none) (export "llamastack:config-adapter/identity@{version}" (instance $none)))"#
        ));
        let message = load_error(&bytes.unwrap()).to_string();
        assert!(message.contains(expected), "{version}: {message}");
    }
}

#[test]
fn a_record_with_an_additional_field_is_rejected_when_loading() {
    let widened = wit().replace(
        "        json: string,\n",
        "        json: string,\n        extra: string,\n",
    );
    assert_ne!(widened, wit());
    // A document argument is six words instead of four.
    let guest = Guest {
        wit: widened,
        document: "i32 i32 i32 i32 i32 i32",
        ..Guest::default()
    };
    let bytes = guest.build();
    assert_eq!(
        inspect(&bytes, &Limits::default()).world,
        Some(World::SchemaAdapter)
    );
    let error = load_error(&bytes);
    assert!(matches!(error, LoadError::Incompatible(_)), "{error}");
}

#[test]
fn a_newer_minor_version_with_an_additional_function_loads() {
    let newer = wit().replace("@1.0.0", "@1.1.0").replace(
        "    describe: func() -> document;",
        "    describe: func() -> document;\n    licence: func() -> u32;",
    );
    let guest = Guest {
        wit: newer,
        version: "1.1.0",
        fields: r#"(func (export "llamastack:config-adapter/identity@1.1.0#licence") (result i32) i32.const 1)"#.into(),
        ..Guest::default()
    };
    let plugin = host(Limits::default())
        .load(&guest.build(), Origin::BuiltIn)
        .unwrap();
    assert_eq!(plugin.world(), World::SchemaAdapter);
}

#[test]
fn an_adapter_of_a_newer_contract_serves_a_host_that_does_not_know_its_additions() {
    let newer = wit().replace("@1.0.0", "@1.1.0");
    let mut described = description();
    described["capabilities"] = json!(["storage-options", "of-a-later-contract"]);
    described["keyOfANewerContract"] = json!({ "a": [1] });
    let guest = Guest {
        wit: newer,
        version: "1.1.0",
        description: described.to_string().into_bytes(),
        output:
            br#"{"config":{},"id":"a","keyOfANewerContract":true,"type":"remote::vllm","wants":[]}"#
                .to_vec(),
        ..Guest::default()
    };
    let plugin = guest.load(Limits::default());
    let capabilities = &plugin.description().capabilities;
    assert_eq!(capabilities, &["storage-options", "of-a-later-contract"]);
    let output = plugin.call(&expand("a")).unwrap().output.to_json();
    assert!(output.contains(r#""type":"remote::vllm""#), "{output}");
}

#[test]
fn a_plugin_with_another_version_of_a_shape_is_rejected_when_loading() {
    let with = |shape: &str, version: &str| {
        let mut description = description();
        let name = format!("llamastack.io/adapter/{shape}/");
        let shapes = description["shapes"].as_array_mut().unwrap();
        shapes.retain(|one| !one.as_str().unwrap().starts_with(&name));
        shapes.push(json!(format!("{name}{version}")));
        let description = description.to_string().into_bytes();
        Guest {
            description,
            ..Guest::default()
        }
        .build()
    };
    let load = |bytes: &[u8]| host(Limits::default()).load(bytes, Origin::BuiltIn);
    for shape in ["expansion", "assembly"] {
        assert!(load(&with(shape, "v1")).is_ok(), "{shape}");
    }
    for (shape, version, expected) in [
        ("expansion", "v2", "use a newer operator"),
        ("assembly", "v2", "use a newer operator"),
        ("assembly", "v0", "use a newer version of the plugin"),
        ("base", "v2", "use a newer operator"),
        ("base", "v0", "use a newer version of the plugin"),
    ] {
        let error = load_error(&with(shape, version));
        assert_eq!(error.reason(), "BadDescription");
        let message = error.to_string();
        assert!(message.contains(expected), "{shape}/{version}: {message}");
    }
}

#[test]
fn an_invalid_description_is_rejected_with_the_reason() {
    let with = |key: &str, value: serde_json::Value| {
        let mut description = description();
        description[key] = value;
        load_error(
            &Guest {
                description: description.to_string().into_bytes(),
                ..Guest::default()
            }
            .build(),
        )
        .to_string()
    };
    let schema = &description()["schemas"][0];
    for (message, expected) in [
        (with("name", json!("two words")), "two words"),
        (with("name", json!("")), "invalid name \"\""),
        (with("version", json!("\u{1b}[31m")), "invalid version"),
        (with("schemas", json!([])), "lists no schema"),
        (
            with("schemas", json!([schema, schema])),
            "\"test/1.0\" twice",
        ),
        (with("apis", json!({ "other/1": [] })), "\"other/1\""),
        (with("shapes", json!([])), "base/v1"),
        (with("schemas", json!("x")), "description/v1"),
    ] {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_guest_that_traps_in_describe_is_not_loaded() {
    let guest = Guest {
        fields: "(func $start unreachable) (start $start)".into(),
        ..Guest::default()
    };
    let error = load_error(&guest.build());
    assert!(matches!(error, LoadError::Describe(_)), "{error}");
    assert_eq!(error.reason(), "DescribeFailed");
}

#[test]
fn doubled_types_stop_at_the_limit_of_visited_items() {
    let bytes = crate::guests::doubled_types(17);
    assert!(bytes.len() < 100_000);
    let error = load_error(&bytes);
    assert!(
        matches!(&error, LoadError::TooComplex { what, .. } if what == "imported items"),
        "{error}"
    );
    // A smaller one is rejected for its imports, of which only some are listed, shortened.
    let LoadError::Imports(listed) = load_error(&crate::guests::doubled_types(10)) else {
        panic!("not rejected for its imports");
    };
    assert_eq!(listed.len(), 65);
    assert_eq!(listed[64], "… and 960 more");
    assert!(listed.iter().all(|name| name.len() < 300));
}

#[test]
fn deeply_nested_components_stop_at_the_limit_of_levels() {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    let mut bytes = HEADER.to_vec();
    for _ in 0..3_000 {
        let mut length = bytes.len();
        let mut section = vec![4];
        while length >= 0x80 {
            section.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        section.push(length as u8);
        bytes = [HEADER, &section, &bytes].concat();
    }
    let error = load_error(&bytes);
    assert!(
        matches!(
            error,
            LoadError::TooComplex { .. } | LoadError::Malformed(_)
        ),
        "{error}"
    );
}

#[test]
fn names_in_a_component_are_shown_without_control_characters() {
    let import = "(core module (import \"\\1b[31m\" \"\\9b\" (func)))";
    let bytes = wat::parse_str(format!("(component {import})"));
    // The second name is not UTF-8, so use one that is.
    assert!(bytes.is_err() || load_error(&bytes.unwrap()).to_string().is_ascii());
    let import = "(core module (import \"\\1b[31m\" \"\\c2\\9b2J\" (func)))";
    let error = load_error(&wat::parse_str(format!("(component {import})")).unwrap());
    assert!(matches!(error, LoadError::Imports(_)), "{error}");
    assert!(!error.to_string().contains(char::is_control), "{error:?}");
}

#[test]
fn a_description_that_the_status_cannot_store_is_rejected() {
    let schemas = |count: usize| -> Vec<serde_json::Value> {
        let one = description()["schemas"][0].clone();
        let numbered = |number| {
            let mut one = one.clone();
            one["id"] = json!(format!("product/{number}"));
            one
        };
        (0..count).map(numbered).collect()
    };
    let long = "x".repeat(64);
    for (field, value, expected) in [
        ("vendor", json!("x".repeat(257)), "at most 256 bytes"),
        (
            "vendor",
            json!("\u{1b}]0;owned\u{7}"),
            "no control characters",
        ),
        ("name", json!(long), "invalid name"),
        ("schemas", json!(schemas(65)), "lists 65 schemas"),
    ] {
        let mut about = description();
        about[field] = value;
        about["apis"] = json!({});
        about["providers"] = json!({});
        let error = load_error(
            &Guest {
                description: about.to_string().into_bytes(),
                ..Guest::default()
            }
            .build(),
        );
        assert!(matches!(error, LoadError::Description(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(expected) && !text.contains(char::is_control),
            "{text:?}"
        );
    }
    for (key, value) in [
        ("product", "\u{1b}[2J"),
        ("from", long.as_str()),
        ("id", "a/b/c"),
    ] {
        let mut about = description();
        about["schemas"][0][key] = json!(value);
        about["apis"] = json!({});
        about["providers"] = json!({});
        let error = load_error(
            &Guest {
                description: about.to_string().into_bytes(),
                ..Guest::default()
            }
            .build(),
        );
        let text = error.to_string();
        assert!(matches!(error, LoadError::Description(_)), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
