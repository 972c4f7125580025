//! Migrates resources that are stored as v1alpha1 to v1alpha2, so that a later release can remove
//! v1alpha1.
//!
//! An empty patch makes the API server store a resource in the current storage version. When all
//! resources are patched, v1alpha1 is removed from `status.storedVersions` of the CRD. The migration
//! keeps no progress: after an interruption it starts again, and patching a migrated resource again
//! changes nothing. A resource that the API server rejects does not stop the migration of the others.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use llsd_api::DISTRIBUTION_CRD_NAME;
use serde_json::json;

use crate::cache::{PAGE_SIZE, WatchedResource};

/// The storage version.
const STORAGE_VERSION: &str = "v1alpha2";
/// Attempts when the continue token of a list expires or the CRD changes meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// Why the migration stopped. It can be repeated at any time.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The CRD does not exist, or cannot be read or updated.
    #[error("failed to {verb} the CRD {DISTRIBUTION_CRD_NAME:?}")]
    Definition {
        /// What failed.
        verb: &'static str,
        /// The error of the API server.
        #[source]
        error: Box<kube::Error>,
    },
    /// The CRD has another storage version, so it is not the one of this release.
    #[error(
        "the storage version of the CRD is {0:?}, not {STORAGE_VERSION:?}; apply the CRDs of this release first"
    )]
    WrongStorageVersion(String),
    /// The resources could not be listed.
    #[error("failed to list the resources; check that the conversion webhook is running")]
    List(#[source] Box<kube::Error>),
    /// Some resources could not be patched; all others were.
    #[error("failed to patch {}", list(.0))]
    Resources(Vec<RejectedResource>),
}

/// A resource that could not be patched.
#[derive(Debug)]
pub struct RejectedResource {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The error of the API server.
    pub error: Box<kube::Error>,
}

fn list(rejected: &[RejectedResource]) -> String {
    let line = |one: &RejectedResource| format!("{}/{}: {}", one.namespace, one.name, one.error);
    rejected.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// Every resource was already stored as v1alpha2.
    NothingToDo,
    /// This many resources were patched.
    Done(usize),
}

/// Stores every resource in the storage version, then updates `status.storedVersions` of the CRD.
pub async fn migrate_storage(client: &Client) -> Result<Migration, MigrationError> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let failed = |verb| {
        move |error| MigrationError::Definition {
            verb,
            error: Box::new(error),
        }
    };
    let definition = definitions
        .get(DISTRIBUTION_CRD_NAME)
        .await
        .map_err(failed("get"))?;
    if stored_versions(&definition)? == [STORAGE_VERSION] {
        return Ok(Migration::NothingToDo);
    }
    let count = rewrite_all(client).await?;
    let mut attempt = 1;
    loop {
        let definition = definitions
            .get(DISTRIBUTION_CRD_NAME)
            .await
            .map_err(failed("get"))?;
        stored_versions(&definition)?;
        // With the resource version, because a CRD that changes now may have another storage
        // version.
        let migrated = json!({
            "metadata": {"resourceVersion": definition.resource_version()},
            "status": {"storedVersions": [STORAGE_VERSION]},
        });
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&migrated));
        let patched = definitions.patch_status(DISTRIBUTION_CRD_NAME, &parameters, &patch);
        match patched.await {
            Ok(_) => return Ok(Migration::Done(count)),
            // Other controllers update the CRD, too, such as the rotation of its `caBundle`.
            Err(kube::Error::Api(status)) if status.is_conflict() && attempt < MAX_ATTEMPTS => {
                attempt += 1
            }
            Err(error) => return Err(failed("update status.storedVersions of")(error)),
        }
    }
}

/// The versions in which resources may be stored. Fails unless v1alpha2 is the storage version.
fn stored_versions(definition: &CustomResourceDefinition) -> Result<Vec<String>, MigrationError> {
    let storing = definition.spec.versions.iter().find(|one| one.storage);
    let storing = storing.map(|one| one.name.clone()).unwrap_or_default();
    if storing != STORAGE_VERSION {
        return Err(MigrationError::WrongStorageVersion(storing));
    }
    let status = definition.status.as_ref();
    let stored = status.and_then(|status| status.stored_versions.clone());
    Ok(stored.unwrap_or_default())
}

async fn rewrite_all(client: &Client) -> Result<usize, MigrationError> {
    let mut attempt = 1;
    loop {
        match rewrite_pages(client).await {
            Err(MigrationError::List(error)) if is_expired(&error) && attempt < MAX_ATTEMPTS => {
                attempt += 1
            }
            outcome => return outcome,
        }
    }
}

async fn rewrite_pages(client: &Client) -> Result<usize, MigrationError> {
    let everywhere = Api::<WatchedResource>::all(client.clone());
    let mut page = ListParams::default().limit(PAGE_SIZE);
    let (mut count, mut rejected) = (0, Vec::new());
    loop {
        let listed = everywhere
            .list(&page)
            .await
            .map_err(|error| MigrationError::List(Box::new(error)))?;
        for one in &listed.items {
            match rewrite(client, one).await {
                Ok(()) => count += 1,
                Err(error) => rejected.push(error),
            }
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None if rejected.is_empty() => return Ok(count),
            None => return Err(MigrationError::Resources(rejected)),
        }
    }
}

async fn rewrite(client: &Client, object: &WatchedResource) -> Result<(), RejectedResource> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api = Api::<WatchedResource>::namespaced(client.clone(), &namespace);
    // The resource version makes the patch fail if the resource changed meanwhile.
    let empty = json!({"metadata": {"resourceVersion": object.resource_version()}});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&empty));
    match api.patch(&name, &parameters, &patch).await {
        Ok(_) => Ok(()),
        // A write in between stored the resource in the new version; a deleted one needs nothing.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
        Err(error) => Err(RejectedResource {
            namespace,
            name,
            error: Box::new(error),
        }),
    }
}

/// Whether the continue token of a list has expired.
fn is_expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}
