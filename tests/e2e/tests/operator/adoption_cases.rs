//! Adopts each of the seven upstream cases without replacing a pod, and then changes the resource: fields
//! removed from it are removed from the cluster.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator};
use llsd_testbed::eventually;
use serde_json::json;

use crate::adoption::adopt;
use crate::upstream::{UpstreamSnapshot, snapshot};

/// The variables that our operator sets.
const OURS: [&str; 4] = ["HF_HOME", "LLS_WORKERS", "LLS_PORT", "LLAMA_STACK_CONFIG"];

/// The variables that lead the data of the distribution to its volume.
const DATA: [&str; 4] = [
    "LLAMA_STACK_CONFIG_DIR",
    "OGX_CONFIG_DIR",
    "FILES_STORAGE_DIR",
    "SQLITE_STORE_DIR",
];

fn pod(deployment: Option<&Deployment>) -> Option<&PodSpec> {
    deployment?.spec.as_ref()?.template.spec.as_ref()
}

fn variables(pod: &PodSpec) -> Vec<&str> {
    let all = pod.containers[0].env.iter().flatten();
    all.map(|one| one.name.as_str()).collect()
}

async fn wait_for_pod(operator: &Operator, name: &str, state: &str, holds: fn(&PodSpec) -> bool) {
    let holds = |one: &Deployment| pod(Some(one)).is_some_and(holds);
    operator.wait_for_deployment(name, state, holds).await;
}

