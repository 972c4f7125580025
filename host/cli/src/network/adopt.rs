//! `llsd adopt`: takes over a running server of ogx-k8s-operator without replacing its pods.
//!
//! The steps can be interrupted and run again. While objects still belong to the OGXServer, our operator
//! reports that and changes nothing:
//!
//! 1. create the LlamaStackDistribution that the OGXServer is converted to;
//! 2. delete the OGXServer, and leave its objects;
//! 3. label the objects as ours, the Deployment last. The operator adopts them with their selectors, and
//!    keeps the pods until the resource changes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use llsd_api::conversion::{Foreign, OGX_KIND, from_ogx_server};
use llsd_api::{Distribution, labels};
use llsd_render::objects::Kind;
use serde_json::{Value, json};

use crate::network::cluster::ClusterOptions;
use crate::{Exit, output};

const FIELD_MANAGER: &str = "llsd-cli";
/// The leader Lease of ogx-k8s-operator.
const LEASE: &str = "54e06e98.ogx.io";
/// The duration of a Lease that does not state one.
const LEASE_SECONDS: i32 = 15;
/// How long the garbage collector may take to remove the owner of the objects.
const DELETION: Duration = Duration::from_secs(60);
/// The container of the server in pods of ogx-k8s-operator.
const CONTAINER: &str = "ogx";

/// The objects that both operators have under the same name. The Deployment is the last.
const ADOPTED: [(Kind, &str); 10] = [
    (Kind::ServiceAccount, "-sa"),
    (Kind::ConfigMap, "-ca-bundle"),
    (Kind::PersistentVolumeClaim, "-pvc"),
    (Kind::RoleBinding, "-rb"),
    (Kind::NetworkPolicy, "-network-policy"),
    (Kind::Service, "-service"),
    (Kind::PodDisruptionBudget, "-pdb"),
    (Kind::HorizontalPodAutoscaler, "-hpa"),
    (Kind::Ingress, "-ingress"),
    (Kind::Deployment, ""),
];

/// Arguments of `adopt`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the OGXServer
    name: String,
    /// Take it over. Without this option, only show what would happen
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// Shows what a take-over would do, or does it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    arguments.cluster.run(async |client| {
        let adoption = Adoption::plan(client, &arguments.name).await?;
        adoption.print();
        if !arguments.yes {
            output::print_note("nothing was changed; add --yes to take the server over");
            return Ok(Exit::Success);
        }
        adoption.run().await?;
        output::print_note(&format!(
            "done; `llsd why {}` shows the state of the resource",
            arguments.name
        ));
        Ok(Exit::Success)
    })
}

/// A take-over of one server.
struct Adoption {
    client: Client,
    name: String,
    /// The OGXServer; `None` if an interrupted run has deleted it.
    server: Option<DynamicObject>,
    /// Our resource: the existing one of an interrupted run, or the converted one.
    resource: Value,
    is_created: bool,
    /// What our resource cannot say.
    lost: Vec<llsd_api::Diagnostic>,
    /// The objects that exist and do not have our labels yet.
    objects: Vec<(Kind, DynamicObject)>,
}

