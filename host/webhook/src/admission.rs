//! `/validate`: responds to an `AdmissionReview`.
//!
//! Checks what the CRD schema and the admission policy cannot: rules that span the whole resource, the
//! diagnostics of the plugins, and whether the referenced Secrets and ConfigMaps exist. A missing object
//! is only a warning, because manifests may be applied in any order.

use std::sync::Arc;

use axum::body::Bytes;
use kube::Client;
use llsd_blocking::ADMISSION;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinError;

use crate::admission_decision::{Decision, invalid_review};
use crate::admission_request::{Precheck, ValidResource, parse, precheck};
use crate::base_config::{self, ImageReader};
use crate::preview::{Catalog, preview};
use crate::references::{ObjectIndex, missing_references};
use crate::server::compute;

/// The dependencies of admission.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) images: Arc<dyn ImageReader>,
    pub(crate) objects: Arc<dyn ObjectIndex>,
    pub(crate) catalog: watch::Receiver<Arc<Catalog>>,
}

/// A request that was checked by itself.
struct Prechecked {
    uid: String,
    is_v1alpha1: bool,
    precheck: Precheck,
}

/// Responds to a review. An invalid review gets a response too.
pub(crate) async fn respond(context: &Context, body: Bytes) -> Result<Value, JoinError> {
    let parse_and_check = move |body: &[u8]| {
        let request = parse(body)?;
        Ok::<_, String>(Prechecked {
            precheck: precheck(&request),
            uid: request.uid().to_owned(),
            is_v1alpha1: request.is_v1alpha1(),
        })
    };
    let Prechecked {
        uid,
        is_v1alpha1,
        precheck,
    } = match compute(body, parse_and_check).await? {
        Ok(checked) => checked,
        Err(reason) => return Ok(invalid_review(&reason)),
    };
    let decision = match precheck {
        Precheck::Decided(decision) => decision,
        Precheck::Valid(resource) => check_in_context(context, *resource).await?,
    };
    Ok(decision.into_review(&uid, is_v1alpha1))
}

/// Adds the diagnostics that depend on the plugins and the cluster. References are checked last, so
/// that objects created just before the resource have time to reach the watches.
async fn check_in_context(
    context: &Context,
    resource: ValidResource,
) -> Result<Decision, JoinError> {
    let Context {
        client,
        images,
        objects,
        catalog,
    } = context;
    let ValidResource {
        checked,
        namespace,
        status,
        mut decision,
    } = resource;
    let (checked, catalog) = (Arc::new(checked), catalog.borrow().clone());
    let base = base_config::fetch(client, images, &catalog, &namespace, &checked).await;
    let (base, base_warning) = match base {
        Ok(base) => (base, None),
        Err(warning) => (None, Some(warning)),
    };
    let of_override = base_config::check_override(client, &namespace, &checked).await;
    let resource = checked.clone();
    let previewed = ADMISSION
        .run(move || preview(&catalog, &resource, base, &status))
        .await?;
    let missing = missing_references(objects.as_ref(), &namespace, &checked);
    let diagnostics = missing.into_iter().chain(base_warning);
    let diagnostics = diagnostics.chain(of_override).chain(previewed);
    diagnostics.for_each(|diagnostic| decision.add(diagnostic));
    Ok(decision)
}
