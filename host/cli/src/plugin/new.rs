//! `llsd plugin new` and `llsd plugin sdk`: write a plugin that builds without a checkout of llsd.
//!
//! The files are part of the binary: a working example, the SDK, the contract with its JSON Schemas, and
//! a CI workflow. All paths are relative to the new directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::embedded;
use crate::{Exit, files, output};

/// Arguments of `plugin new`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the plugin and of the new directory
    name: String,
    /// What to write: an adapter for a whole dialect, or a pack of provider types
    #[arg(long, value_enum, default_value_t = Kind::Adapter)]
    kind: Kind,
    /// Programming language
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    lang: Language,
}

/// Arguments of `plugin sdk`.
#[derive(clap::Args)]
pub(crate) struct SdkArguments {
    /// Directory of the plugin
    #[arg(default_value = ".")]
    folder: PathBuf,
}

/// The two worlds of the contract.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Schema adapter: generates complete configurations
    Adapter,
    /// Provider pack: adds provider types to the dialects of other plugins
    Pack,
}

/// The languages with a template.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    /// Rust, with the SDK as a crate in `sdk/`
    Rust,
    /// JavaScript, with the QuickJS engine in the component
    Js,
    /// C, without a C library
    C,
}

/// The name that the embedded examples use.
const EXAMPLE: &str = "acme";

const RUST: [(&str, &str); 3] = [
    (
        "Cargo.toml",
        include_str!("../template/rust/Cargo.toml.txt"),
    ),
    ("README.md", include_str!("../template/rust/README.md.txt")),
    (".gitignore", "/target\n"),
];

const WORKFLOW: &str = ".github/workflows/plugin.yml";

/// Writes the template. Fails if the directory exists.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { name, kind, lang } = arguments;
    let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !valid {
        bail!(
            "{name:?} is not a valid plugin name; use lower-case letters, digits and hyphens, starting with a letter"
        );
    }
    let folder = PathBuf::from(name);
    if folder.exists() {
        bail!("{name} already exists; choose another name or delete it");
    }
    for (path, text) in files(name, *kind, *lang)? {
        write(&folder.join(path), &text)?;
    }
    let first = match lang {
        Language::Rust => "cargo test && ",
        Language::Js => "npm install && npm test && ",
        Language::C => "",
    };
    output::print_note(&format!(
        "created {name}; next: cd {name} && {first}llsd plugin build && llsd plugin test target/{name}.wasm --fixtures tests/golden"
    ));
    Ok(Exit::Success)
}

/// Replaces the SDK and the contract of a plugin by those of this version.
pub(crate) fn update_sdk(SdkArguments { folder }: &SdkArguments) -> anyhow::Result<Exit> {
    let lang = super::build::language(folder)?;
    for (path, text) in sdk(lang) {
        write(&folder.join(path), &text)?;
    }
    output::print_note(&format!(
        "{} has the SDK of llsd {}",
        folder.display(),
        env!("CARGO_PKG_VERSION")
    ));
    Ok(Exit::Success)
}

/// Path and text of every file of a new plugin.
fn files(name: &str, kind: Kind, lang: Language) -> anyhow::Result<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = Vec::new();
    let is_fixture = |path: &str| path.starts_with("tests/golden/");
    let fixtures = match kind {
        Kind::Adapter => embedded::JAVASCRIPT,
        Kind::Pack => embedded::JAVASCRIPT_PACK,
    };
    all.extend(
        fixtures
            .iter()
            .filter(|(path, _)| is_fixture(path))
            .map(|(path, text)| ((*path).to_owned(), renamed(text, name))),
    );
    let mut add = |path: &str, text: String| all.push((path.to_owned(), text));
    match (lang, kind) {
        (Language::Rust, _) => {
            for (path, text) in RUST {
                add(path, filled(text, name, kind));
            }
            let code = match kind {
                Kind::Adapter => include_str!("../template/rust/adapter.rs.txt"),
                Kind::Pack => include_str!("../template/rust/pack.rs.txt"),
            };
            add("src/lib.rs", filled(code, name, kind));
        }
        (Language::Js, Kind::Adapter) => {
            for (path, text) in embedded::JAVASCRIPT {
                if !is_fixture(path) && *path != "src/sdk.js" {
                    add(path, renamed(text, name));
                }
            }
        }
        (Language::Js, Kind::Pack) => {
            let adapter = [
                "src/adapter.js",
                "src/sdk.js",
                "tests/adapter.test.js",
                "README.md",
            ];
            for (path, text) in embedded::JAVASCRIPT {
                if !is_fixture(path) && !adapter.contains(path) {
                    add(path, renamed(text, name));
                }
            }
            for (path, text) in embedded::JAVASCRIPT_PACK {
                if !is_fixture(path) {
                    add(path, renamed(text, name));
                }
            }
        }
        (Language::C, Kind::Adapter) => {
            for (path, text) in embedded::C {
                if !path.starts_with("sdk/") {
                    add(path, renamed(text, name));
                }
            }
        }
        (Language::C, Kind::Pack) => bail!(
            "there is no template for a provider pack in C; use --lang rust or --lang js, or start from an adapter in C"
        ),
    }
    let workflow = match lang {
        Language::Rust => include_str!("../template/workflow/rust.yml.txt"),
        Language::Js => include_str!("../template/workflow/js.yml.txt"),
        Language::C => include_str!("../template/workflow/c.yml.txt"),
    };
    let steps = include_str!("../template/workflow/steps.yml.txt");
    add(
        WORKFLOW,
        filled(&workflow.replace("{{steps}}", steps), name, kind),
    );
    all.extend(sdk(lang));
    Ok(all)
}