impl Adoption {
    async fn plan(client: Client, name: &str) -> anyhow::Result<Self> {
        check_operator_stopped(&client).await?;
        let server = ogx_servers(&client)
            .get_opt(name)
            .await
            .with_context(|| format!("failed to get OGXServer {name:?}"))?;
        let existing = Api::<Distribution>::default_namespaced(client.clone())
            .get_opt(name)
            .await
            .context("failed to get the LlamaStackDistribution; check with `llsd doctor` that llsd is installed")?;
        let is_adopting = |one: &Distribution| {
            one.annotations()
                .get(labels::ADOPTED_FROM)
                .is_some_and(|from| from == labels::OGX_MANAGER)
        };
        if let Some(existing) = &existing {
            ensure!(
                is_adopting(existing),
                "a LlamaStackDistribution {name:?} exists already; delete it, or rename it"
            );
        }
        let mut objects = Vec::new();
        for (kind, suffix) in ADOPTED {
            let api = objects_of(&client, kind);
            let object = format!("{name}{suffix}");
            let found = api.get_opt(&object).await;
            let found = found.with_context(|| format!("failed to get {kind:?} {object:?}"))?;
            let is_theirs = |one: &DynamicObject| {
                let manager = one.labels().get(labels::MANAGED_BY);
                manager.is_some_and(|manager| manager == labels::OGX_MANAGER)
            };
            objects.extend(found.filter(is_theirs).map(|found| (kind, found)));
        }
        let (resource, lost) = match (&existing, &server) {
            (Some(existing), _) => (serde_json::to_value(existing)?, Vec::new()),
            (None, Some(server)) => {
                let deployment = objects.iter().find(|(kind, _)| *kind == Kind::Deployment);
                let (_, deployment) = deployment
                    .with_context(|| format!("OGXServer {name:?} has no Deployment yet"))?;
                let Foreign { document, warnings } =
                    from_ogx_server(serde_json::to_value(server)?)?;
                (adopting(document, running_image(deployment)?), warnings)
            }
            (None, None) => anyhow::bail!(
                "namespace {:?} has no OGXServer {name:?}; see `kubectl get ogxservers --all-namespaces`",
                client.default_namespace()
            ),
        };
        Ok(Self {
            name: name.to_owned(),
            server,
            resource,
            is_created: existing.is_some(),
            lost,
            objects,
            client,
        })
    }

    fn print(&self) {
        if !self.lost.is_empty() {
            output::print_diagnostics(&format!("OGXServer {}", self.name), &self.lost);
        }
        let objects: Vec<String> = self
            .objects
            .iter()
            .map(|(kind, object)| format!("{kind:?} {}", object.name_any()))
            .collect();
        output::print_note(&format!(
            "adopts with their pods: {}\nthe pods are replaced when the resource changes for the first time: container, \
             volumes and variables then have the names of this operator",
            objects.join(", ")
        ));
        if let Ok(text) = serde_saphyr::to_string(&self.resource) {
            output::print(&text);
        }
    }

    async fn run(&self) -> anyhow::Result<()> {
        let resources = Api::<Distribution>::default_namespaced(self.client.clone());
        if !self.is_created {
            let resource: Distribution = serde_json::from_value(self.resource.clone())?;
            let parameters = PostParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            resources
                .create(&parameters, &resource)
                .await
                .context("failed to create the LlamaStackDistribution; nothing else was changed")?;
            output::print_note("created the LlamaStackDistribution");
        }
        if let Some(server) = &self.server {
            self.delete_server(server).await?;
            output::print_note("deleted the OGXServer, and left its objects");
        }
        for (kind, object) in &self.objects {
            let change = json!({"metadata": {
                "labels": {
                    labels::MANAGED_BY: labels::MANAGER,
                    labels::PART_OF: labels::PRODUCT,
                    labels::WATCH: "true",
                },
                "ownerReferences": null,
            }});
            let parameters = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let name = object.name_any();
            objects_of(&self.client, *kind)
                .patch_metadata(&name, &parameters, &Patch::Merge(change))
                .await
                .with_context(|| {
                    format!("failed to label {kind:?} {name:?}; run the command again")
                })?;
            output::print_note(&format!("adopted {kind:?} {name}"));
        }
        Ok(())
    }

