//! One pass over the binary format of a component, which validates it and collects its structure.
//!
//! A component of a few kilobytes can describe types whose expansion has billions of nodes. So the number
//! and depth of everything that is collected or visited is limited.

use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType, ComponentItem};
use wasmparser::types::TypesRef;
use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, Encoding,
    FuncValidatorAllocations, Instance, Parser, Payload, ValidPayload, Validator, WasmFeatures,
};

use super::{Names, ReadError, Structure};

type Result<T = ()> = std::result::Result<T, ReadError>;

/// The deepest nesting of modules and components in each other. Adapters in Rust have two levels.
const MAX_NESTING: usize = 16;
/// The most modules and components at any depth. Adapters in Rust have five.
const MAX_DEFINITIONS: usize = 1_000;
/// The deepest nesting of instance types in an import.
const MAX_TYPE_DEPTH: usize = 32;
/// The most items of instance types that are visited to find something callable.
const MAX_VISITED_ITEMS: usize = 100_000;
/// The most imports and exports of all components together.
const MAX_NAMES: usize = 10_000;

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
            ValidPayload::End(types) => walk.end(types.as_ref())?,
            ValidPayload::Ok | ValidPayload::Parser(_) => walk.visit(payload)?,
        }
    }
    Ok(walk.finish())
}

struct Walk<'a> {
    structure: Structure,
    definitions: Vec<Definition>,
    /// The modules and components that enclose the current payload, outermost first.
    frames: Vec<Frame<'a>>,
    /// The imports and exports so far.
    names: usize,
    /// The items of instance types that may still be visited.
    items_left: usize,
}

/// A module or component at any depth.
#[derive(Default)]
struct Definition {
    location: String,
    imports: Names,
    is_instantiated: bool,
}

/// A module or component that is being read.
struct Frame<'a> {
    definition: usize,
    is_component: bool,
    /// Names of the imports of a component.
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
    /// The component index space: the definition of each index, if it is defined inside.
    components: Vec<Option<usize>>,
    /// The module index space.
    modules: Vec<Option<usize>>,
    /// Number of inner modules and components so far.
    nested: usize,
}

impl<'a> Walk<'a> {
    fn new() -> Self {
        let root = Definition {
            is_instantiated: true,
            ..Definition::default()
        };
        Self {
            structure: Structure::default(),
            definitions: vec![root],
            frames: Vec::new(),
            names: 0,
            items_left: MAX_VISITED_ITEMS,
        }
    }

    fn visit(&mut self, payload: Payload<'a>) -> Result {
        if let Payload::Version { encoding, .. } = payload {
            self.begin(encoding);
            return Ok(());
        }
        let Some(depth) = self.frames.len().checked_sub(1) else {
            return Ok(());
        };
        match payload {
            Payload::ModuleSection { .. } => {
                let definition = self.define("module")?;
                self.frames[depth].modules.push(Some(definition));
            }
            Payload::ComponentSection { .. } => {
                let definition = self.define("component")?;
                self.frames[depth].components.push(Some(definition));
            }
            Payload::ImportSection(section) => {
                let definition = self.frames[depth].definition;
                for import in section.into_imports() {
                    let import = import?;
                    self.count_name()?;
                    let imports = &mut self.definitions[definition].imports;
                    imports.push_with(|| format!("{:?} {:?}", import.module, import.name));
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    self.count_name()?;
                    self.frames[depth].imports.push(import.name.name);
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
                    self.count_name()?;
                    self.frames[depth].exports.push(export.name.name);
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

    fn count_name(&mut self) -> Result {
        self.names += 1;
        match self.names > MAX_NAMES {
            true => Err(ReadError::TooComplex("imports and exports", MAX_NAMES)),
            false => Ok(()),
        }
    }

    /// Adds the definition of an inner module or component, whose payloads follow.
    fn define(&mut self, kind: &str) -> Result<usize> {
        if self.frames.len() > MAX_NESTING {
            return Err(ReadError::TooComplex(
                "levels of nested components",
                MAX_NESTING,
            ));
        }
        if self.definitions.len() > MAX_DEFINITIONS {
            return Err(ReadError::TooComplex(
                "modules and components",
                MAX_DEFINITIONS,
            ));
        }
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
        Ok(self.definitions.len() - 1)
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
    fn end(&mut self, types: TypesRef<'_>) -> Result {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        if !frame.is_component {
            return Ok(());
        }
        let mut search = Search {
            types,
            found: Names::default(),
            items_left: self.items_left,
        };
        for name in &frame.imports {
            let before = search.found.total();
            if let Some(item) = types.component_item_for_import(name) {
                search.visit(item, name, MAX_TYPE_DEPTH)?;
            }
            if frame.definition == ROOT && search.found.total() == before {
                self.structure.type_imports.push(name);
            }
        }
        self.items_left = search.items_left;
        self.definitions[frame.definition].imports = search.found;
        if frame.definition == ROOT {
            for name in frame.exports {
                self.structure.exports.push(name);
            }
        }
        Ok(())
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
                for import in imports.into_listed() {
                    structure
                        .imports
                        .push_with(|| format!("{import} (in the {location})"));
                }
            }
        }
        structure
    }
}

/// The search for everything callable that an import leads to.
struct Search<'t> {
    types: TypesRef<'t>,
    /// Paths of what was found.
    found: Names,
    items_left: usize,
}

impl Search<'_> {
    fn visit(&mut self, item: &ComponentItem, path: &str, depth_left: usize) -> Result {
        self.items_left = self
            .items_left
            .checked_sub(1)
            .ok_or(ReadError::TooComplex("imported items", MAX_VISITED_ITEMS))?;
        let found = match &item.ty {
            ComponentEntityType::Instance(id) => {
                let depth_left = depth_left
                    .checked_sub(1)
                    .ok_or(ReadError::TooComplex("levels of types", MAX_TYPE_DEPTH))?;
                let types = self.types;
                let instance = types.get(*id).into_iter();
                for (name, inner) in instance.flat_map(|instance| &instance.exports) {
                    let path = super::shortened(format!("{path}#{name}"));
                    self.visit(inner, &path, depth_left)?;
                }
                return Ok(());
            }
            ComponentEntityType::Type {
                created: ComponentAnyTypeId::Resource(_),
                ..
            } => " (resource)",
            ComponentEntityType::Type { .. } => return Ok(()),
            ComponentEntityType::Func(_) => "",
            ComponentEntityType::Module(_) => " (module)",
            ComponentEntityType::Component(_) => " (component)",
            ComponentEntityType::Value(_) => " (value)",
        };
        self.found.push_with(|| format!("{path}{found}"));
        Ok(())
    }
}
