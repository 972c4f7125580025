//! Validates generated configurations with the real server packages.
//!
//! `cargo xtask test` installs the packages and sets `LLSD_ORACLE` (the cache folder with `venvs` and
//! `bases`), `LLSD_PYTHON`, `LLSD_BIN` and `LLSD_PLUGINS`.

mod collector;
mod mongodb;
pub mod postgres;
mod server;
mod validation;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail};
use llsd_api::server_variables::{Form, readings};
use llsd_render::yaml;
use serde_json::{Value, json};

pub use collector::Collector;
pub use mongodb::MongoDb;
pub use postgres::Postgres;
pub use server::{
    FakeIdentity, FakeMcp, FakeVllm, RunningServer, expect_error, free_port, get, probe,
};
pub use validation::{Finding, ValidationReport, expect_accepted, validate};

/// A release of the server and its dialect.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// The name that the oracle uses: `0.7.3`, `ogx-1.5.0`.
    pub name: &'static str,
    /// The schema id of its dialect.
    pub schema: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/releases.rs"));

impl Release {
    /// The version of the package: `1.5.0` of `ogx-1.5.0`.
    pub fn version(&self) -> &'static str {
        self.name.trim_start_matches("ogx-")
    }

    /// Every configuration that the release ships, sorted.
    pub fn shipped(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let folder = oracle()?.join("bases").join(self.name);
        for distribution in std::fs::read_dir(&folder)
            .with_context(|| format!("failed to read {}", folder.display()))?
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
        found.with_context(|| format!("release {} has no starter configuration", self.name))
    }

    /// The starter configuration with only the inference API and no providers. The server imports the
    /// packages of every configured provider, and most are not installed.
    pub fn inference_base(&self) -> anyhow::Result<String> {
        self.base_with(&["inference"])
    }

    /// The starter configuration with only these APIs and no providers.
    pub fn base_with(&self, apis: &[&str]) -> anyhow::Result<String> {
        let base = yaml::read(&std::fs::read_to_string(self.starter()?)?)?;
        Ok(yaml::write(&reduced(base, apis)?))
    }
}

/// A base configuration with only these APIs, and no providers and registrations.
pub fn reduced(mut base: Value, apis: &[&str]) -> anyhow::Result<Value> {
    base["apis"] = json!(apis);
    base["providers"] = json!({"inference": []});
    let object = base
        .as_object_mut()
        .context("the base configuration is not a mapping")?;
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
    Ok(base)
}

/// A generated configuration.
pub struct GeneratedConfig {
    /// The report of `llsd render`.
    pub report: Value,
    /// The file for the server.
    pub file: PathBuf,
}

impl Release {
    /// Generates the configuration of a resource on a base, both given as text, in the dialect of this
    /// release, and writes everything to a folder. The inner error is stderr if the resource is rejected.
    pub fn generate(
        &self,
        folder: &Path,
        resource: &str,
        base: &str,
    ) -> anyhow::Result<Result<GeneratedConfig, String>> {
        let [resource_file, base_file, file] =
            ["resource.yaml", "base.yaml", "config.yaml"].map(|name| folder.join(name));
        std::fs::write(&resource_file, resource)?;
        std::fs::write(&base_file, base)?;
        let options = ["--schema", self.schema, "--server-version", self.version()];
        let report = match render(&resource_file, &base_file, &options)? {
            Ok(report) => report,
            Err(stderr) => return Ok(Err(stderr)),
        };
        std::fs::write(&file, yaml::write(&report["config"]))?;
        Ok(Ok(GeneratedConfig { report, file }))
    }
}

/// The samples for which a configuration is generated.
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

/// A copy of a resource that sets every variable which a base configuration reads without a default.
/// Without them the resource is rejected, because the server would not start.
pub fn with_needed_variables(resource: &Path, base: &Path) -> anyhow::Result<String> {
    let mut resource = yaml::read(&std::fs::read_to_string(resource)?)?;
    let base = yaml::read(&std::fs::read_to_string(base)?)?;
    let names: BTreeSet<&str> = readings(&base)
        .into_iter()
        .filter(|reading| reading.form == Form::Bare)
        .map(|reading| reading.name)
        .collect();
    if !names.is_empty() {
        let env = names
            .into_iter()
            .map(|name| json!({"name": name, "value": "set"}));
        resource["spec"]["workload"]["overrides"]["env"] = env.collect();
    }
    Ok(yaml::write(&resource))
}

/// Whether a file of a folder contains a text.
pub fn stores(folder: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut contents = files.filter_map(|file| std::fs::read(file.path()).ok());
    contents.any(|content| {
        content
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

/// The variable that lets a server find packages that images have and its release does not declare.
pub fn image_packages() -> anyhow::Result<(String, String)> {
    let folder = oracle()?.join("venvs/image-extras");
    let folder = folder.to_str().context("the path is not UTF-8")?;
    Ok(("PYTHONPATH".to_owned(), folder.to_owned()))
}

/// The root folder of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `llsd render --output json`. The inner result is the report, or stderr if the resource is
/// rejected.
pub fn render(
    resource: &Path,
    base: &Path,
    options: &[&str],
) -> anyhow::Result<Result<Value, String>> {
    let output: Output = Command::new(variable("LLSD_BIN")?)
        .args(["render", "--output", "json"])
        .arg("-f")
        .arg(resource)
        .arg("--base-config")
        .arg(base)
        .args(options)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(Ok(serde_json::from_slice(&output.stdout)?)),
        Some(1) => Ok(Err(stderr)),
        _ => bail!("failed to run llsd render: {stderr}"),
    }
}

/// Runs `llsd upgrade plan --output json`.
pub fn upgrade_plan(path: &Path, to: &str, options: &[&str]) -> anyhow::Result<Value> {
    let output = Command::new(variable("LLSD_BIN")?)
        .args(["upgrade", "plan", "--output", "json", "--to", to, "-f"])
        .arg(path)
        .args(options)
        .output()?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub(crate) fn oracle() -> anyhow::Result<PathBuf> {
    Ok(variable("LLSD_ORACLE")?.into())
}

pub(crate) fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name)
        .with_context(|| format!("{name} is not set; run the tests with `cargo xtask test`"))
}
