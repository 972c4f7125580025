//! Real server packages as judges: what `llsd` generates is given to the release it is meant for.
//!
//! The environments come from `cargo xtask test`, which says where they are in `LLSD_ORACLE` (the
//! cache folder with `venvs` and `bases`), `LLSD_PYTHON`, `LLSD_BIN` and `LLSD_PLUGINS`.

mod judge;
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail};
use llsd_render::yaml;
use serde_json::{Value, json};

pub use judge::{Finding, Verdict, judge};
pub use server::{FakeVllm, probe};

/// A release of the server, its dialect, and whether its adapter is inside the binary.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// As the oracle names it: `0.7.3`, `ogx-1.5.0`.
    pub name: &'static str,
    /// The schema id of its dialect.
    pub schema: &'static str,
}

/// Every release that is installed.
pub const RELEASES: [Release; 8] = [
    Release {
        name: "0.2.12",
        schema: "llama-stack/0.1.3",
    },
    Release {
        name: "0.2.24",
        schema: "llama-stack/0.2.13",
    },
    Release {
        name: "0.3.5",
        schema: "llama-stack/0.3",
    },
    Release {
        name: "0.4.7",
        schema: "llama-stack/0.4",
    },
    Release {
        name: "0.5.4",
        schema: "llama-stack/0.5",
    },
    Release {
        name: "0.6.1",
        schema: "llama-stack/0.5",
    },
    Release {
        name: "0.7.3",
        schema: "llama-stack/0.7",
    },
    Release {
        name: "ogx-1.5.0",
        schema: "ogx/1.0",
    },
];

impl Release {
    /// The version of the package: `1.5.0` of `ogx-1.5.0`.
    pub fn version(&self) -> &'static str {
        self.name.trim_start_matches("ogx-")
    }

    /// Every configuration that the release ships, sorted.
    pub fn shipped(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let folder = oracle()?.join("bases").join(self.name);
        for distribution in
            std::fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?
        {
            for file in std::fs::read_dir(distribution?.path())? {
                files.push(file?.path());
            }
        }
        files.sort();
        Ok(files)
    }

    /// The configuration of the distribution `starter`.
    pub fn starter(&self) -> anyhow::Result<PathBuf> {
        let folder = oracle()?.join("bases").join(self.name).join("starter");
        let found = ["config.yaml", "run.yaml"]
            .map(|name| folder.join(name))
            .into_iter()
            .find(|path| path.exists());
        found.with_context(|| format!("{} ships no starter", self.name))
    }

    /// The starter, reduced to the inference API and its stores, without a provider: the server
    /// imports what its providers need, and the packages of all others are not installed.
    pub fn inference_base(&self) -> anyhow::Result<String> {
        let text = std::fs::read_to_string(self.starter()?)?;
        let mut base = yaml::read(&text)?;
        base["apis"] = json!(["inference"]);
        base["providers"] = json!({"inference": []});
        let object = base.as_object_mut().context("a base is a mapping")?;
        for key in [
            "vector_stores",
            "safety",
            "shields",
            "tool_groups",
            "models",
            "vector_dbs",
            "datasets",
            "scoring_fns",
            "benchmarks",
        ] {
            object.shift_remove(key);
        }
        if let Some(resources) = object.get_mut("registered_resources") {
            *resources = json!({});
        }
        Ok(yaml::write(&base))
    }
}

/// The samples that generate a configuration: everything but what brings its own or none.
pub fn samples() -> anyhow::Result<Vec<PathBuf>> {
    let folder = root().join("samples");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    files.retain(|path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.ends_with(".yaml") && !["default.yaml", "override.yaml"].contains(&name)
    });
    files.sort();
    Ok(files)
}

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `llsd render --output json` says, or its refusal.
pub fn render(
    resource: &Path,
    base: &Path,
    options: &[&str],
) -> anyhow::Result<Result<Value, String>> {
    let plugins = PathBuf::from(variable("LLSD_PLUGINS")?);
    let output: Output = Command::new(variable("LLSD_BIN")?)
        .args(["render", "--output", "json", "--plugin"])
        .arg(plugins.join("ogx.wasm"))
        .arg("-f")
        .arg(resource)
        .arg("--base-config")
        .arg(base)
        .args(options)
        .output()?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(Ok(serde_json::from_slice(&output.stdout)?)),
        Some(1) => Ok(Err(talk)),
        _ => bail!("llsd render could not run: {talk}"),
    }
}

pub(crate) fn oracle() -> anyhow::Result<PathBuf> {
    Ok(variable("LLSD_ORACLE")?.into())
}

pub(crate) fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name)
        .with_context(|| format!("{name} is not set: run the tests through `cargo xtask test`"))
}
