//! The structure of a component: who imports what, at any depth.
//!
//! A component may hold modules and components of its own, and those have imports by nature: what
//! holds them passes them their arguments. Two things are outside calls in disguise: an import of
//! the outermost component that leads to something callable, however deep inside instance types;
//! and an inner module or component that nothing inside instantiates, so that nothing inside
//! answers its imports.

use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType, ComponentItem};
use wasmparser::types::TypesRef;
use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, Encoding, FuncValidatorAllocations, Instance, Parser, Payload,
    ValidPayload, Validator, WasmFeatures,
};

use crate::load::LoadError;

/// What a plugin may use: plain WebAssembly 2 with a few additions that change nothing about its
/// being a pure function. The engine is set up likewise.
fn allowed() -> WasmFeatures {
    (WasmFeatures::WASM2
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::TAIL_CALL
        | WasmFeatures::COMPONENT_MODEL)
        - WasmFeatures::GC_TYPES
}

/// What a component is made of.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    pub(crate) imports: Vec<String>,
    pub(crate) type_imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    /// The first use of a feature that is not allowed.
    pub(crate) forbidden: Option<String>,
}

/// Reads and validates a component.
pub(crate) fn read(bytes: &[u8]) -> Result<Structure, LoadError> {
    match walk(bytes, allowed()) {
        Ok(structure) => Ok(structure),
        // What is valid with everything switched on breaks a rule of ours; the rest is broken.
        Err(error) => match walk(bytes, WasmFeatures::all()) {
            Ok(structure) => Ok(Structure {
                forbidden: Some(error.message().to_owned()),
                ..structure
            }),
            Err(_) => Err(LoadError::Malformed(error.to_string())),
        },
    }
}

/// A module or component, somewhere inside.
#[derive(Default)]
struct Definition {
    place: String,
    imports: Vec<String>,
    is_instantiated: bool,
}

/// A module or component that is being read.
struct Frame {
    definition: usize,
    is_component: bool,
    /// Names of its imports, as far as they are a component's.
    imports: Vec<String>,
    exports: Vec<String>,
    /// Which definition an index stands for, where it stands for one inside.
    components: Vec<Option<usize>>,
    modules: Vec<Option<usize>>,
    nested: usize,
}

struct Walk {
    structure: Structure,
    definitions: Vec<Definition>,
    frames: Vec<Frame>,
}

fn walk(bytes: &[u8], features: WasmFeatures) -> Result<Structure, BinaryReaderError> {
    let mut validator = Validator::new_with_features(features);
    let mut allocations = FuncValidatorAllocations::default();
    let mut walk = Walk {
        structure: Structure::default(),
        definitions: vec![Definition {
            is_instantiated: true,
            ..Definition::default()
        }],
        frames: Vec::new(),
    };
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        match validator.payload(&payload)? {
            ValidPayload::Func(function, body) => {
                let mut function = function.into_validator(allocations);
                function.validate(&body)?;
                allocations = function.into_allocations();
            }
            ValidPayload::End(types) => walk.leave(types.as_ref()),
            ValidPayload::Ok | ValidPayload::Parser(_) => walk.see(payload)?,
        }
    }
    Ok(walk.finish())
}

