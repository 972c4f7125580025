//! `llsd image inspect`: shows what the operator reads from an image.

use llsd_api::escape_line;
use llsd_registry::{BaseConfig, ImageReport, Platform, Reference, chain};
use serde_json::{Value, json};

use crate::Exit;
use crate::network::registry;
use crate::network::registry::{Client, RegistryOptions};
use crate::output::{self, OutputFormat};
use crate::progress::Progress;

/// Arguments of `image inspect`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Image reference
    image: Reference,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Human)]
    output: OutputFormat,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Rejects if the operator would not find a configuration in the image.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let image = &arguments.image;
    let client = Client::new(&arguments.registries, image)?;
    let progress = Progress::new(&format!("reading {image}"));
    let report = client.block_on(client.registry.inspect_image(image, &client.keyring))?;
    drop(progress);
    match arguments.output {
        OutputFormat::Human => output::print(&as_text(image, &report)),
        OutputFormat::Json => {
            output::print(&serde_json::to_string_pretty(&as_json(image, &report))?)
        }
    }
    match report.base {
        Ok(_) => Ok(Exit::Success),
        Err(error) => {
            let error = anyhow::Error::new(error);
            if registry::is_rejection(&error) {
                return Ok(Exit::Rejected);
            }
            Err(error)
        }
    }
}

fn as_json(image: &Reference, report: &ImageReport) -> Value {
    let ImageReport {
        image_digest,
        manifest_digest,
        platforms,
        base,
    } = report;
    let platform = |Platform { os, architecture }: &Platform| format!("{os}/{architecture}");
    let (config, problem) = match base {
        Ok(base) => (config_json(base), Value::Null),
        Err(error) => (
            Value::Null,
            json!({ "reason": error.reason(), "message": chain(error) }),
        ),
    };
    json!({
        "image": image.to_string(),
        "digest": image_digest.to_string(),
        "manifest": manifest_digest.to_string(),
        "platforms": platforms.iter().map(platform).collect::<Vec<_>>(),
        "config": config,
        "problem": problem,
    })
}

fn config_json(base: &BaseConfig) -> Value {
    let BaseConfig {
        yaml,
        config_digest,
        image_digest: _,
        manifest_digest: _,
        scheme,
        source,
        schema,
        config_version,
        server_version,
        server_version_source,
        plugin,
        user,
        variables,
        hints: _,
    } = base;
    json!({
        "scheme": scheme.as_str(),
        "source": source,
        "digest": config_digest.to_string(),
        "size": yaml.len(),
        "schema": schema,
        "version": config_version,
        "serverVersion": server_version,
        "serverVersionSource": server_version_source,
        "plugin": plugin,
        "user": user,
        "variables": variables,
    })
}

/// The release of the server, and where it comes from.
fn server(base: &BaseConfig) -> String {
    match (&base.server_version, &base.server_version_source) {
        (Some(version), Some(source)) => format!("{version} ({source})"),
        (Some(version), None) => version.clone(),
        (None, _) => "not stated".to_owned(),
    }
}

fn as_text(image: &Reference, report: &ImageReport) -> String {
    let mut lines = vec![
        format!("image     {image}"),
        format!("digest    {}", report.image_digest),
    ];
    if !report.platforms.is_empty() {
        let all = report.platforms.iter();
        let names = all.map(|Platform { os, architecture }| format!("{os}/{architecture}"));
        lines.push(format!(
            "platforms {}",
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    match &report.base {
        Ok(base) => {
            let or = |value: &Option<String>, absent: &str| {
                value.clone().unwrap_or_else(|| absent.to_owned())
            };
            lines.extend([
                format!("config    {}, {} bytes", base.source, base.yaml.len()),
                format!("scheme    {}", base.scheme.as_str()),
                format!("schema    {}", or(&base.schema, "not stated")),
                format!("server    {}", server(base)),
                format!("plugin    {}", or(&base.plugin, "none proposed")),
                format!("user      {}", or(&base.user, "root")),
            ]);
        }
        Err(error) => lines.push(format!("config    none: {}", chain(error))),
    }
    escaped_lines(&lines)
}

/// One line for each value, whatever the image says.
fn escaped_lines(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| escape_line(line)).collect();
    lines.join("\n")
}
