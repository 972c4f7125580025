//! What `render`, `check` and `plugin diff` share: one resource, one base, one generation.

use std::path::{Path, PathBuf};

use anyhow::Context;
use llsd_adapter_sdk::Diagnostic;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{Checked, ConfigSource, ServerSource, review};
use llsd_api::{Notice, Rejection};
use llsd_plugin::Plugin;
use llsd_render::distributions::{self, KnownDistribution};
use llsd_render::{Generated, Inputs, ProviderPackage, Refusal, Surroundings, generate, yaml};
use serde_json::Value;

use crate::{adapters, files};

/// Where the base comes from and what is known about it.
#[derive(clap::Args)]
pub(crate) struct BaseOptions {
    /// The base configuration; by default the one built in for the distribution that is named
    #[arg(long, value_name = "FILE")]
    base_config: Option<PathBuf>,
    /// The dialect of the base, for example llama-stack/0.7; by default found out
    #[arg(long, value_name = "ID")]
    schema: Option<String>,
    /// The release of the server, for example 0.7.3
    #[arg(long, value_name = "VERSION")]
    server_version: Option<String>,
    /// What an external provider's image declares (its lls-provider-spec.yaml); may be repeated
    #[arg(long = "provider-package", value_name = "ID=FILE", value_parser = parse_package)]
    packages: Vec<(String, PathBuf)>,
    #[command(flatten)]
    pub(crate) adapters: adapters::PluginOptions,
    #[cfg(feature = "network")]
    #[command(flatten)]
    image: crate::network::ImageOptions,
}

impl BaseOptions {
    /// The base that the options name, if they name one.
    pub(crate) fn given_base(&self) -> anyhow::Result<Option<GivenBase>> {
        if let Some(file) = &self.base_config {
            return GivenBase::from_file(file).map(Some);
        }
        #[cfg(feature = "network")]
        if let Some(base) = self.image.base()? {
            return Ok(Some(base));
        }
        Ok(None)
    }
}

/// A base configuration, and what is known about it from outside.
pub(crate) struct GivenBase {
    pub(crate) config: Value,
    pub(crate) hints: Hints,
}

impl GivenBase {
    /// From a file, which says nothing but itself.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Self> {
        let config = yaml::read(&files::text(path)?)
            .with_context(|| format!("{} is no server configuration", path.display()))?;
        Ok(Self {
            config,
            hints: Hints::default(),
        })
    }
}

/// What became of a resource.
pub(crate) enum Outcome {
    /// A configuration was generated.
    Generated(Box<Generated>),
    /// The resource leaves the distribution's configuration as it is.
    Unchanged,
    /// The resource brings a configuration of its own.
    Override(String),
    /// Refused.
    Refused,
}

/// An outcome with everything that was found on the way.
pub(crate) struct Report {
    /// Name of the resource.
    pub(crate) name: String,
    /// The base that was used.
    pub(crate) base: Value,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// Rejections and warnings, sorted.
    pub(crate) found: Vec<Diagnostic>,
}

/// Runs one resource through the code that the operator runs.
pub(crate) fn run(
    object: Value,
    given: Option<&GivenBase>,
    arguments: &BaseOptions,
    plugins: &[Plugin],
) -> anyhow::Result<Report> {
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or("(unnamed)")
        .to_owned();
    let verdict = review(object);
    let mut found: Vec<Diagnostic> = verdict.notices.iter().map(notice).collect();
    let (base, outcome) = match verdict.result {
        Ok(checked) => generate_checked(&checked, given, arguments, plugins, &mut found)?,
        Err(rejections) => {
            found.extend(rejections.iter().map(rejection));
            (Value::Null, Outcome::Refused)
        }
    };
    found.sort();
    Ok(Report {
        name,
        base,
        outcome,
        found,
    })
}

