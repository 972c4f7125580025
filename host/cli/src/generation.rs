//! Generates the configuration of one resource, for `render`, `check`, `upgrade` and `plugin diff`.
//!
//! In: a resource, a base configuration and the plugins. Out: a [`Report`]. The code is that of the
//! operator; only the base configuration comes from a file, an image or the binary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{Checked, ConfigSource, DEFAULT_CONFIG_KEY, ServerSource};
use llsd_api::conversion::v1alpha1_path;
use llsd_api::{API_VERSION_V1ALPHA1, Diagnostic, FieldPath, check_document_of_any_version};
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::distributions::KnownDistribution;
use llsd_render::objects::ConfigPlan;
use llsd_render::{
    GenerateError, Generated, Inputs, PodContext, ProviderPackage, SchemaChoice, digest, generate,
    override_config, yaml,
};
use serde_json::Value;

use crate::operator_config_map::SettingsOptions;
use crate::{files, plugin_loader};

/// Options that select the base configuration and its schema.
#[derive(clap::Args)]
pub(crate) struct BaseOptions {
    /// File with the base configuration; by default the one built in for the named distribution
    #[arg(long, value_name = "FILE")]
    base_config: Option<PathBuf>,
    /// Dialect of the base configuration, for example llama-stack/0.7; detected by default
    #[arg(long, value_name = "ID")]
    schema: Option<String>,
    /// Server release, for example 0.7.3
    #[arg(long, value_name = "VERSION")]
    server_version: Option<String>,
    /// The lls-provider-spec.yaml of an external provider's image; repeatable
    #[arg(long = "provider-package", value_name = "ID=FILE", value_parser = parse_package)]
    packages: Vec<(String, PathBuf)>,
    /// File with ConfigMaps that the resource names in spec.distribution.baseConfig or
    /// spec.overrideConfig; repeatable
    #[arg(long = "config-map", value_name = "FILE")]
    config_maps: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingsOptions,
    #[command(flatten)]
    pub(crate) plugins: plugin_loader::PluginOptions,
    #[cfg(feature = "network")]
    #[command(flatten)]
    pub(crate) image: crate::network::ImageOptions,
}

impl BaseOptions {
    /// Reads the base configuration of `--base-config` or `--image`, if one is set.
    pub(crate) fn load_base(&self) -> anyhow::Result<Option<LoadedBase>> {
        if let Some(file) = &self.base_config {
            return LoadedBase::from_file(file).map(Some);
        }
        #[cfg(feature = "network")]
        if let Some(base) = self.image.base()? {
            return Ok(Some(base));
        }
        Ok(None)
    }
}

impl BaseOptions {
    /// A key of a ConfigMap in the files of `--config-map`.
    fn config_map_value(&self, name: &str, key: &str) -> anyhow::Result<Option<String>> {
        for path in &self.config_maps {
            for object in files::objects(path)? {
                if let Some(text) = value_in(&object, name, key) {
                    return Ok(Some(text.to_owned()));
                }
            }
        }
        Ok(None)
    }
}

/// A key of a ConfigMap, if the object is that ConfigMap or a list with it.
fn value_in<'a>(object: &'a Value, name: &str, key: &str) -> Option<&'a str> {
    // `kubectl get -o yaml` prints several objects as a list.
    let items = object["items"].as_array().into_iter().flatten();
    let mut all = items.chain([object]);
    let found = all.find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == name);
    found.and_then(|map| map["data"][key].as_str())
}

/// What one generation uses instead of the options of the command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Overrides<'a> {
    /// The dialect, whatever the options, the resource and the base configuration state.
    pub(crate) schema: Option<&'a str>,
    /// Objects beside the resource. Their ConfigMaps count like those of `--config-map`.
    pub(crate) objects: &'a [Value],
}

/// What a generation uses besides the resource and the base configuration.
#[derive(Clone, Copy)]
struct RunOptions<'a> {
    arguments: &'a BaseOptions,
    overrides: Overrides<'a>,
    adapters: &'a [&'a dyn Adapter],
}

impl Overrides<'_> {
    /// A key of a ConfigMap: of these objects, or of the files of `--config-map`.
    pub(crate) fn config_map_value(
        &self,
        arguments: &BaseOptions,
        name: &str,
        key: &str,
    ) -> anyhow::Result<Option<String>> {
        let mut objects = self.objects.iter();
        match objects.find_map(|object| value_in(object, name, key)) {
            Some(text) => Ok(Some(text.to_owned())),
            None => arguments.config_map_value(name, key),
        }
    }
}

