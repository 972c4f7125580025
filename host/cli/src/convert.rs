//! `llsd convert`: converts resources to another API version, or from and to the resource of
//! ogx-k8s-operator, without a cluster.

use std::path::PathBuf;

use llsd_api::KIND;
use llsd_api::conversion::{
    Foreign, Lifted, OGX_KIND, Version, convert, from_ogx_server, lift_env, to_ogx_server,
};
use llsd_render::yaml;
use serde_json::Value;

use crate::generation::LoadedBase;
use crate::operator_config_map::SettingsOptions;
use crate::{Exit, files, output};

/// Arguments of `convert`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File with resources, or `-` for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// API version to convert to, or ogxserver for the resource of ogx-k8s-operator
    #[arg(long, value_enum, default_value_t = Target::V1alpha2)]
    to: Target,
    /// Also replace well-known environment variables (VLLM_URL, INFERENCE_MODEL, API keys) with
    /// providers and models
    #[arg(long)]
    lift_env: bool,
    /// For --lift-env: file with the base configuration, which may read the variables; by default
    /// the one of the named distribution
    #[arg(long, value_name = "FILE", requires = "lift_env")]
    base_config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsOptions,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Target {
    V1alpha1,
    V1alpha2,
    Ogxserver,
}

/// Prints the converted resources as YAML.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        !arguments.lift_env || arguments.to == Target::V1alpha2,
        "--lift-env writes fields that only v1alpha2 has; remove --to"
    );
    let mut texts = Vec::new();
    for document in files::resources(&arguments.file, &[KIND, OGX_KIND])? {
        let mut converted = converted(document, arguments)?;
        if arguments.lift_env {
            let base = base(arguments, &converted)?;
            let Lifted {
                document, warnings, ..
            } = lift_env(converted, base.as_ref());
            if !warnings.is_empty() {
                output::print_diagnostics(&arguments.file.display().to_string(), &warnings);
            }
            converted = document;
        }
        texts.push(serde_saphyr::to_string(&converted)?);
    }
    output::print(&texts.join("---\n"));
    Ok(Exit::Success)
}

/// Converts one resource, and prints what the other side cannot say.
fn converted(document: Value, arguments: &Arguments) -> anyhow::Result<Value> {
    let subject = format!(
        "{} ({})",
        arguments.file.display(),
        document["metadata"]["name"].as_str().unwrap_or("(unnamed)")
    );
    let report = |Foreign { document, warnings }: Foreign| {
        if !warnings.is_empty() {
            output::print_diagnostics(&subject, &warnings);
        }
        document
    };
    let is_ogx = document["kind"] == OGX_KIND;
    if is_ogx && arguments.to == Target::Ogxserver {
        return Ok(document);
    }
    let ours = if is_ogx {
        report(from_ogx_server(document)?)
    } else {
        document
    };
    Ok(match arguments.to {
        Target::V1alpha1 => convert(ours, Version::V1Alpha1)?,
        Target::V1alpha2 => convert(ours, Version::V1Alpha2)?,
        Target::Ogxserver => report(to_ogx_server(convert(ours, Version::V1Alpha2)?)?),
    })
}

/// The base configuration of a v1alpha2 resource: of `--base-config`, or of the named distribution.
/// `None` if it is not known.
fn base(arguments: &Arguments, resource: &Value) -> anyhow::Result<Option<Value>> {
    if let Some(file) = &arguments.base_config {
        return Ok(Some(LoadedBase::from_file(file)?.config));
    }
    let distribution = &resource["spec"]["distribution"];
    let Some(name) = distribution["name"].as_str() else {
        return Ok(None);
    };
    if distribution.get("baseConfig").is_some() {
        return Ok(None);
    }
    let known = arguments.settings.distributions()?.remove(name);
    let text = known.and_then(Result::ok).and_then(|known| known.base);
    Ok(text.as_deref().map(yaml::read).transpose()?)
}
