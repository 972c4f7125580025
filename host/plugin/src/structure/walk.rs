//! One pass over the binary format of a component, which validates it and collects its structure.

use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType, ComponentItem};
use wasmparser::types::TypesRef;
use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, Encoding, FuncValidatorAllocations, Instance, Parser, Payload,
    ValidPayload, Validator, WasmFeatures,
};

use super::Structure;

type Result<T = ()> = std::result::Result<T, BinaryReaderError>;

/// Index of the outermost component in [`Walk::definitions`].
const ROOT: usize = 0;

pub(super) fn walk(bytes: &[u8], features: WasmFeatures) -> Result<Structure> {
    let mut validator = Validator::new_with_features(features);
    let mut allocations = FuncValidatorAllocations::default();
    let mut walk = Walk::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        match validator.payload(&payload)? {
            ValidPayload::Func(function, body) => {
                let mut function = function.into_validator(allocations);
                function.validate(&body)?;
                allocations = function.into_allocations();
            }
            ValidPayload::End(types) => walk.end(types.as_ref()),
            ValidPayload::Ok | ValidPayload::Parser(_) => walk.visit(payload)?,
        }
    }
    Ok(walk.finish())
}

struct Walk {
    structure: Structure,
    definitions: Vec<Definition>,
    /// The modules and components that enclose the current payload, outermost first.
    frames: Vec<Frame>,
}

/// A module or component at any depth.
#[derive(Default)]
struct Definition {
    location: String,
    imports: Vec<String>,
    is_instantiated: bool,
}

/// A module or component that is being read.
struct Frame {
    definition: usize,
    is_component: bool,
    /// Names of the imports of a component.
    imports: Vec<String>,
    exports: Vec<String>,
    /// The component index space: the definition of each index, if it is defined inside.
    components: Vec<Option<usize>>,
    /// The module index space.
    modules: Vec<Option<usize>>,
    /// Number of inner modules and components so far.
    nested: usize,
}

impl Walk {
    fn new() -> Self {
        let root = Definition {
            is_instantiated: true,
            ..Definition::default()
        };
        Self {
            structure: Structure::default(),
            definitions: vec![root],
            frames: Vec::new(),
        }
    }