fn generate_checked(
    checked: &Checked,
    given: Option<&GivenBase>,
    arguments: &BaseOptions,
    plugins: &[Plugin],
    found: &mut Vec<Diagnostic>,
) -> anyhow::Result<(Value, Outcome)> {
    if let ConfigSource::Override { config_map, .. } = &checked.config_source {
        return Ok((Value::Null, Outcome::Override(config_map.clone())));
    }
    let surroundings = surroundings(checked, arguments, found)?;
    let built_in;
    let GivenBase { config, hints } = match given {
        Some(given) => given,
        None => match built_in_base(checked, found)? {
            Some(base) => {
                built_in = base;
                &built_in
            }
            None => return Ok((Value::Null, Outcome::Refused)),
        },
    };
    if checked.config_source == ConfigSource::DistributionDefault {
        return Ok((config.clone(), Outcome::Unchanged));
    }
    let stated = arguments.schema.as_ref().or(checked.schema.as_ref());
    let hints = Hints {
        labels: hints.labels.clone(),
        schema: stated.or(hints.schema.as_ref()).cloned(),
        server_version: arguments
            .server_version
            .as_ref()
            .or(hints.server_version.as_ref())
            .cloned(),
    };
    let inputs = Inputs {
        checked,
        base: config,
        hints: &hints,
        surroundings: &surroundings,
    };
    let outcome = match generate(&adapters::as_adapters(plugins), &inputs) {
        Ok(generated) => {
            found.extend(generated.warnings.iter().cloned());
            Outcome::Generated(Box::new(generated))
        }
        Err(Refusal::Rejected(problems)) => {
            found.extend(problems);
            Outcome::Refused
        }
        Err(Refusal::Undecided(undecided)) => {
            let fix = "name the dialect with --schema, the release with --server-version, or add its adapter with --plugin";
            found.push(Diagnostic::error(
                "unsupported-schema",
                "spec.distribution",
                undecided.to_string(),
                fix,
            ));
            Outcome::Refused
        }
        Err(Refusal::Fault(fault)) => return Err(fault.into()),
    };
    Ok((config.clone(), outcome))
}

/// The base inside the binary for the distribution that the resource names.
fn built_in_base(
    checked: &Checked,
    found: &mut Vec<Diagnostic>,
) -> anyhow::Result<Option<GivenBase>> {
    let mut refuse = |field: &str, problem: String, fix: String| {
        found.push(Diagnostic::error("no-base", field, problem, fix));
        Ok(None)
    };
    const GIVE: &str = "give it with --base-config";
    if let ConfigSource::Generated { base: Some(base) } = &checked.config_source {
        let problem = format!(
            "the base is in the ConfigMap {:?}, which the command line does not read",
            base.name
        );
        return refuse("spec.distribution.baseConfig", problem, GIVE.to_owned());
    }
    let name = match &checked.server {
        ServerSource::Named(name) => name,
        ServerSource::Image(image) => {
            let problem = format!(
                "the configuration inside {image} is needed, and the command line has not read it"
            );
            let fix = format!("read it with --image {image}, or {GIVE}");
            return refuse("spec.distribution.image", problem, fix);
        }
    };
    let known = distributions::builtin();
    match known.get(name) {
        Some(KnownDistribution {
            base: Some(text),
            schema,
            ..
        }) => Ok(Some(GivenBase {
            config: yaml::read(text)?,
            hints: Hints {
                schema: schema.clone(),
                ..Hints::default()
            },
        })),
        Some(_) => {
            let problem = format!("no configuration is built in for {name:?}");
            refuse("spec.distribution.name", problem, GIVE.to_owned())
        }
        None => {
            let problem = format!("no distribution is called {name:?}");
            refuse(
                "spec.distribution.name",
                problem,
                llsd_api::choices(name, known.keys().map(String::as_str)),
            )
        }
    }
}

/// What the images of external providers declare, which the command line must be told.
fn surroundings(
    checked: &Checked,
    arguments: &BaseOptions,
    found: &mut Vec<Diagnostic>,
) -> anyhow::Result<Surroundings> {
    let mut surroundings = Surroundings::default();
    for (id, path) in &arguments.packages {
        let package = ProviderPackage::read(&files::text(path)?)
            .with_context(|| format!("{} declares no provider", path.display()))?;
        surroundings.packages.insert(id.clone(), package);
    }
    for provider in checked
        .external
        .iter()
        .filter(|one| !surroundings.packages.contains_key(one.id.as_str()))
    {
        found.push(Diagnostic::warning(
            "image-not-read",
            provider.path.as_str(),
            format!("the type of this provider is declared inside {}, which the command line has not read; it is left out", provider.image),
            format!("give the image's lls-provider-spec.yaml with --provider-package {}=FILE", provider.id),
        ));
    }
    Ok(surroundings)
}

fn rejection(
    Rejection {
        field,
        problem,
        fix,
    }: &Rejection,
) -> Diagnostic {
    Diagnostic::error("invalid", field.as_str(), problem, fix)
}

/// What the checks of the API remark, in the words of all findings.
pub(crate) fn notice(
    Notice {
        field,
        problem,
        fix,
    }: &Notice,
) -> Diagnostic {
    Diagnostic::warning("notice", field.as_str(), problem, fix)
}

fn parse_package(text: &str) -> Result<(String, PathBuf), String> {
    let (id, path) = text.split_once('=').ok_or("write it as ID=FILE")?;
    Ok((id.to_owned(), path.into()))
}