impl Walk {
    fn see(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
        if let Payload::Version { encoding, .. } = payload {
            // The definition was made when the enclosing frame announced it; the root is the first.
            let definition = self.definitions.len() - 1;
            self.frames.push(Frame {
                definition,
                is_component: encoding == Encoding::Component,
                imports: Vec::new(),
                exports: Vec::new(),
                components: Vec::new(),
                modules: Vec::new(),
                nested: 0,
            });
            return Ok(());
        }
        let Some(depth) = self.frames.len().checked_sub(1) else {
            return Ok(());
        };
        match payload {
            Payload::ModuleSection { .. } => {
                let definition = self.announce("module");
                self.frames[depth].modules.push(Some(definition));
            }
            Payload::ComponentSection { .. } => {
                let definition = self.announce("component");
                self.frames[depth].components.push(Some(definition));
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    let definition = self.frames[depth].definition;
                    self.definitions[definition]
                        .imports
                        .push(format!("{:?} {:?}", import.module, import.name));
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    self.frames[depth].imports.push(import.name.name.to_owned());
                    self.index(import.ty.kind(), None);
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    match alias? {
                        ComponentAlias::InstanceExport { kind, .. } => self.index(kind, None),
                        ComponentAlias::Outer { kind, count, index } => {
                            self.alias_outer(kind, count, index)
                        }
                        ComponentAlias::CoreInstanceExport { .. } => {}
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export?;
                    self.frames[depth].exports.push(export.name.name.to_owned());
                    let definition = self.at(depth, export.kind, export.index);
                    self.index(export.kind, definition);
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    if let ComponentInstance::Instantiate {
                        component_index, ..
                    } = instance?
                    {
                        self.instantiate(self.at(
                            depth,
                            ComponentExternalKind::Component,
                            component_index,
                        ));
                    }
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    if let Instance::Instantiate { module_index, .. } = instance? {
                        self.instantiate(self.at(
                            depth,
                            ComponentExternalKind::Module,
                            module_index,
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes the definition of a module or component whose own payloads follow.
    fn announce(&mut self, kind: &str) -> usize {
        let place = match self.frames.last_mut() {
            Some(frame) => {
                frame.nested += 1;
                let within = &self.definitions[frame.definition].place;
                let separator = if within.is_empty() { "" } else { ", " };
                format!("{within}{separator}inner {kind} {}", frame.nested)
            }
            None => String::new(),
        };
        self.definitions.push(Definition {
            place,
            ..Definition::default()
        });
        self.definitions.len() - 1
    }

    /// Adds to the index space that a kind has.
    fn index(&mut self, kind: ComponentExternalKind, definition: Option<usize>) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        match kind {
            ComponentExternalKind::Component => frame.components.push(definition),
            ComponentExternalKind::Module => frame.modules.push(definition),
            _ => {}
        }
    }

    fn alias_outer(&mut self, kind: ComponentOuterAliasKind, count: u32, index: u32) {
        let kind = match kind {
            ComponentOuterAliasKind::Component => ComponentExternalKind::Component,
            ComponentOuterAliasKind::CoreModule => ComponentExternalKind::Module,
            _ => return,
        };
        let frame = (self.frames.len() - 1).checked_sub(count as usize);
        let definition = frame.and_then(|frame| self.at(frame, kind, index));
        self.index(kind, definition);
    }

    fn at(&self, frame: usize, kind: ComponentExternalKind, index: u32) -> Option<usize> {
        let frame = self.frames.get(frame)?;
        let indices = match kind {
            ComponentExternalKind::Component => &frame.components,
            ComponentExternalKind::Module => &frame.modules,
            _ => return None,
        };
        indices.get(index as usize).copied().flatten()
    }

    fn instantiate(&mut self, definition: Option<usize>) {
        if let Some(definition) = definition {
            self.definitions[definition].is_instantiated = true;
        }
    }

    /// A module or component ended: its types say what its imports lead to.
    fn leave(&mut self, types: TypesRef<'_>) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        if !frame.is_component {
            return;
        }
        let mut callable = Vec::new();
        for name in &frame.imports {
            let before = callable.len();
            if let Some(item) = types.component_item_for_import(name) {
                calls(item, name, types, &mut callable);
            }
            if frame.definition == 0 && callable.len() == before {
                self.structure.type_imports.push(name.clone());
            }
        }
        self.definitions[frame.definition].imports = callable;
        if frame.definition == 0 {
            self.structure.exports = frame.exports;
        }
    }

    fn finish(self) -> Structure {
        let Self {
            mut structure,
            definitions,
            ..
        } = self;
        for (
            number,
            Definition {
                place,
                imports,
                is_instantiated,
            },
        ) in definitions.into_iter().enumerate()
        {
            if number == 0 {
                structure.imports = imports;
            } else if !is_instantiated {
                structure.imports.extend(
                    imports
                        .into_iter()
                        .map(|import| format!("{import} (in the {place})")),
                );
            }
        }
        structure
    }
}

/// Everything callable that an import leads to, by path.
fn calls(item: &ComponentItem, path: &str, types: TypesRef<'_>, found: &mut Vec<String>) {
    match &item.ty {
        ComponentEntityType::Instance(id) => {
            for (name, inner) in types
                .get(*id)
                .map(|instance| &instance.exports)
                .into_iter()
                .flatten()
            {
                calls(inner, &format!("{path}#{name}"), types, found);
            }
        }
        ComponentEntityType::Type {
            created: ComponentAnyTypeId::Resource(_),
            ..
        } => {
            found.push(format!("{path} (resource)"));
        }
        ComponentEntityType::Type { .. } => {}
        ComponentEntityType::Func(_) => found.push(path.to_owned()),
        ComponentEntityType::Module(_) => found.push(format!("{path} (module)")),
        ComponentEntityType::Component(_) => found.push(format!("{path} (component)")),
        ComponentEntityType::Value(_) => found.push(format!("{path} (value)")),
    }
}
