//! What can be said about bytes without running them.
//!
//! In: bytes, perhaps hostile. Out: what they are, what they import and export, and every load rule
//! that they break, in order. `llsd plugin inspect` prints it; loading starts with it.

use std::fmt;

use llsd_render::digest;
use wasmtime::Engine;

use crate::limits::Limits;
use crate::load::LoadError;
use crate::structure::{self, Structure};

/// The package of the contract, in the names of what a component exports.
const PACKAGE: &str = "llamastack:config-adapter/";

/// The major version that this host speaks. Minor versions only add to it.
const MAJOR: u64 = 1;

/// The versions of the contract that this host speaks, for messages.
pub const CONTRACT: &str = "1.x";

/// What a component serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Everything about one or more schemas.
    SchemaAdapter,
    /// The expansion of some provider types.
    ProviderPack,
}

impl World {
    /// Name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::SchemaAdapter => "schema-adapter",
            Self::ProviderPack => "provider-pack",
        }
    }

    /// Interfaces that hold its functions.
    fn interfaces(self) -> &'static [&'static str] {
        match self {
            Self::SchemaAdapter => &["identity", "detection", "expansion", "assembly"],
            Self::ProviderPack => &["identity", "expansion"],
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A component: what a plugin must be.
    Component,
    /// A core module, not wrapped as a component.
    CoreModule,
    /// Machine code made by some wasmtime.
    Precompiled,
    /// No WebAssembly.
    Other,
}

/// Bytes, looked at.
#[derive(Debug)]
pub struct Inspection {
    /// What they are.
    pub form: Form,
    /// How many.
    pub size: usize,
    /// `sha256:…` of them: the plugin's identity.
    pub digest: String,
    /// The world that the exports make up; the larger one where they make up both.
    pub world: Option<World>,
    /// Version of the contract that the exports name.
    pub contract: Option<String>,
    /// What is imported and could be called, at any depth. A plugin has none.
    pub imports: Vec<String>,
    /// Imports that only name types, which are harmless.
    pub type_imports: Vec<String>,
    /// What the component exports.
    pub exports: Vec<String>,
    /// Every load rule that the bytes break.
    pub problems: Vec<LoadError>,
}

/// Looks at bytes.
pub fn inspect(bytes: &[u8], limits: &Limits) -> Inspection {
    let mut inspection = Inspection {
        form: form(bytes),
        size: bytes.len(),
        digest: digest::of(bytes),
        world: None,
        contract: None,
        imports: Vec::new(),
        type_imports: Vec::new(),
        exports: Vec::new(),
        problems: Vec::new(),
    };
    if bytes.len() > limits.component_bytes {
        inspection.problems.push(LoadError::TooLarge {
            size: bytes.len(),
            granted: limits.component_bytes,
        });
        // Nothing beyond the size is looked at: validating costs time in proportion to it.
        return inspection;
    }
    match inspection.form {
        Form::Component => {}
        Form::CoreModule => inspection.problems.push(LoadError::CoreModule),
        Form::Precompiled => inspection.problems.push(LoadError::Precompiled),
        Form::Other => inspection.problems.push(LoadError::NotWasm),
    }
    if inspection.form != Form::Component {
        return inspection;
    }
    match structure::read(bytes) {
        Ok(structure) => inspection.take(structure),
        Err(error) => inspection.problems.push(error),
    }
    inspection
}

impl Inspection {
    fn take(&mut self, structure: Structure) {
        let Structure {
            imports,
            type_imports,
            exports,
            forbidden,
        } = structure;
        if let Some(feature) = forbidden {
            self.problems.push(LoadError::Feature(feature));
        }
        if !imports.is_empty() {
            self.problems.push(LoadError::Imports(imports.clone()));
        }
        let spoken = Spoken::of(&exports);
        self.world = spoken.world();
        self.contract = spoken.version;
        if self.world.is_none() {
            self.problems.push(match &self.contract {
                Some(found) if !is_supported(found) => LoadError::WrongContract {
                    found: found.clone(),
                },
                _ => LoadError::WrongWorld {
                    found: exports.clone(),
                },
            });
        }
        (self.imports, self.type_imports, self.exports) = (imports, type_imports, exports);
    }
}

/// The interfaces of our package that a component exports.
struct Spoken {
    version: Option<String>,
    interfaces: Vec<String>,
}

impl Spoken {
    /// Takes a supported version where there is one, so that a component may serve several.
    fn of(exports: &[String]) -> Self {
        let ours: Vec<(&str, &str)> = exports
            .iter()
            .filter_map(|name| name.strip_prefix(PACKAGE))
            .filter_map(|name| name.split_once('@'))
            .collect();
        let version = ours
            .iter()
            .map(|(_, version)| *version)
            .find(|version| is_supported(version))
            .or_else(|| ours.first().map(|(_, version)| *version));
        let interfaces = ours.iter().filter(|(_, version)| is_supported(version));
        Self {
            version: version.map(str::to_owned),
            interfaces: interfaces.map(|(name, _)| (*name).to_owned()).collect(),
        }
    }

    fn world(&self) -> Option<World> {
        let has = |world: &World| {
            world
                .interfaces()
                .iter()
                .all(|needed| self.interfaces.iter().any(|name| name == needed))
        };
        [World::SchemaAdapter, World::ProviderPack]
            .into_iter()
            .find(has)
    }
}

fn is_supported(version: &str) -> bool {
    let mut parts = version.split('.');
    let major = parts.next().and_then(|part| part.parse().ok());
    // A pre-release (`1.0.0-rc.1`) matches nothing, as in the engine.
    major == Some(MAJOR) && parts.count() == 2 && !version.contains('-')
}

fn form(bytes: &[u8]) -> Form {
    if Engine::detect_precompiled(bytes).is_some() {
        Form::Precompiled
    } else if wasmparser::Parser::is_component(bytes) {
        Form::Component
    } else if wasmparser::Parser::is_core_wasm(bytes) {
        Form::CoreModule
    } else {
        Form::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exports(names: &[&str]) -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{PACKAGE}{name}"))
            .collect()
    }

    #[test]
    fn minor_versions_of_the_contract_are_supported_and_others_are_not() {
        for version in ["1.0.0", "1.7.3"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["0.9.0", "2.0.0", "1.0.0-rc.1", "1", "x"] {
            assert!(!is_supported(version), "{version}");
        }
    }

    #[test]
    fn exports_may_hold_more_than_a_world() {
        let mut names = exports(&["types@1.0.0", "identity@1.0.0", "expansion@1.0.0"]);
        names.push("init".into());
        assert_eq!(Spoken::of(&names).world(), Some(World::ProviderPack));
        names.extend(exports(&["detection@1.1.0", "assembly@1.1.0"]));
        assert_eq!(Spoken::of(&names).world(), Some(World::SchemaAdapter));
    }

    #[test]
    fn another_major_version_is_no_world_of_ours() {
        let spoken = Spoken::of(&exports(&["identity@2.0.0", "expansion@2.0.0"]));
        assert_eq!(
            (spoken.world(), spoken.version.as_deref()),
            (None, Some("2.0.0"))
        );
    }
}
