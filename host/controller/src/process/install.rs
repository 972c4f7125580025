//! Installs the cluster-wide objects for an operator that runs outside the cluster (`--dev`): the
//! CRDs, the admission policy and the webhook configuration.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Resource, ResourceExt};
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::{
    Webhook, admission_policy, admission_policy_binding, distribution_crd, schema_plugin_crd,
    validating_webhook,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The API server usually serves a new CRD within a second.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

/// Why the installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The API server rejected an object.
    #[error("failed to apply {name:?}")]
    Refused {
        /// The object.
        name: String,
        /// The error of the API server.
        #[source]
        error: Box<kube::Error>,
    },
    /// The API server accepted a CRD but does not serve it.
    #[error(
        "the CRD {0:?} is not established after {ESTABLISHED_WITHIN:?}; check its status conditions"
    )]
    NotEstablished(String),
}

/// Applies the CRDs of both kinds and waits until they are established.
///
/// Without a conversion webhook the API server would return unconverted resources, so without
/// `webhook` only v1alpha2 is served.
pub async fn install_definitions(
    client: &Client,
    webhook: Option<&Webhook>,
) -> Result<(), InstallError> {
    let mut distribution = distribution_crd(webhook);
    if webhook.is_none() {
        for version in &mut distribution.spec.versions {
            version.served = version.storage;
        }
    }
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    for definition in [distribution, schema_plugin_crd()] {
        let name = definition.name_any();
        api.patch(&name, &parameters, &Patch::Apply(&definition))
            .await
            .map_err(refused(&name))?;
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

/// Applies the admission policy and the configuration of the validating webhook.
pub async fn install_admission(client: &Client, webhook: &Webhook) -> Result<(), InstallError> {
    apply::<ValidatingAdmissionPolicy>(client, &admission_policy()).await?;
    apply::<ValidatingAdmissionPolicyBinding>(client, &admission_policy_binding()).await?;
    apply::<ValidatingWebhookConfiguration>(client, &validating_webhook(webhook)).await
}

async fn apply<K>(client: &Client, object: &Value) -> Result<(), InstallError>
where
    K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Api::<K>::all(client.clone())
        .patch(
            name,
            &PatchParams::apply(FIELD_MANAGER).force(),
            &Patch::Apply(object),
        )
        .await
        .map_err(refused(&format!("{} {name}", K::kind(&()))))?;
    Ok(())
}

fn refused(name: &str) -> impl FnOnce(kube::Error) -> InstallError {
    let name = name.to_owned();
    move |error| InstallError::Refused {
        name,
        error: Box::new(error),
    }
}
