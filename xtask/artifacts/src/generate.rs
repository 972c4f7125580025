//! `cargo xtask generate`: writes the committed files that are generated from code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use xtask::shell;

use crate::image::REPOSITORY;
use crate::{bindings, chart, olm};

/// Writes every generated file, with the `llsd` of the last build. With `check`, writes nothing and
/// fails if a file is out of date.
pub fn run(check: bool) -> anyhow::Result<()> {
    let mut stale = Vec::new();
    for (file, content) in files()? {
        let path = shell::root().join(&file);
        if std::fs::read_to_string(&path).is_ok_and(|current| current == content) {
            continue;
        }
        if check {
            stale.push(file.display().to_string());
        } else {
            std::fs::create_dir_all(
                path.parent()
                    .context("a generated file has no parent directory")?,
            )?;
            std::fs::write(&path, content)?;
            eprintln!("    wrote {}", file.display());
        }
    }
    if !stale.is_empty() {
        bail!(
            "out of date: {}; run `cargo xtask generate` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
}

/// Path in the checkout and content of each file.
fn files() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let output = Command::new(shell::target().join("debug/llsd"))
        .args(["crd", "--repository"])
        .output()?;
    if !output.status.success() {
        bail!(
            "llsd crd --repository failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let mut files: BTreeMap<PathBuf, String> = serde_json::from_slice(&output.stdout)?;
    files.extend(chart::copies(&files)?);
    let image = format!("{REPOSITORY}:{}", env!("CARGO_PKG_VERSION"));
    let bundle = olm::files(&image, &files)?.into_iter();
    files.extend(bundle.map(|(path, content)| (Path::new(olm::FOLDER).join(path), content)));
    let wit = std::fs::read_to_string(shell::root().join("wit/v1.0.0/adapter.wit"))?;
    files.extend(bindings::files(&wit)?);
    Ok(files)
}
