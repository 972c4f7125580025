//! `llsd plugin new`: a plugin crate that builds, tests and passes conformance from the first minute.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::{Verdict, talk};

/// What to start.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the plugin; also the folder that is made
    name: String,
    /// The SDK to depend on, as a path; by default the published crate of this version
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

const TEMPLATE: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.txt")),
    ("README.md", include_str!("../template/README.md.txt")),
    ("src/lib.rs", include_str!("../template/lib.rs.txt")),
    (".gitignore", "/target\n"),
];

/// Writes the template; never over something that exists.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let Arguments { name, sdk } = arguments;
    let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !valid {
        bail!(
            "{name:?} is no name for a plugin; use lower-case letters, digits and hyphens, a letter first"
        );
    }
    let folder = PathBuf::from(name);
    if folder.exists() {
        bail!("{name} exists already; choose another name or remove it");
    }
    let sdk = match sdk {
        Some(path) => {
            let path = path
                .canonicalize()
                .with_context(|| format!("no SDK at {}", path.display()))?;
            format!("path = {:?}", path.display().to_string())
        }
        None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
    };
    for (file, text) in TEMPLATE {
        let path = folder.join(file);
        let parent = path
            .parent()
            .context("a template file stands in a folder")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("could not make {}", parent.display()))?;
        let text = text.replace("{{name}}", name).replace("{{sdk}}", &sdk);
        std::fs::write(&path, text)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    talk::remark(&format!(
        "made {name}; next: cd {name} && cargo test && llsd plugin build && llsd plugin test target/{name}.wasm"
    ));
    Ok(Verdict::Done)
}
