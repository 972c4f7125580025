//! `cargo xtask generate`: files that are committed and made from code.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use crate::shell;

/// Rewrites every generated file, or fails when one differs from what would be written.
pub fn run(check: bool) -> anyhow::Result<()> {
    shell::step("build llsd", &mut shell::cargo(&["build", "--package", "llsd"]))?;
    let mut stale = Vec::new();
    for (file, content) in files()? {
        let path = shell::root().join(&file);
        if std::fs::read_to_string(&path).is_ok_and(|current| current == content) {
            continue;
        }
        if check {
            stale.push(file.display().to_string());
        } else {
            std::fs::create_dir_all(path.parent().context("a file stands in a folder")?)?;
            std::fs::write(&path, content)?;
            eprintln!("    wrote {}", file.display());
        }
    }
    if !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask generate` and commit the result", stale.join(", "));
    }
    Ok(())
}

/// Path in the checkout and content of each.
fn files() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut files = vec![
        ("deploy/kustomize/crd/llamastackdistributions.yaml".into(), llsd(&["crd", "llamastackdistributions"])?),
        ("deploy/kustomize/crd/schemaplugins.yaml".into(), llsd(&["crd", "schemaplugins"])?),
    ];
    let schemas: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&llsd(&["plugin", "schemas"])?)?;
    for (shape, schema) in schemas {
        let name = format!("wit/v1.0.0/schemas/{}.json", shape.replace('/', "."));
        files.push((name.into(), serde_json::to_string_pretty(&schema)? + "\n"));
    }
    Ok(files)
}

fn llsd(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(shell::target().join("debug/llsd")).args(arguments).output()?;
    if !output.status.success() {
        bail!("llsd {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