impl RunOptions<'_> {
    /// A key of a ConfigMap that was passed.
    fn config_map_value(&self, name: &str, key: &str) -> anyhow::Result<Option<String>> {
        self.overrides.config_map_value(self.arguments, name, key)
    }
}

/// A base configuration, with hints for detecting its schema.
pub(crate) struct LoadedBase {
    pub(crate) config: Value,
    pub(crate) hints: Hints,
    /// Environment variables to which the server image gives a value; empty if it was not read.
    pub(crate) image_variables: BTreeSet<String>,
}

impl LoadedBase {
    /// A base configuration about which nothing else is known.
    pub(crate) fn without_hints(config: Value) -> Self {
        Self {
            config,
            hints: Hints::default(),
            image_variables: BTreeSet::new(),
        }
    }

    /// Reads a file. There are no hints.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Self> {
        let config = yaml::read(&files::text(path)?)
            .with_context(|| format!("{} is not a server configuration", path.display()))?;
        Ok(Self::without_hints(config))
    }
}

/// The result of one generation.
pub(crate) enum Outcome {
    /// A configuration was generated.
    Generated(Box<Generated>),
    /// The resource uses the distribution's configuration unchanged.
    Unchanged,
    /// The resource names a ConfigMap with a complete configuration.
    Override {
        /// Its name.
        config_map: String,
        /// Digest of the configuration; empty if `--config-map` does not have it.
        digest: String,
    },
    /// The resource is invalid. The schema is known if it was selected before the problem was found.
    Rejected(Option<SchemaChoice>),
}

impl Outcome {
    /// The schema that was selected.
    pub(crate) fn schema(&self) -> Option<&SchemaChoice> {
        match self {
            Self::Generated(generated) => Some(&generated.schema),
            Self::Rejected(schema) => schema.as_ref(),
            Self::Unchanged | Self::Override { .. } => None,
        }
    }

    /// Where the objects of the resource take the configuration from. `None` if it is rejected.
    pub(crate) fn plan(&self) -> Option<ConfigPlan> {
        match self {
            Self::Generated(generated) => Some(ConfigPlan::Generated(generated.clone())),
            Self::Override { config_map, digest } => Some(ConfigPlan::Override {
                config_map: config_map.clone(),
                digest: digest.clone(),
            }),
            Self::Unchanged => Some(ConfigPlan::DistributionDefault),
            Self::Rejected(_) => None,
        }
    }
}

