//! `llsd plugin inspect`: shows what a component is, also if it violates a load rule.

use std::path::Path;

use llsd_adapter_sdk::documents::Description;
use llsd_api::escape_line;
use llsd_plugin::{Form, Inspection, Origin};
use llsd_render::adapter::Adapter;
use serde_json::json;

use super::artifact;
use crate::network::registry::{Client, RegistryOptions, SignatureOptions};
use crate::{Exit, files, output, plugin_loader};

/// Arguments of `plugin inspect`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Component: a file, or the reference of a published plugin
    #[arg(value_name = "FILE or REF")]
    component: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: plugin_loader::LimitOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Rejects if the component violates a load rule.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let bytes = read(arguments)?;
    let host = arguments.limits.host()?;
    let inspection = host.inspect(&bytes);
    let (description, problems) = match host.load(&bytes, Origin::External) {
        Ok(plugin) => (Some(plugin.description().clone()), Vec::new()),
        Err(error) => (None, problems(&inspection, &error)),
    };
    if arguments.json {
        output::print(&serde_json::to_string_pretty(&as_json(
            &inspection,
            description.as_ref(),
            &problems,
        ))?);
    } else {
        output::print(&as_text(&inspection, description.as_ref(), &problems));
    }
    Ok(if problems.is_empty() {
        Exit::Success
    } else {
        Exit::Rejected
    })
}

/// Reads the component. A name that ends in `.wasm` is a file even if it does not exist, so that the
/// error is about the file and not about a reference.
fn read(arguments: &Arguments) -> anyhow::Result<Vec<u8>> {
    let path = Path::new(&arguments.component);
    if path.exists()
        || path
            .extension()
            .is_some_and(|extension| extension == "wasm")
    {
        return files::bytes(path);
    }
    let reference = arguments.component.parse()?;
    let client = Client::new(&arguments.registries, &reference)?;
    Ok(artifact::pull(
        &client,
        &reference,
        &SignatureOptions::none(),
        &arguments.limits.read()?,
    )?
    .bytes)
}

/// The load rules that the component violates or, if there are none, the error of loading it.
fn problems(inspection: &Inspection, error: &llsd_plugin::LoadError) -> Vec<String> {
    if inspection.problems.is_empty() {
        return vec![llsd_registry::chain(error)];
    }
    inspection
        .problems
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn form(inspection: &Inspection) -> &'static str {
    match inspection.form {
        Form::Component => "component",
        Form::CoreModule => "core module",
        Form::Precompiled => "precompiled machine code",
        Form::Other => "not WebAssembly",
    }
}

fn as_json(
    inspection: &Inspection,
    description: Option<&Description>,
    problems: &[String],
) -> serde_json::Value {
    json!({
        "form": form(inspection),
        "digest": inspection.digest,
        "size": inspection.size,
        "world": inspection.world.map(llsd_plugin::World::name),
        "contract": inspection.contract,
        "imports": inspection.imports,
        "exports": inspection.exports,
        "description": description,
        "problems": problems,
    })
}

fn as_text(
    inspection: &Inspection,
    description: Option<&Description>,
    problems: &[String],
) -> String {
    let mut lines = vec![
        format!("form      {}", form(inspection)),
        format!("digest    {}", inspection.digest),
        format!(
            "size      {} bytes ({} KiB)",
            inspection.size,
            inspection.size.div_ceil(1024)
        ),
        format!(
            "world     {}",
            inspection.world.map_or("none", llsd_plugin::World::name)
        ),
        format!(
            "contract  {}",
            inspection.contract.as_deref().unwrap_or("none")
        ),
        format!(
            "imports   {}",
            if inspection.imports.is_empty() {
                "none".to_owned()
            } else {
                inspection.imports.join(", ")
            }
        ),
    ];
    if let Some(Description {
        name,
        version,
        vendor,
        schemas,
        providers,
        capabilities,
        ..
    }) = description
    {
        lines.push(format!("plugin    {name} {version}, by {vendor}"));
        if !capabilities.is_empty() {
            lines.push(format!("supports  {}", capabilities.join(", ")));
        }
        for schema in schemas {
            let before = schema
                .before
                .as_ref()
                .map_or_else(String::new, |before| format!(", before {before}"));
            let known: usize = providers
                .get(&schema.id)
                .map_or(0, |apis| apis.values().map(Vec::len).sum());
            lines.push(format!(
                "schema    {} ({} from {}{before}), {known} provider types",
                schema.id, schema.product, schema.from
            ));
        }
    }
    lines.extend(
        problems
            .iter()
            .map(|problem| format!("rejected  {problem}")),
    );
    let lines: Vec<_> = lines.iter().map(|line| escape_line(line)).collect();
    lines.join("\n")
}