/// The files that belong to llsd and not to the author.
fn sdk(lang: Language) -> Vec<(String, String)> {
    let below = |folder: &str, files: &[(&str, &str)]| {
        let place = |(path, text): &(&str, &str)| (format!("{folder}{path}"), (*text).to_owned());
        files.iter().map(place).collect::<Vec<_>>()
    };
    let mut files = below("wit/", embedded::WIT);
    match lang {
        Language::Rust => files.extend(below("sdk/", embedded::SDK)),
        Language::Js => {
            let mut sdk = embedded::JAVASCRIPT.to_vec();
            sdk.retain(|(path, _)| *path == "src/sdk.js");
            files.extend(below("", &sdk));
        }
        Language::C => {
            let mut sdk = embedded::C.to_vec();
            sdk.retain(|(path, _)| path.starts_with("sdk/"));
            files.extend(below("", &sdk));
        }
    }
    files
}

/// An example with the name of the new plugin. The example's Python module has underscores.
fn renamed(text: &str, name: &str) -> String {
    let module = name.replace('-', "_");
    text.replace(
        &format!("{EXAMPLE}_provider"),
        &format!("{module}_provider"),
    )
    .replace(EXAMPLE, name)
}

/// A template with its placeholders filled in.
fn filled(text: &str, name: &str, kind: Kind) -> String {
    let (world, words, steps) = match kind {
        Kind::Adapter => (
            "schema-adapter",
            "schema adapter",
            "1. `describe`: the schema id, and the providers that you know.\n\
             2. `detect`: how to recognize a configuration of your dialect.\n\
             3. `expand`: the configuration of one provider.\n\
             4. `assemble`: the complete configuration.",
        ),
        Kind::Pack => (
            "provider-pack",
            "provider pack",
            "1. `describe`: the provider types, and the schemas for which you know them.\n\
             2. `expand`: the configuration of one provider.",
        ),
    };
    text.replace("{{name}}", name)
        .replace("{{module}}", &name.replace('-', "_"))
        .replace("{{world}}", world)
        .replace("{{kind}}", words)
        .replace("{{steps}}", steps)
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let parent = path
        .parent()
        .context("a template file has no parent directory")?;
    std::fs::create_dir_all(parent)
        .with_context(|| format!("failed to create {}", parent.display()))?;
    files::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(String, String)> {
        let kinds = [Kind::Adapter, Kind::Pack];
        let languages = [Language::Rust, Language::Js, Language::C];
        let pairs = languages
            .iter()
            .flat_map(|lang| kinds.iter().map(move |kind| (*lang, *kind)));
        pairs
            .filter(|pair| *pair != (Language::C, Kind::Pack))
            .flat_map(|(lang, kind)| files("my-plugin", kind, lang).unwrap())
            .collect()
    }

    #[test]
    fn no_template_has_a_placeholder_or_a_path_of_this_machine() {
        let machine = env!("CARGO_MANIFEST_DIR");
        for (path, text) in all() {
            for placeholder in ["name", "module", "world", "kind", "steps", "version"] {
                let placeholder = format!("{{{{{placeholder}}}}}");
                assert!(!text.contains(&placeholder), "{path}: {placeholder}");
            }
            assert!(!text.contains(machine), "{path} names the checkout");
            assert!(
                !Path::new(&path).is_absolute() && !path.contains(".."),
                "{path}"
            );
        }
    }

    #[test]
    fn every_language_has_the_contract_fixtures_and_a_workflow() {
        for lang in [Language::Rust, Language::Js, Language::C] {
            let files = files("my-plugin", Kind::Adapter, lang).unwrap();
            for wanted in [
                "adapter.wit",
                "schemas/description.v1.json",
                "request.json",
                WORKFLOW,
                "README.md",
            ] {
                assert!(
                    files.iter().any(|(path, _)| path.ends_with(wanted)),
                    "{wanted}"
                );
            }
        }
    }

    #[test]
    fn the_embedded_sdk_is_a_package_of_its_own() {
        let manifest = embedded::SDK
            .iter()
            .find(|(path, _)| *path == "Cargo.toml")
            .unwrap()
            .1;
        assert!(
            manifest.contains(&format!("version = {:?}", env!("CARGO_PKG_VERSION"))),
            "{manifest}"
        );
        assert!(manifest.contains("serde = { version = "), "{manifest}");
        assert!(
            manifest.contains("schemars = { version = \"1\", optional = true }"),
            "{manifest}"
        );
    }
}