    fn visit(&mut self, payload: Payload<'_>) -> Result {
        if let Payload::Version { encoding, .. } = payload {
            self.begin(encoding);
            return Ok(());
        }
        let Some(depth) = self.frames.len().checked_sub(1) else {
            return Ok(());
        };
        match payload {
            Payload::ModuleSection { .. } => {
                let definition = self.define("module");
                self.frames[depth].modules.push(Some(definition));
            }
            Payload::ComponentSection { .. } => {
                let definition = self.define("component");
                self.frames[depth].components.push(Some(definition));
            }
            Payload::ImportSection(section) => {
                let definition = self.frames[depth].definition;
                let imports = &mut self.definitions[definition].imports;
                for import in section.into_imports() {
                    let import = import?;
                    imports.push(format!("{:?} {:?}", import.module, import.name));
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    self.frames[depth].imports.push(import.name.name.to_owned());
                    self.add_index(import.ty.kind(), None);
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    self.visit_alias(&alias?);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export?;
                    self.frames[depth].exports.push(export.name.name.to_owned());
                    let definition = self.definition(depth, export.kind, export.index);
                    self.add_index(export.kind, definition);
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    if let ComponentInstance::Instantiate {
                        component_index, ..
                    } = instance?
                    {
                        self.instantiate(ComponentExternalKind::Component, component_index);
                    }
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    if let Instance::Instantiate { module_index, .. } = instance? {
                        self.instantiate(ComponentExternalKind::Module, module_index);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Begins a module or component. Its definition is the last one: either the root, or the one that
    /// `define` added for the section of the enclosing component.
    fn begin(&mut self, encoding: Encoding) {
        self.frames.push(Frame {
            definition: self.definitions.len() - 1,
            is_component: encoding == Encoding::Component,
            imports: Vec::new(),
            exports: Vec::new(),
            components: Vec::new(),
            modules: Vec::new(),
            nested: 0,
        });
    }

    /// Adds the definition of an inner module or component, whose payloads follow.
    fn define(&mut self, kind: &str) -> usize {
        let location = match self.frames.last_mut() {
            Some(frame) => {
                frame.nested += 1;
                let outer = &self.definitions[frame.definition].location;
                let separator = if outer.is_empty() { "" } else { ", " };
                format!("{outer}{separator}inner {kind} {}", frame.nested)
            }
            None => String::new(),
        };
        self.definitions.push(Definition {
            location,
            ..Definition::default()
        });
        self.definitions.len() - 1
    }

    /// Adds an entry to the index space of a kind.
    fn add_index(&mut self, kind: ComponentExternalKind, definition: Option<usize>) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        match kind {
            ComponentExternalKind::Component => frame.components.push(definition),
            ComponentExternalKind::Module => frame.modules.push(definition),
            _ => {}
        }
    }

    fn visit_alias(&mut self, alias: &ComponentAlias<'_>) {
        match *alias {
            ComponentAlias::InstanceExport { kind, .. } => self.add_index(kind, None),
            ComponentAlias::Outer { kind, count, index } => {
                self.visit_outer_alias(kind, count, index);
            }
            ComponentAlias::CoreInstanceExport { .. } => {}
        }
    }

    fn visit_outer_alias(&mut self, kind: ComponentOuterAliasKind, count: u32, index: u32) {
        let kind = match kind {
            ComponentOuterAliasKind::Component => ComponentExternalKind::Component,
            ComponentOuterAliasKind::CoreModule => ComponentExternalKind::Module,
            _ => return,
        };
        let depth = (self.frames.len() - 1).checked_sub(count as usize);
        let definition = depth.and_then(|depth| self.definition(depth, kind, index));
        self.add_index(kind, definition);
    }

    /// The definition behind an index, if it is defined inside.
    fn definition(&self, depth: usize, kind: ComponentExternalKind, index: u32) -> Option<usize> {
        let frame = self.frames.get(depth)?;
        let indices = match kind {
            ComponentExternalKind::Component => &frame.components,
            ComponentExternalKind::Module => &frame.modules,
            _ => return None,
        };
        indices.get(index as usize).copied().flatten()
    }

    /// Marks a definition of the current frame as instantiated.
    fn instantiate(&mut self, kind: ComponentExternalKind, index: u32) {
        let depth = self.frames.len() - 1;
        if let Some(definition) = self.definition(depth, kind, index) {
            self.definitions[definition].is_instantiated = true;
        }
    }

    /// Ends a module or component, and resolves the imports of a component with its types.
    fn end(&mut self, types: TypesRef<'_>) {
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
                collect_callable(item, name, types, &mut callable);
            }
            if frame.definition == ROOT && callable.len() == before {
                self.structure.type_imports.push(name.clone());
            }
        }
        self.definitions[frame.definition].imports = callable;
        if frame.definition == ROOT {
            self.structure.exports = frame.exports;
        }
    }

    fn finish(self) -> Structure {
        let Self {
            mut structure,
            definitions,
            ..
        } = self;
        for (index, definition) in definitions.into_iter().enumerate() {
            let Definition {
                location,
                imports,
                is_instantiated,
            } = definition;
            if index == ROOT {
                structure.imports = imports;
            } else if !is_instantiated {
                let located = imports
                    .into_iter()
                    .map(|import| format!("{import} (in the {location})"));
                structure.imports.extend(located);
            }
        }
        structure
    }
}

/// Collects the paths of everything callable that an import leads to.
fn collect_callable(
    item: &ComponentItem,
    path: &str,
    types: TypesRef<'_>,
    found: &mut Vec<String>,
) {
    match &item.ty {
        ComponentEntityType::Instance(id) => {
            let instance = types.get(*id).into_iter();
            for (name, inner) in instance.flat_map(|instance| &instance.exports) {
                collect_callable(inner, &format!("{path}#{name}"), types, found);
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
