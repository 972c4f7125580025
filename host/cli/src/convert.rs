//! `llsd convert`: a resource in another version of the API, offline.

use std::path::PathBuf;

use llsd_api::conversion::{Lifted, Version, convert, lift_env};

use crate::{Verdict, files, talk};

/// What to convert.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The resource; `-` for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// The version to write
    #[arg(long, value_enum, default_value_t = Target::V1alpha2)]
    to: Target,
    /// Also turn well-known variables (VLLM_URL, INFERENCE_MODEL, API keys) into providers and models
    #[arg(long)]
    lift_env: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Target {
    V1alpha1,
    V1alpha2,
}

/// Prints YAML.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    anyhow::ensure!(
        !arguments.lift_env || arguments.to == Target::V1alpha2,
        "--lift-env writes fields that only v1alpha2 has; leave out --to v1alpha1"
    );
    let version = match arguments.to {
        Target::V1alpha1 => Version::V1Alpha1,
        Target::V1alpha2 => Version::V1Alpha2,
    };
    let mut texts = Vec::new();
    for document in files::distributions(&arguments.file)? {
        let mut converted = convert(document, version)?;
        if arguments.lift_env {
            let Lifted {
                document, warnings, ..
            } = lift_env(converted);
            if !warnings.is_empty() {
                talk::findings(&arguments.file.display().to_string(), &warnings);
            }
            converted = document;
        }
        texts.push(serde_saphyr::to_string(&converted)?);
    }
    talk::data(&texts.join("---\n"));
    Ok(Verdict::Done)
}
