//! Small guests in the WebAssembly text format: a core module that follows the canonical ABI of the
//! contract, wrapped as a component.
//!
//! Each test changes the part that it tests.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fmt::Write as _;
use std::path::Path;

use llsd_adapter_sdk::documents::{Document as _, Expansion};
use llsd_plugin::{Compiler, Host, HostConfig, Limits, Origin, Plugin, Request};
use serde_json::{Value, json};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The published contract.
pub(crate) fn wit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v1.0.0/adapter.wit");
    std::fs::read_to_string(path).unwrap()
}

/// The description of a well-behaved guest.
pub(crate) fn description() -> Value {
    json!({
        "name": "guest",
        "version": "1.0.0",
        "vendor": "tests",
        "shapes": [
            "llamastack.io/adapter/base/v1",
            "llamastack.io/adapter/hints/v1",
            "llamastack.io/adapter/expansion-request/v1",
            "llamastack.io/adapter/assembly-request/v1",
        ],
        "schemas": [{ "id": "test/1.0", "product": "test", "from": "1.0.0", "role": "current" }],
        "apis": { "test/1.0": ["inference"] },
        "providers": { "test/1.0": { "inference": [{ "name": "vllm", "type": "remote::vllm" }] } },
    })
}

/// The source of a guest.
pub(crate) struct Guest {
    /// World of the contract.
    pub(crate) world: &'static str,
    /// Contract to build against.
    pub(crate) wit: String,
    /// Version of the contract in the names of the exports.
    pub(crate) version: &'static str,
    /// The flattened parameters of a document argument.
    pub(crate) document: &'static str,
    /// JSON that `describe` returns.
    pub(crate) description: Vec<u8>,
    /// Shape of the document that `expand` and `assemble` return.
    pub(crate) shape: &'static str,
    /// JSON that `expand` and `assemble` return.
    pub(crate) output: Vec<u8>,
    /// Initial pages of memory.
    pub(crate) pages: u32,
    /// Additional fields of the module.
    pub(crate) fields: String,
    /// Instructions of `expand` and `assemble` before they return.
    pub(crate) body: String,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            world: "schema-adapter",
            wit: wit(),
            version: "1.0.0",
            document: "i32 i32 i32 i32",
            description: description().to_string().into_bytes(),
            shape: Expansion::SHAPE,
            output: br#"{"config":{},"id":"a","type":"remote::vllm","wants":[]}"#.to_vec(),
            pages: 2,
            fields: String::new(),
            body: String::new(),
        }
    }
}

/// Static data of a module.
struct Data {
    next: usize,
    segments: String,
}

impl Data {
    fn add(&mut self, bytes: &[u8]) -> u32 {
        let at = self.next;
        let escaped = bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "\\{byte:02x}").unwrap();
            text
        });
        writeln!(self.segments, "(data (i32.const {at}) \"{escaped}\")").unwrap();
        self.next += bytes.len().next_multiple_of(8);
        at as u32
    }

    fn words(&mut self, words: &[u32]) -> u32 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.add(&bytes)
    }

    /// A flattened `document` record.
    fn document(&mut self, shape: &str, json: &[u8]) -> [u32; 4] {
        [
            self.add(shape.as_bytes()),
            shape.len() as u32,
            self.add(json),
            json.len() as u32,
        ]
    }
}

impl Guest {
    /// The component.
    pub(crate) fn build(&self) -> Vec<u8> {
        self.wrap(&self.module())
    }

    fn module(&self) -> String {
        let mut data = Data {
            next: 1024,
            segments: String::new(),
        };
        let description = data.document("llamastack.io/adapter/description/v1", &self.description);
        let described = data.words(&description);
        let [shape, shape_len, json, json_len] = data.document(self.shape, &self.output);
        // `ok(outcome { output, warnings: [] })`
        let outcome = data.words(&[0, shape, shape_len, json, json_len, 0, 0]);
        // `one("test/1.0")`
        let schema = data.add(b"test/1.0");
        let detected = data.words(&[0, schema, 8]);
        let Self {
            version,
            document,
            pages,
            fields,
            body,
            ..
        } = self;
        let package = "llamastack:config-adapter";
        let schema_adapter_functions = if self.world == "schema-adapter" {
            format!(
                r#"
                (func (export "{package}/detection@{version}#detect")
                    (param {document} {document}) (result i32)
                    i32.const {detected})
                (func (export "{package}/assembly@{version}#assemble") (param {document}) (result i32)
                    {body}
                    i32.const {outcome})
                "#
            )
        } else {
            String::new()
        };
        let segments = &data.segments;
        format!(
            r#"(module $guest
                (memory (export "memory") {pages})
                (global $outcome i32 (i32.const {outcome}))
                (global $json i32 (i32.const {json}))
                (global $heap (mut i32) (i32.const 65536))
                {segments}
                (func $cabi_realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                    (local $at i32)
                    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                    (global.set $heap (i32.add (local.get $at) (local.get 3)))
                    (block $fits
                        (loop $grow
                            (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                            (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
                            unreachable))
                    local.get $at)
                (func (export "{package}/identity@{version}#describe") (result i32)
                    i32.const {described})
                (func $expand_the_entry (export "{package}/expansion@{version}#expand")
                    (param {document}) (result i32)
                    {body}
                    i32.const {outcome})
                {schema_adapter_functions}
                {fields}
            )"#
        )
    }

    fn wrap(&self, module: &str) -> Vec<u8> {
        let mut module = wat::parse_str(module).unwrap();
        let mut resolve = Resolve::default();
        let package = resolve.push_str("adapter.wit", &self.wit).unwrap();
        let world = resolve.select_world(&[package], Some(self.world)).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        ComponentEncoder::default()
            .validate(true)
            .module(&module)
            .unwrap()
            .encode()
            .unwrap()
    }

    /// Loads the guest in a new host.
    pub(crate) fn load(&self, limits: Limits) -> Plugin {
        host(limits).load(&self.build(), Origin::BuiltIn).unwrap()
    }
}

/// A host that compiles in this process, because these tests have no child process.
pub(crate) fn host(limits: Limits) -> Host {
    Host::new(HostConfig {
        limits,
        compiler: Compiler::Program("/nowhere".into()),
        ..HostConfig::default()
    })
    .unwrap()
}

/// A typical request.
pub(crate) fn expand(id: &str) -> Request {
    let entry = json!({ "id": id, "provider": "vllm", "settings": {}, "references": {} });
    let path = "spec.providers.inference[0]";
    let request = json!({ "schema": "test/1.0", "api": "inference", "path": path, "entry": entry, "capabilities": [] });
    Request::from_json("expand", &request).unwrap()
}

/// A component of a few kilobytes that imports an instance whose types double `levels` times, so that their
/// expansion has `2^levels` functions with paths of several kilobytes.
pub(crate) fn doubled_types(levels: usize) -> Vec<u8> {
    let long = "x".repeat(1_000);
    let mut text = String::from("(component (type $t0 (instance (export \"read\" (func))))");
    for level in 1..=levels {
        let before = level - 1;
        text += &format!(
            "(type $t{level} (instance (alias outer 1 $t{before} (type $t)) \
             (export \"a{long}\" (instance (type $t))) (export \"b{long}\" (instance (type $t)))))"
        );
    }
    text += &format!("(import \"x\" (instance (type $t{levels}))))");
    wat::parse_str(&text).unwrap()
}