/// The result of one generation, with its diagnostics.
pub(crate) struct Report {
    /// Name of the resource.
    pub(crate) name: String,
    /// The resource, if it passed the checks.
    pub(crate) checked: Option<Box<Checked>>,
    /// The base configuration; null if none was needed.
    pub(crate) base: Value,
    /// The result.
    pub(crate) outcome: Outcome,
    /// Errors and warnings, sorted.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Checks a resource and generates its configuration.
pub(crate) fn run(
    object: Value,
    base_config: Option<&LoadedBase>,
    arguments: &BaseOptions,
    plugins: &[Plugin],
) -> anyhow::Result<Report> {
    let adapters = plugin_loader::as_adapters(plugins);
    let overrides = Overrides::default();
    run_with(object, base_config, arguments, overrides, &adapters)
}

/// Checks a resource and generates its configuration, with some options replaced.
pub(crate) fn run_with(
    object: Value,
    base_config: Option<&LoadedBase>,
    arguments: &BaseOptions,
    overrides: Overrides<'_>,
    adapters: &[&dyn Adapter],
) -> anyhow::Result<Report> {
    let options = RunOptions {
        arguments,
        overrides,
        adapters,
    };
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or("(unnamed)")
        .to_owned();
    let is_v1alpha1 = object["apiVersion"] == API_VERSION_V1ALPHA1;
    let report = check_document_of_any_version(object);
    let mut diagnostics = report.warnings;
    let (checked, base, outcome) = match report.result {
        Ok(checked) => {
            let (base, outcome) =
                generate_checked(&checked, base_config, options, &mut diagnostics)?;
            (Some(Box::new(checked)), base, outcome)
        }
        Err(errors) => {
            diagnostics.extend(errors);
            (None, Value::Null, Outcome::Rejected(None))
        }
    };
    if is_v1alpha1 {
        for diagnostic in &mut diagnostics {
            if let Some(path) = v1alpha1_path(diagnostic.field.as_str()) {
                diagnostic.field = FieldPath::from(path);
            }
        }
    }
    diagnostics.sort();
    Ok(Report {
        name,
        checked,
        base,
        outcome,
        diagnostics,
    })
}

fn generate_checked(
    checked: &Checked,
    base_config: Option<&LoadedBase>,
    options: RunOptions<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> anyhow::Result<(Value, Outcome)> {
    let RunOptions {
        arguments,
        overrides,
        adapters,
    } = options;
    if let ConfigSource::Override { config_map, .. } = &checked.config_source {
        return override_outcome(checked, config_map, options, diagnostics);
    }
    let mut pod_context = pod_context(checked, arguments, diagnostics)?;
    let built_in;
    let LoadedBase {
        config,
        hints,
        image_variables,
    } = match base_config {
        Some(base_config) => base_config,
        None => match known_base(checked, options, diagnostics)? {
            KnownBase::Found(base) => {
                built_in = *base;
                &built_in
            }
            // Nothing is generated, so that the base configuration does not matter.
            KnownBase::NotRead => return Ok((Value::Null, Outcome::Unchanged)),
            KnownBase::Rejected => return Ok((Value::Null, Outcome::Rejected(None))),
        },
    };
    if checked.config_source == ConfigSource::DistributionDefault {
        return Ok((config.clone(), Outcome::Unchanged));
    }
    let hints = match overrides.schema {
        Some(schema) => Hints {
            schema: Some(schema.to_owned()),
            // A release of another dialect is ignored.
            server_version: hints.server_version.clone(),
            ..Hints::default()
        },
        None => stated_hints(checked, hints, arguments),
    };
    pod_context.image_variables.clone_from(image_variables);
    let inputs = Inputs {
        checked,
        base: config,
        hints: &hints,
        running_release: None,
        pod_context: &pod_context,
    };
    let outcome = match generate(adapters, &inputs) {
        Ok(generated) => {
            diagnostics.extend(generated.warnings.iter().cloned());
            Outcome::Generated(Box::new(generated))
        }
        Err(GenerateError::Rejected {
            schema,
            diagnostics: problems,
        }) => {
            diagnostics.extend(problems);
            Outcome::Rejected(schema)
        }
        Err(GenerateError::Schema(undecided)) => {
            let fix = "set the dialect with --schema or the release with --server-version, or add its adapter with --plugin";
            let field = FieldPath::spec().field("distribution");
            let error = Diagnostic::error(field, undecided.to_string(), fix);
            diagnostics.push(error.with_code("unsupported-schema"));
            Outcome::Rejected(None)
        }
        Err(GenerateError::Fault(fault)) => return Err(fault.into()),
    };
    Ok((config.clone(), outcome))
}

/// What the options, the resource and the base configuration say about its dialect. The first of them
/// that says something wins.
fn stated_hints(checked: &Checked, hints: &Hints, arguments: &BaseOptions) -> Hints {
    let stated = arguments.schema.as_ref().or(checked.schema.as_ref());
    let release = arguments.server_version.as_ref();
    Hints {
        labels: hints.labels.clone(),
        schema: stated.or(hints.schema.as_ref()).cloned(),
        server_version: release.or(hints.server_version.as_ref()).cloned(),
        ..Hints::default()
    }
}

/// The outcome of a resource with a complete configuration, which is checked if `--config-map` has it.
fn override_outcome(
    checked: &Checked,
    config_map: &str,
    options: RunOptions<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> anyhow::Result<(Value, Outcome)> {
    let text = options.config_map_value(config_map, DEFAULT_CONFIG_KEY)?;
    let problems = match &text {
        Some(text) => override_config::check(checked, config_map, text),
        None => override_config::check_unread(checked),
    };
    let outcome = match problems.iter().any(Diagnostic::is_error) {
        true => Outcome::Rejected(None),
        false => Outcome::Override {
            config_map: config_map.to_owned(),
            digest: text.map_or_else(String::new, |text| digest::of(text.as_bytes())),
        },
    };
    diagnostics.extend(problems);
    Ok((Value::Null, outcome))
}

/// The base configuration of a resource, without `--base-config` and `--image`.
enum KnownBase {
    /// Built in, or in the file of `--settings`.
    Found(Box<LoadedBase>),
    /// In the image, and not needed.
    NotRead,
    /// Not known, and needed. There is an error.
    Rejected,
}

/// How to pass the base configuration.
const PASS_BASE: &str = if cfg!(feature = "network") {
    "pass it with --base-config, or read it from the image with --image"
} else {
    "pass it with --base-config"
};

/// Finds the base configuration of the distribution that the resource names.
fn known_base(
    checked: &Checked,
    options: RunOptions<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> anyhow::Result<KnownBase> {
    let is_needed = checked.config_source != ConfigSource::DistributionDefault;
    let mut reject = |field: &str, problem: String, fix: String| {
        diagnostics
            .push(Diagnostic::error(FieldPath::from(field), problem, fix).with_code("no-base"));
        Ok(KnownBase::Rejected)
    };
    if let ConfigSource::Generated { base: Some(base) } = &checked.config_source {
        if let Some(text) = options.config_map_value(&base.name, &base.key)? {
            let base = LoadedBase::without_hints(yaml::read(&text)?);
            return Ok(KnownBase::Found(Box::new(base)));
        }
        let problem = format!(
            "the base configuration is in the key {:?} of ConfigMap {:?}, which was not passed",
            base.key, base.name
        );
        let fix =
            "pass the ConfigMap with --config-map, or its content with --base-config".to_owned();
        return reject("spec.distribution.baseConfig", problem, fix);
    }
    let name = match &checked.server {
        ServerSource::Named(name) => name,
        ServerSource::Image(_) if !is_needed => return Ok(KnownBase::NotRead),
        ServerSource::Image(image) => {
            let problem =
                format!("the base configuration is in the image {image}, which was not read");
            return reject("spec.distribution.image", problem, read_image(image));
        }
    };
    let known = options.arguments.settings.distributions()?;
    match known.get(name) {
        Some(Ok(KnownDistribution {
            base: Some(text),
            schema,
            ..
        })) => Ok(KnownBase::Found(Box::new(LoadedBase {
            config: yaml::read(text)?,
            hints: Hints {
                schema: schema.clone(),
                ..Hints::default()
            },
            image_variables: BTreeSet::new(),
        }))),
        Some(Ok(_)) if !is_needed => Ok(KnownBase::NotRead),
        Some(Ok(KnownDistribution { image, .. })) => {
            let problem = format!(
                "the base configuration of distribution {name:?} is in the image {image}, which was not read"
            );
            reject("spec.distribution.name", problem, read_image(image))
        }
        Some(Err(problem)) => {
            let fix = "correct the ConfigMap in the file of --settings".to_owned();
            reject("spec.distribution.name", problem.clone(), fix)
        }
        None => {
            let problem = format!("no distribution is called {name:?}");
            let choices = llsd_api::choices(name, known.keys().map(String::as_str));
            let fix = format!(
                "{choices}; if only your installation knows it, pass the operator's ConfigMap with --settings; or give the base configuration: {PASS_BASE}"
            );
            reject("spec.distribution.name", problem, fix)
        }
    }
}

fn read_image(image: &str) -> String {
    if cfg!(feature = "network") {
        format!("read it with --image {image}, or pass it with --base-config")
    } else {
        "pass it with --base-config".to_owned()
    }
}

/// The declarations of external providers, from `--provider-package`. A provider without one is
/// left out with a warning, because its image is not read.
fn pod_context(
    checked: &Checked,
    arguments: &BaseOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> anyhow::Result<PodContext> {
    let mut pod_context = PodContext::default();
    for (id, path) in &arguments.packages {
        let package = ProviderPackage::read(&files::text(path)?)
            .with_context(|| format!("{} is not a valid provider declaration", path.display()))?;
        pod_context.packages.insert(id.clone(), package);
    }
    for provider in checked
        .external
        .iter()
        .filter(|one| !pod_context.packages.contains_key(one.id.as_str()))
    {
        let warning = Diagnostic::warning(
            provider.path.clone(),
            format!(
                "the type of this provider is declared in the image {}, which was not read; the provider is left out",
                provider.image
            ),
            format!(
                "pass the image's lls-provider-spec.yaml with --provider-package {}=FILE",
                provider.id
            ),
        );
        diagnostics.push(warning.with_code("image-not-read"));
    }
    Ok(pod_context)
}

fn parse_package(text: &str) -> Result<(String, PathBuf), String> {
    let (id, path) = text.split_once('=').ok_or("must have the form ID=FILE")?;
    Ok((id.to_owned(), path.into()))
}
