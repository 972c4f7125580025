//! `llsd plugin new`: creates a plugin crate that builds and passes the conformance suite.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::{Exit, output};

/// Arguments of `plugin new`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the plugin and of the new directory
    name: String,
    /// Directory of the SDK to depend on; by default the published crate of this version
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

const TEMPLATE: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.txt")),
    ("README.md", include_str!("../template/README.md.txt")),
    ("src/lib.rs", include_str!("../template/lib.rs.txt")),
    (".gitignore", "/target\n"),
];

/// Writes the template. Fails if the directory exists.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { name, sdk } = arguments;
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
    let sdk = match sdk {
        Some(path) => {
            let path = path
                .canonicalize()
                .with_context(|| format!("SDK directory {} not found", path.display()))?;
            format!("path = {:?}", path.display().to_string())
        }
        None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
    };
    for (file, text) in TEMPLATE {
        let path = folder.join(file);
        let parent = path
            .parent()
            .context("a template file has no parent directory")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("failed to create {}", parent.display()))?;
        let text = text.replace("{{name}}", name).replace("{{sdk}}", &sdk);
        std::fs::write(&path, text)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    output::print_progress(&format!(
        "created {name}; next: cd {name} && cargo test && llsd plugin build && llsd plugin test target/{name}.wasm"
    ));
    Ok(Exit::Success)
}