/// Changes the pod template and reverts the change. Afterwards nothing of upstream's remains in it.
async fn change_and_change_back(operator: &Operator, name: &str) {
    let extra = json!([{"name": "EXTRA", "value": "1"}]);
    let set = |env| json!({"spec": {"workload": {"overrides": {"env": env}}}});
    operator.edit(name, set(extra)).await;
    wait_for_pod(operator, name, "with the variable", |pod| {
        variables(pod).contains(&"EXTRA")
    })
    .await;
    operator.edit(name, set(json!(null))).await;
    wait_for_pod(operator, name, "with our variables only", |pod| {
        let probe = pod.containers[0].startup_probe.as_ref();
        variables(pod) == OURS && probe.is_some_and(|probe| probe.initial_delay_seconds.is_none())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minimal_upstream_resource_is_adopted() {
    let (operator, name) = adopt(snapshot!("minimal"), "adopt-minimal").await;
    change_and_change_back(&operator, &name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_resource_without_a_service_is_adopted_and_gets_one() {
    let (operator, name) = adopt(snapshot!("minimal-noport"), "adopt-noport").await;
    change_and_change_back(&operator, &name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_resource_with_storage_is_adopted_and_removed_variables_are_pruned() {
    let (operator, name) = adopt(snapshot!("env-storage"), "adopt-storage").await;
    let before = operator.api::<Deployment>().get(&name).await.unwrap();
    assert_eq!(variables(pod(Some(&before)).unwrap()).len(), OURS.len() + 2);
    let none = json!({"spec": {"workload": {"overrides": {"env": null}}}});
    operator.edit(&name, none).await;
    wait_for_pod(&operator, &name, "without the removed fields", |pod| {
        let (own, data) = variables(pod)
            .into_iter()
            .partition::<Vec<_>, _>(|one| OURS.contains(one));
        own == OURS && data == DATA
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_user_config_keeps_the_upstream_start_script_until_it_changes_or_is_removed() {
    let (operator, name) = adopt(snapshot!("user-config"), "adopt-config").await;
    let change = Patch::Merge(json!({"data": {"config.yaml": "version: '2'\n"}}));
    operator
        .api::<ConfigMap>()
        .patch("stack-config", &PatchParams::default(), &change)
        .await
        .unwrap();
    wait_for_pod(&operator, &name, "started by its image", |pod| {
        pod.containers[0].command.is_none()
    })
    .await;
    operator.wait_until_ready(&name).await;

    let none = json!({"spec": {"overrideConfig": null}});
    operator.edit(&name, none).await;
    wait_for_pod(&operator, &name, "without the file", |pod| {
        let mut volumes = pod.volumes.iter().flatten();
        volumes.all(|one| one.config_map.is_none())
    })
    .await;
    operator.wait_until_ready(&name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_resource_with_a_ca_bundle_is_adopted_and_the_bundle_can_be_removed() {
    let (operator, name) = adopt(snapshot!("ca-bundle"), "adopt-ca").await;
    let none = json!({"spec": {"networking": {"tls": null}}});
    operator.edit(&name, none).await;
    wait_for_pod(&operator, &name, "without the removed fields", |pod| {
        let mounts = pod.containers[0].volume_mounts.iter().flatten();
        !variables(pod).contains(&"SSL_CERT_FILE") && mounts.count() == 1
    })
    .await;
    let maps = operator.api::<ConfigMap>();
    eventually(&maps, "withca-ca-bundle", DEADLINE, "deleted", |one| {
        one.is_none()
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaled_upstream_resource_is_adopted_with_its_replica_count() {
    let (operator, name) = adopt(snapshot!("autoscaling"), "adopt-scaled").await;
    let none = json!({"spec": {"workload": {"autoscaling": null}}});
    operator.edit(&name, none).await;
    let scalers = operator.api::<HorizontalPodAutoscaler>();
    eventually(&scalers, "scaled-hpa", DEADLINE, "deleted", |one| {
        one.is_none()
    })
    .await
    .unwrap();
    let cr = operator.wait_until_ready(&name).await;
    assert_eq!(cr.status.unwrap().available_replicas, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_resource_with_every_field_is_adopted_and_removed_fields_are_pruned() {
    let (operator, name) = adopt(snapshot!("everything"), "adopt-all").await;
    let policies = operator.api::<NetworkPolicy>();
    let peers = |policy: &NetworkPolicy| {
        let rules = policy.spec.as_ref().and_then(|spec| spec.ingress.as_ref());
        rules.map(|rules| rules[0].from.as_ref().map_or(0, Vec::len))
    };
    let before = policies.get("full-network-policy").await.unwrap();
    assert!(peers(&before) > Some(1));

    let less = json!({"spec": {
        "networking": {"expose": null, "allowedFrom": null},
        "workload": {
            "podDisruptionBudget": null,
            "topologySpreadConstraints": null,
            "overrides": {"volumes": null, "volumeMounts": null, "terminationGracePeriodSeconds": null},
        },
    }});
    operator.edit(&name, less).await;
    wait_for_pod(&operator, &name, "with less", |pod| {
        let volumes = pod.volumes.iter().flatten();
        let grace = pod.termination_grace_period_seconds;
        volumes.count() == 1 && grace == Some(30)
    })
    .await;
    let ingresses = operator.api::<Ingress>();
    eventually(&ingresses, "full-ingress", DEADLINE, "deleted", |one| {
        one.is_none()
    })
    .await
    .unwrap();
    let budgets = operator.api::<PodDisruptionBudget>();
    let is_default = |one: Option<&PodDisruptionBudget>| {
        let spec = one.and_then(|one| one.spec.as_ref());
        spec.is_some_and(|spec| spec.min_available.is_none() && spec.max_unavailable.is_some())
    };
    eventually(&budgets, "full-pdb", DEADLINE, "by default", is_default)
        .await
        .unwrap();
    // The upstream feature flag is on: the policy stays and allows its own namespace.
    let is_less = |one: Option<&NetworkPolicy>| one.and_then(peers) == Some(1);
    eventually(&policies, "full-network-policy", DEADLINE, "less", is_less)
        .await
        .unwrap();
    operator.wait_until_ready(&name).await;
    // The pods keep their ServiceAccount without the consent of the installer, but get no other one.
    let account = |pod: &PodSpec| pod.service_account_name.clone();
    assert_eq!(
        account(&operator.pod(&name).await).as_deref(),
        Some("runner")
    );
    let other = json!({"spec": {"workload": {"overrides": {"serviceAccountName": "default"}}}});
    operator.edit(&name, other).await;
    let is_rejected = |cr: &Distribution| {
        let field = "spec.workload.overrides.serviceAccountName: ";
        let conditions = &cr.status.as_ref().unwrap().conditions;
        conditions.iter().any(|one| one.message.contains(field))
    };
    operator.wait_for(&name, "rejected", is_rejected).await;
    assert_eq!(
        account(&operator.pod(&name).await).as_deref(),
        Some("runner")
    );
}
