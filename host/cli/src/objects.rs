//! The Kubernetes objects of a resource, without a cluster, for `llsd render --output objects` and
//! `llsd diff`.
//!
//! In: a checked resource and its configuration. Out: every object that the operator would create, as
//! YAML. What only a cluster knows is left out: owner references, digests of secret values, and Secrets
//! that the operator derives from other Secrets.

use llsd_api::checked::{Checked, ServerSource};
use llsd_api::{Diagnostics, FieldPath};
use llsd_render::distributions::KnownDistribution;
use llsd_render::objects::{
    Cluster, ConfigPlan, DESIRED_DIGEST, DerivedValues, GatewayApi, Kind, ObjectInputs, Owner,
    Privileges, build_objects,
};
use llsd_render::{EntryPoint, ServerFacts, data_folders, yaml};
use serde_json::Value;

use crate::operator_config_map::Distributions;

/// One object.
pub(crate) struct RenderedObject {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) yaml: String,
}

/// The objects as one file, in the order in which the operator writes them.
pub(crate) fn as_yaml(
    checked: &Checked,
    plan: &ConfigPlan,
    distributions: &Distributions,
) -> Result<String, Diagnostics> {
    let objects = list(checked, plan, distributions)?.into_iter();
    let documents: Vec<String> = objects.map(|object| object.yaml).collect();
    Ok(documents.join("---\n"))
}

/// The objects, in the order in which the operator writes them.
pub(crate) fn list(
    checked: &Checked,
    plan: &ConfigPlan,
    distributions: &Distributions,
) -> Result<Vec<RenderedObject>, Diagnostics> {
    let known = match &checked.server {
        ServerSource::Named(name) => Some(named(name, distributions)?),
        ServerSource::Image(_) => None,
    };
    let image = match (&checked.server, known) {
        (ServerSource::Image(image), _) => image.as_str(),
        (ServerSource::Named(_), known) => known.map_or("", |known| known.image.as_str()),
    };
    let listed = known.and_then(|known| known.schema.as_deref());
    let server = ServerFacts {
        user: known
            .and_then(|known| known.user)
            .map(|user| user.to_string()),
        entry_point: EntryPoint::of(image, checked.schema.as_deref().or(listed)),
        data_folders: known
            .and_then(|known| known.base.as_deref())
            .and_then(data_folders),
    };
    let owner = Owner {
        namespace: checked
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned()),
        name: checked.name.clone(),
        uid: String::new(),
        pod_app: checked.pod_app,
    };
    // Offline, the cluster is assumed to have what the resource uses.
    let cluster = Cluster {
        gateway_api: GatewayApi::COMPLETE,
        has_pod_monitors: true,
        ..Cluster::default()
    };
    let desired = build_objects(&ObjectInputs {
        checked,
        image,
        server: &server,
        plan,
        secrets_digest: None,
        owner: &owner,
        cluster: &cluster,
        ca_bundle: None,
        derived: &DerivedValues::default(),
        network_policy: None,
        allows_any_uid: false,
        // The installer decides in the cluster.
        allows_privileged_pods: true,
        kept_privileges: &Privileges::default(),
    })?;
    let objects = desired.children().map(|child| RenderedObject {
        kind: child.kind.resource().kind,
        name: child.name.clone(),
        yaml: match child.kind {
            Kind::Secret => format!(
                "# Secret {}: the operator creates it from values of other Secrets\n",
                child.name
            ),
            _ => yaml::write(&offline(child.object.clone())),
        },
    });
    Ok(objects.collect())
}

fn named<'a>(
    name: &str,
    distributions: &'a Distributions,
) -> Result<&'a KnownDistribution, Diagnostics> {
    let field = || FieldPath::spec().at(&["distribution", "name"]);
    match distributions.get(name) {
        Some(Ok(known)) => Ok(known),
        Some(Err(problem)) => Err(Diagnostics::from(llsd_api::Diagnostic::error(
            field(),
            problem.clone(),
            "correct the ConfigMap in the file of --settings",
        ))),
        None => Err(Diagnostics::from(llsd_api::Diagnostic::error(
            field(),
            format!("no distribution is called {name:?}"),
            llsd_api::choices(name, distributions.keys().map(String::as_str)),
        ))),
    }
}

/// The object without what only a cluster knows.
fn offline(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| key != "ownerReferences");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|key, _| key != DESIRED_DIGEST);
        }
    }
    object
}