    /// Deletes the OGXServer without its objects, and waits until it is gone.
    async fn delete_server(&self, server: &DynamicObject) -> anyhow::Result<()> {
        let servers = ogx_servers(&self.client);
        let same = Preconditions {
            uid: server.uid(),
            resource_version: None,
        };
        let parameters = DeleteParams::orphan().preconditions(same);
        servers
            .delete(&self.name, &parameters)
            .await
            .context("failed to delete the OGXServer; run the command again")?;
        let deadline = Instant::now() + DELETION;
        while servers.get_opt(&self.name).await?.is_some() {
            ensure!(
                Instant::now() < deadline,
                "the OGXServer still exists: a finalizer keeps it; run the command again when it is gone"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

/// The converted resource, with what running pods need to stay: their image and the label of their selectors.
fn adopting(mut document: Value, image: &str) -> Value {
    document["metadata"]["annotations"][labels::ADOPTED_FROM] = json!(labels::OGX_MANAGER);
    let distribution = &mut document["spec"]["distribution"];
    distribution["image"] = json!(image);
    if let Some(distribution) = distribution.as_object_mut() {
        distribution.remove("name");
    }
    let name = &mut document["spec"]["workload"]["overrides"]["containerName"];
    if name.is_null() {
        *name = json!(CONTAINER);
    }
    document
}

/// The image of the server container of a Deployment.
fn running_image(deployment: &DynamicObject) -> anyhow::Result<&str> {
    let containers = &deployment.data["spec"]["template"]["spec"]["containers"];
    let containers = containers.as_array().into_iter().flatten();
    let mut servers = containers.filter(|one| one["name"] == CONTAINER);
    let image = servers.next().and_then(|one| one["image"].as_str());
    image.with_context(|| format!("the Deployment has no container {CONTAINER:?}"))
}

/// Two operators would overwrite each other's changes.
async fn check_operator_stopped(client: &Client) -> anyhow::Result<()> {
    let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let leases = Api::<Lease>::all(client.clone()).list(&named).await;
    let leases = leases.context("failed to list Leases, to see whether ogx-k8s-operator runs")?;
    let now = Timestamp::now();
    let held = leases.items.iter().find(|lease| is_held(lease, now));
    if let Some(lease) = held {
        anyhow::bail!(
            "ogx-k8s-operator is still running in namespace {:?}; scale its Deployment to zero, and try again",
            lease.namespace().unwrap_or_default()
        );
    }
    Ok(())
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else {
        return false;
    };
    let has_holder = spec
        .holder_identity
        .as_deref()
        .is_some_and(|one| !one.is_empty());
    let seconds = spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS);
    let duration = SignedDuration::from_secs(i64::from(seconds));
    let renewed = spec.renew_time.as_ref().map(|time| time.0);
    has_holder && renewed.is_some_and(|renewed| now.duration_since(renewed) < duration)
}

fn ogx_servers(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("ogx.io", "v1beta1", OGX_KIND);
    let resource = ApiResource::from_gvk_with_plural(&kind, "ogxservers");
    Api::default_namespaced_with(client.clone(), &resource)
}

fn objects_of(client: &Client, kind: Kind) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &kind.resource())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_converted_resource_names_the_running_image_and_where_it_came_from() {
        let document = json!({
            "metadata": {"name": "chat"},
            "spec": {"distribution": {"name": "starter", "schema": "ogx/1.0"}},
        });
        let adopting = adopting(document, "registry.example/ogx:1.3.0");
        assert_eq!(
            adopting["metadata"]["annotations"],
            json!({"llamastack.io/adopted-from": "ogx-operator"})
        );
        assert_eq!(
            adopting["spec"]["distribution"],
            json!({"image": "registry.example/ogx:1.3.0", "schema": "ogx/1.0"})
        );
        let name = &adopting["spec"]["workload"]["overrides"]["containerName"];
        assert_eq!(name, "ogx");
    }

    #[test]
    fn a_lease_is_held_until_it_expires_or_is_released() {
        let lease = |holder: &str| -> Lease {
            let spec = json!({
                "holderIdentity": holder, "leaseDurationSeconds": 15,
                "renewTime": "2026-11-17T12:00:00.000000Z",
            });
            serde_json::from_value(json!({"metadata": {"name": LEASE}, "spec": spec})).unwrap()
        };
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        assert!(is_held(&lease("one"), at("2026-11-17T12:00:14Z")));
        assert!(!is_held(&lease("one"), at("2026-11-17T12:00:16Z")));
        assert!(!is_held(&lease(""), at("2026-11-17T12:00:01Z")));
    }
}
