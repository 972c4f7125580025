//! The definitions, for an operator that runs from a laptop.
//!
//! There is no conversion webhook yet, and without one the two versions of the API would show
//! different things of one resource: so only v1alpha2 is served.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::{distribution_crd, schema_plugin_crd};

/// A definition that is accepted is served within moments.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

/// Why the definitions are not there.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The API server refused one.
    #[error("the API server did not take the definition {name:?}")]
    Refused {
        /// The definition.
        name: String,
        /// What it said.
        #[source]
        error: Box<kube::Error>,
    },
    /// It was taken and is not served.
    #[error(
        "the definition {0:?} is not served after {ESTABLISHED_WITHIN:?}; look at its conditions"
    )]
    NotEstablished(String),
}

/// Applies the definitions of both kinds and waits until they are served.
pub async fn install_definitions(client: &Client) -> Result<(), InstallError> {
    let mut distribution = distribution_crd(None);
    for version in &mut distribution.spec.versions {
        version.served = version.storage;
    }
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    for definition in [distribution, schema_plugin_crd()] {
        let name = definition.name_any();
        let refused = |error| InstallError::Refused {
            name: name.clone(),
            error: Box::new(error),
        };
        api.patch(&name, &parameters, &Patch::Apply(&definition))
            .await
            .map_err(refused)?;
        let established = await_condition(api.clone(), &name, conditions::is_crd_established());
        let is_served = matches!(
            tokio::time::timeout(ESTABLISHED_WITHIN, established).await,
            Ok(Ok(_))
        );
        if !is_served {
            return Err(InstallError::NotEstablished(name));
        }
    }
    Ok(())
}
