//! Step 2, gather: reads what a resource refers to.
//!
//! In: a checked resource. Out: the image, the source of the configuration and the declarations of
//! external providers; separately, what is read in every reconciliation: the operator's settings, the
//! author's files and the trusted certificates. Writes nothing.

mod config_source;
mod error;
mod external_providers;
mod trusted_ca;

use std::collections::{BTreeMap, BTreeSet};

use llsd_api::checked::{Checked, ServerSource};
use llsd_api::{Diagnostic, Diagnostics, FieldPath, choices};
use llsd_registry::BaseConfig;
use llsd_render::distributions::KnownDistribution;
use llsd_render::objects::{Owner, Privileges};
use llsd_render::{EntryPoint, ProviderPackage, ServerFacts, data_folders};
use serde::{Deserialize, Serialize};

use crate::cache::ContentCache;
use crate::images::{ImageReader, at_digest};
use crate::settings::{DistributionError, Effective, Settings};
use config_source::Found;
pub(crate) use config_source::{Source, author_file};
pub(crate) use error::Error;
pub(crate) use trusted_ca::{CurrentCa, trusted_ca};

/// What a resource refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gathered {
    /// The image of the server, as it was requested.
    pub(crate) image: String,
    /// The source of the configuration.
    pub(crate) source: Source,
    /// What the image itself states; `None` if it was not read.
    pub(crate) facts: Option<ImageFacts>,
    /// What is known about the server.
    pub(crate) server: ServerFacts,
    /// The declarations of external providers, by provider id.
    pub(crate) packages: BTreeMap<String, ProviderPackage>,
    /// Whether the operator's settings ask for a network policy; `None` if the resource decides.
    pub(crate) network_policy: Option<bool>,
    /// Whether the operator's settings let the pods run as any user on OpenShift.
    #[serde(default)]
    pub(crate) allows_any_uid: bool,
    /// Whether the operator's settings let the pods have privileges on their nodes.
    #[serde(default)]
    pub(crate) allows_privileged_pods: bool,
    /// Privileges of the overrides that the pods had before the operator took the resource over.
    #[serde(default)]
    pub(crate) kept_privileges: Privileges,
    /// Whether the server gets CA certificates.
    #[serde(default)]
    pub(crate) has_ca_bundle: bool,
    /// Problems that do not stop the resource: of the operator's settings, and of the author's file.
    #[serde(skip)]
    pub(crate) warnings: Vec<String>,
}

/// What an image states about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageFacts {
    /// The digest that the reference resolved to.
    pub(crate) digest: String,
    /// The user of the image; `None` is root.
    pub(crate) user: Option<String>,
    /// The plugin that it proposes.
    pub(crate) plugin: Option<String>,
    /// The dialect in its label.
    pub(crate) schema: Option<String>,
    /// The release of its server, and where that is stated.
    pub(crate) server_version: Option<String>,
    pub(crate) server_version_source: Option<String>,
    /// The environment variables to which it gives a value.
    #[serde(default)]
    pub(crate) variables: BTreeSet<String>,
}

impl From<&BaseConfig> for ImageFacts {
    fn from(read: &BaseConfig) -> Self {
        Self {
            digest: read.image_digest.to_string(),
            user: read.user.clone(),
            plugin: read.plugin.clone(),
            schema: read.schema.clone(),
            server_version: read.server_version.clone(),
            server_version_source: read.server_version_source.clone(),
            variables: read.variables.clone(),
        }
    }
}

impl Gathered {
    /// The plugin that the image proposes.
    pub(crate) fn proposed_plugin(&self) -> Option<&str> {
        self.facts.as_ref()?.plugin.as_deref()
    }

    /// The digest of the image; `None` if it was not read.
    pub(crate) fn digest(&self) -> Option<&str> {
        Some(&self.facts.as_ref()?.digest)
    }

    /// The image that the pods run. If the configuration was read from it, it is named by digest, so
    /// that image and configuration are always of one release.
    pub(crate) fn pod_image(&self) -> String {
        match self.digest() {
            Some(digest) => at_digest(&self.image, digest),
            None => self.image.clone(),
        }
    }

    /// The environment variables to which the image gives a value; none if it was not read.
    pub(crate) fn image_variables(&self) -> BTreeSet<String> {
        let facts = self.facts.as_ref();
        facts.map_or_else(BTreeSet::new, |facts| facts.variables.clone())
    }
}

/// What the operator's settings state for a resource.
pub(crate) struct Stated {
    /// The requested image.
    pub(crate) image: String,
    /// The distribution, if the resource uses one by name.
    pub(crate) known: Option<KnownDistribution>,
    /// Whether the settings ask for a network policy; `None` if the resource decides.
    pub(crate) network_policy: Option<bool>,
    /// Whether the settings let the pods run as any user on OpenShift.
    pub(crate) allows_any_uid: bool,
    /// Whether the settings let the pods have privileges on their nodes.
    pub(crate) allows_privileged_pods: bool,
    /// Problems of the settings that affect the resource.
    pub(crate) warnings: Vec<String>,
}

/// Looks up what the operator's settings state for a resource.
pub(crate) fn stated(
    settings: &Settings,
    checked: &Checked,
    owner: &Owner,
) -> Result<Stated, Error> {
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
            (known.image.clone(), Some(known.clone()))
        }
    };
    Ok(Stated {
        image,
        known,
        network_policy,
        allows_any_uid: settings.allows_any_uid(&owner.namespace),
        allows_privileged_pods: settings.allows_privileged_pods(&owner.namespace),
        warnings,
    })
}

/// Reads what a resource refers to. `pinned` is the digest to read the image at, instead of its tag, and
/// `ca` are the certificates that the server would trust.
pub(crate) async fn gather(
    contents: &ContentCache,
    settings: &Settings,
    images: &impl ImageReader,
    checked: &Checked,
    owner: &Owner,
    pinned: Option<&str>,
    ca: &CurrentCa,
) -> Result<Gathered, Error> {
    let Stated {
        image,
        known,
        network_policy,
        allows_any_uid,
        allows_privileged_pods,
        warnings,
    } = stated(settings, checked, owner)?;
    let reader = config_source::Reader {
        contents,
        settings,
        images,
        checked,
        owner,
    };
    let found = reader.read(&image, pinned, known.as_ref()).await?;
    let server = server_facts(checked, &image, known.as_ref(), &found);
    if !checked.external.is_empty() {
        // The mirrors decide where the images of external providers are read from.
        settings.mirrors()?;
    }
    Ok(Gathered {
        image,
        source: found.source,
        facts: found.facts,
        server,
        packages: external_providers::packages(images, checked, owner).await?,
        network_policy,
        allows_any_uid,
        allows_privileged_pods,
        kept_privileges: Privileges::default(),
        has_ca_bundle: ca.trusted.is_some(),
        warnings,
    })
}

fn server_facts(
    checked: &Checked,
    image: &str,
    known: Option<&KnownDistribution>,
    found: &Found,
) -> ServerFacts {
    let listed = known.and_then(|known| known.schema.as_deref());
    let schema = checked.schema.as_deref().or(listed);
    let labelled = found.facts.as_ref().and_then(|facts| facts.user.clone());
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
