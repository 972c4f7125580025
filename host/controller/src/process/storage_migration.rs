//! Rewrites resources that are still stored as v1alpha1, so that v1alpha1 can one day go.
//!
//! Every resource is patched with nothing; the API server then stores it as v1alpha2. Afterwards
//! `status.storedVersions` of the definition is trimmed. Nothing is remembered in between: whoever
//! comes back after an interruption writes what is already migrated once more, which changes nothing.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use llsd_api::{DISTRIBUTION_CRD_NAME, Distribution};
use serde_json::json;

/// The version that everything is to be stored as.
const STORED: &str = "v1alpha2";
/// Resources read at once.
const PAGE: u32 = 200;
/// How often to try again when the list grew too old to go on reading it, or the definition changed.
const TRIES: usize = 5;

/// Why the migration stopped. It can be taken up again at any time.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The definition is not there, or cannot be read or written.
    #[error("the API server did not {verb} the definition {DISTRIBUTION_CRD_NAME:?}")]
    Definition {
        /// What it was asked for.
        verb: &'static str,
        /// What it said.
        #[source]
        error: Box<kube::Error>,
    },
    /// Another version is stored: this is not the definition of this release.
    #[error(
        "the cluster stores {0:?} and not {STORED:?}; apply the definitions of this release first"
    )]
    StoresAnother(String),
    /// The resources could not be listed.
    #[error("the API server did not list the resources; the conversion webhook has to be running")]
    List(#[source] Box<kube::Error>),
    /// A resource could not be written.
    #[error("the API server did not take {namespace}/{name} back as it is")]
    Resource {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What it said.
        #[source]
        error: Box<kube::Error>,
    },
}

/// What a migration came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// Everything was stored as v1alpha2 already.
    NothingToDo,
    /// This many resources were written back.
    Done(usize),
}

/// Brings every resource to the stored version, then says so on the definition.
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
        .map_err(failed("give"))?;
    if stored_versions(&definition)? == [STORED] {
        return Ok(Migration::NothingToDo);
    }
    let count = rewrite_all(client).await?;
    let mut tries = 1;
    loop {
        let definition = definitions
            .get(DISTRIBUTION_CRD_NAME)
            .await
            .map_err(failed("give"))?;
        stored_versions(&definition)?;
        // With the resource version: a definition that changes now may store something else.
        let trimmed = json!({
            "metadata": {"resourceVersion": definition.resource_version()},
            "status": {"storedVersions": [STORED]},
        });
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&trimmed));
        let patched = definitions.patch_status(DISTRIBUTION_CRD_NAME, &parameters, &patch);
        match patched.await {
            Ok(_) => return Ok(Migration::Done(count)),
            // Others write the definition too, such as whoever keeps its `caBundle`.
            Err(kube::Error::Api(answer)) if answer.is_conflict() && tries < TRIES => tries += 1,
            Err(error) => return Err(failed("take the trimmed versions of")(error)),
        }
    }
}

/// The versions in which resources may be stored, if new ones are stored as they should be.
fn stored_versions(definition: &CustomResourceDefinition) -> Result<Vec<String>, MigrationError> {
    let storing = definition.spec.versions.iter().find(|one| one.storage);
    let storing = storing.map(|one| one.name.clone()).unwrap_or_default();
    if storing != STORED {
        return Err(MigrationError::StoresAnother(storing));
    }
    let status = definition.status.as_ref();
    let stored = status.and_then(|status| status.stored_versions.clone());
    Ok(stored.unwrap_or_default())
}

async fn rewrite_all(client: &Client) -> Result<usize, MigrationError> {
    let mut tries = 1;
    loop {
        match rewrite_pages(client).await {
            Err(MigrationError::List(error)) if is_expired(&error) && tries < TRIES => tries += 1,
            outcome => return outcome,
        }
    }
}

async fn rewrite_pages(client: &Client) -> Result<usize, MigrationError> {
    // As JSON: what the types of this release do not know must not be lost.
    let resource = ApiResource::erase::<Distribution>(&());
    let everywhere = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let mut page = ListParams::default().limit(PAGE);
    let mut count = 0;
    loop {
        let listed = everywhere
            .list(&page)
            .await
            .map_err(|error| MigrationError::List(Box::new(error)))?;
        for one in &listed.items {
            rewrite(client, &resource, one).await?;
            count += 1;
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(count),
        }
    }
}

async fn rewrite(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
) -> Result<(), MigrationError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, resource);
    // Nothing but the version: who changes nothing changes nothing that others wrote meanwhile.
    let nothing = json!({"metadata": {"resourceVersion": object.resource_version()}});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&nothing));
    match api.patch(&name, &parameters, &patch).await {
        Ok(_) => Ok(()),
        // Whoever wrote it in between had it stored anew; who deleted it needs nothing.
        Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_not_found() => Ok(()),
        Err(error) => Err(MigrationError::Resource {
            namespace,
            name,
            error: Box::new(error),
        }),
    }
}

/// The list is older than what the API server remembers.
fn is_expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if answer.code == 410)
}
