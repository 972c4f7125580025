//! Step 2, gather: reads what a resource refers to.
//!
//! In: a checked resource. Out: the image, the source of the configuration, the trusted certificates
//! and the declarations of external providers. Writes nothing.

mod config_source;
mod error;
mod external_providers;
mod trusted_ca;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use llsd_api::checked::{Checked, ServerSource};
use llsd_api::{Diagnostic, Diagnostics, FieldPath, choices};
use llsd_registry::BaseConfig;
use llsd_render::ca_bundle::CaBundle;
use llsd_render::distributions::KnownDistribution;
use llsd_render::objects::Owner;
use llsd_render::{EntryPoint, ProviderPackage, ServerFacts, data_folders, override_config};

use crate::cache::ContentCache;
use crate::images::ImageReader;
use crate::settings::{DistributionError, Effective, Settings};
use config_source::Found;
pub(crate) use config_source::Source;
pub(crate) use error::Error;

/// What a resource refers to.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// The image of the server.
    pub(crate) image: String,
    /// The source of the configuration.
    pub(crate) source: Source,
    /// CA certificates that the server trusts.
    pub(crate) ca_bundle: Option<CaBundle>,
    /// What is known about the server.
    pub(crate) server: ServerFacts,
    /// The content of the image's labels; `None` if the image was not read.
    pub(crate) labels: Option<Arc<BaseConfig>>,
    /// The declarations of external providers, by provider id.
    pub(crate) packages: BTreeMap<String, ProviderPackage>,
    /// Whether the operator's settings ask for a network policy; `None` if the resource decides.
    pub(crate) network_policy: Option<bool>,
    /// Whether the operator's settings let the pods run as any user on OpenShift.
    pub(crate) allows_any_uid: bool,
    /// Problems that do not stop the resource: of the operator's settings, and of the user's
    /// configuration.
    pub(crate) warnings: Vec<String>,
}

impl Gathered {
    /// The plugin that the image proposes.
    pub(crate) fn proposed_plugin(&self) -> Option<&str> {
        self.labels.as_ref()?.plugin.as_deref()
    }

    /// The digest of the image; `None` if it was not read.
    pub(crate) fn image_digest(&self) -> Option<String> {
        let labels = self.labels.as_ref()?;
        Some(labels.image_digest.to_string())
    }

    /// The environment variables to which the image gives a value; none if it was not read.
    pub(crate) fn image_variables(&self) -> BTreeSet<String> {
        let labels = self.labels.as_ref();
        labels.map_or_else(BTreeSet::new, |labels| labels.variables.clone())
    }
}

/// Reads what a resource refers to.
pub(crate) async fn gather(
    contents: &ContentCache,
    settings: &Settings,
    images: &impl ImageReader,
    checked: &Checked,
    owner: &Owner,
) -> Result<Gathered, Error> {
    let mut warnings = Vec::new();
    let network_policy = match checked.was_made_in_v1alpha1 {
        true => {
            let enabled = settings.network_policy()?;
            Some(*effective(enabled, &mut warnings))
        }
        false => None,
    };
    let (image, known) = match &checked.server {
        ServerSource::Image(image) => (image.clone(), None),
        ServerSource::Named(name) => {
            let found = settings.distribution(name);
            let found = found.map_err(|error| distribution_error(name, error))?;
            let known = effective(found, &mut warnings);
            (known.image.clone(), Some(known))
        }
    };
    let reader = config_source::Reader {
        contents,
        settings,
        images,
        checked,
        owner,
    };
    let found = reader.read(&image, known).await?;
    if let (Source::Override { config_map, .. }, Some(text)) = (&found.source, &found.file) {
        warnings.extend(check_override(checked, config_map, text)?);
    }
    let server = server_facts(checked, &image, known, &found);
    let Found { source, labels, .. } = found;
    if !checked.external.is_empty() {
        // The mirrors decide where the images of external providers are read from.
        settings.mirrors()?;
    }
    Ok(Gathered {
        image,
        source,
        server,
        ca_bundle: trusted_ca::trusted_ca(contents, checked, owner).await?,
        labels,
        packages: external_providers::packages(images, checked, owner).await?,
        network_policy,
        allows_any_uid: settings.allows_any_uid(&owner.namespace),
        warnings,
    })
}

/// Checks the user's configuration against the resource, and returns the warnings.
fn check_override(
    checked: &Checked,
    config_map: &str,
    text: &str,
) -> Result<Vec<String>, Diagnostics> {
    let found = override_config::check(checked, config_map, text);
    let (errors, warnings): (Vec<_>, Vec<_>) = found.into_iter().partition(Diagnostic::is_error);
    match Diagnostics::new(errors) {
        Some(errors) => Err(errors),
        None => Ok(warnings.iter().map(ToString::to_string).collect()),
    }
}

fn server_facts(
    checked: &Checked,
    image: &str,
    known: Option<&KnownDistribution>,
    found: &Found,
) -> ServerFacts {
    let listed = known.and_then(|known| known.schema.as_deref());
    let schema = checked.schema.as_deref().or(listed);
    let labelled = found.labels.as_ref().and_then(|labels| labels.user.clone());
    let listed = known.and_then(|known| known.user);
    ServerFacts {
        user: labelled.or_else(|| listed.map(|user| user.to_string())),
        entry_point: EntryPoint::of(image, schema),
        data_folders: found.file.as_deref().and_then(data_folders),
    }
}

fn effective<'a, T>(found: Effective<'a, T>, warnings: &mut Vec<String>) -> &'a T {
    let Effective { value, problem } = found;
    warnings.extend(problem.map(|problem| format!("{problem}; using the last valid value")));
    value
}

fn distribution_error(name: &str, error: DistributionError) -> Error {
    match error {
        DistributionError::Invalid(invalid) => invalid.into(),
        DistributionError::NotFound(names) => reject(
            FieldPath::spec().at(&["distribution", "name"]),
            format!("no distribution is called {name:?}"),
            choices(name, names.iter().map(String::as_str)),
        ),
    }
}

fn reject(field: FieldPath, problem: String, fix: String) -> Error {
    Error::Rejected(Diagnostics::from(Diagnostic::error(field, problem, fix)))
}
