//! Behaviour of llama-stack-k8s-operator that must not change, and bugs of it that we must not have.
//!
//! `tests/behaviours.rs` maps each behaviour to a test.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{DEADLINE, Operator, condition, has_condition, minimal, named, phase};
use llsd_testbed::eventually;
use serde_json::{Value, json};

use crate::operator_settings::allow_privileged_pods;

/// Whether the Deployment has been updated to the newest spec.
fn is_written(cr: &Distribution) -> bool {
    has_condition(cr, "DeploymentUpdated", "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_an_override_config_keeps_the_owner_and_the_fields_of_other_managers() {
    let operator = Operator::start("no-override").await;
    operator
        .apply(&[json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "mine"}, "data": {"config.yaml": "version: 2"},
        })])
        .await;
    let mut resource = minimal();
    resource["spec"] = json!({
        "distribution": {"name": "starter"},
        "overrideConfig": {"configMapName": "mine"},
    });
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let deployments: Api<Deployment> = operator.api();
    let other_fields = json!({"metadata": {
        "labels": {"example.com/team": "ml"},
        "annotations": {"example.com/note": "keep"},
    }});
    deployments
        .patch(
            "minimal",
            &PatchParams::default(),
            &Patch::Merge(other_fields),
        )
        .await
        .unwrap();
    let names = async || -> Vec<String> {
        let volumes = operator.pod("minimal").await.volumes.unwrap();
        volumes.into_iter().map(|one| one.name).collect()
    };
    let before = names().await;

    let none = json!({"spec": {"overrideConfig": null}});
    operator.edit("minimal", none).await;
    let cr = operator.wait_until_ready("minimal").await;
    let after = names().await;
    assert!(
        before.len() == 2 && after == ["lls-storage"],
        "{before:?} {after:?}"
    );
    let live = operator.deployment("minimal").await;
    assert_eq!(live.labels()["example.com/team"], "ml");
    assert_eq!(live.annotations()["example.com/note"], "keep");
    let owners = live.owner_references();
    assert_eq!((owners.len(), &owners[0].uid), (1, &cr.uid().unwrap()));

    // The operator still owns it: it applies changes and deletes it with its resource.
    let variable = json!([{"name": "LATER", "value": "1"}]);
    let change = json!({"spec": {"workload": {"overrides": {"env": variable}}}});
    operator.edit("minimal", change).await;
    operator.wait_until_ready("minimal").await;
    let variables = operator
        .pod("minimal")
        .await
        .containers
        .remove(0)
        .env
        .unwrap();
    assert!(variables.iter().any(|one| one.name == "LATER"));
    let resources: Api<Distribution> = operator.api();
    let now = DeleteParams::background();
    resources.delete("minimal", &now).await.unwrap();
    operator.wait_until_deleted::<Deployment>("minimal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_port_updates_the_service_and_the_pods() {
    let operator = Operator::start("port").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let change = json!({"spec": {"networking": {"port": 9000}}});
    operator.edit("minimal", change).await;
    let cr = operator.wait_until_ready("minimal").await;
    let service = operator.api::<Service>().get("minimal-service").await;
    let ports = service.unwrap().spec.unwrap().ports.unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!(
        (ports[0].port, ports[0].name.as_deref()),
        (9000, Some("http"))
    );
    let container = operator.pod("minimal").await.containers.remove(0);
    let ports: Vec<_> = container
        .ports
        .unwrap()
        .iter()
        .map(|one| one.container_port)
        .collect();
    assert_eq!(ports, [9000]);
    let url = cr.status.unwrap().service_url.unwrap();
    assert!(url.ends_with(":9000"), "{url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_removed_from_a_resource_are_removed_from_its_pods() {
    let operator = Operator::start("removed").await;
    allow_privileged_pods(&operator).await;
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "llama-stack"}},
    });
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({
        "resources": {"limits": {"memory": "2Gi"}},
        "topologySpreadConstraints": [constraint],
        "overrides": {
            "serviceAccountName": "default",
            "env": [{"name": "KEPT", "value": "1"}, {"name": "REMOVED", "value": "1"}],
            "command": ["serve"], "args": ["--now"],
            "volumes": [{"name": "extra", "emptyDir": {}}],
            "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
            "terminationGracePeriodSeconds": 120,
        },
    });
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let before = operator.pod("minimal").await;
    let container = &before.containers[0];
    assert_eq!(before.service_account_name.as_deref(), Some("default"));
    assert_eq!(before.termination_grace_period_seconds, Some(120));
    let constraints = before.topology_spread_constraints.unwrap();
    assert_eq!(
        (constraints.len(), constraints[0].topology_key.as_str()),
        (1, "example.com/rack")
    );
    assert_eq!(
        container.command.as_deref(),
        Some(&["serve".to_owned()][..])
    );
    assert!(
        container
            .volume_mounts
            .as_ref()
            .unwrap()
            .iter()
            .any(|one| one.name == "extra")
    );
    let names = |variables: Option<Vec<_>>| -> Vec<String> {
        let variables: Vec<k8s_openapi::api::core::v1::EnvVar> = variables.unwrap();
        variables.into_iter().map(|one| one.name).collect()
    };
    assert_eq!(names(container.env.clone()).last().unwrap(), "REMOVED");

    let change = json!({"spec": {"workload": {
        "resources": null,
        "topologySpreadConstraints": null,
        "overrides": {
            "serviceAccountName": null,
            "env": [{"name": "KEPT", "value": "1"}],
            "command": null, "args": null, "volumes": null, "volumeMounts": null,
            "terminationGracePeriodSeconds": 0,
        },
    }}});
    operator.edit("minimal", change).await;
    operator.wait_until_ready("minimal").await;
    let mut after = operator.pod("minimal").await;
    let container = after.containers.remove(0);
    assert_eq!(after.service_account_name.as_deref(), Some("minimal-sa"));
    assert_eq!(after.termination_grace_period_seconds, Some(0));
    assert_eq!(after.topology_spread_constraints, None);
    assert_eq!((container.command, container.args), (None, None));
    assert_eq!(container.resources.unwrap().limits, None);
    let mounts = container.volume_mounts.unwrap();
    assert!(mounts.iter().all(|one| one.name != "extra"));
    assert!(after.volumes.unwrap().iter().all(|one| one.name != "extra"));
    let variables = names(container.env);
    assert!(variables.contains(&"KEPT".to_owned()) && !variables.contains(&"REMOVED".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_spread_and_protected_by_a_disruption_budget_that_can_change() {
    let operator = Operator::start("several").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let one = operator.pod("minimal").await;
    assert_eq!(
        (&one.affinity, &one.topology_spread_constraints),
        (&None, &None)
    );
    let budgets: Api<PodDisruptionBudget> = operator.api();
    assert!(budgets.get_opt("minimal-pdb").await.unwrap().is_none());

    operator
        .edit("minimal", json!({"spec": {"workload": {"replicas": 2}}}))
        .await;
    let cr = operator.wait_until_ready("minimal").await;
    assert_eq!(cr.status.unwrap().available_replicas, Some(2));
    assert_eq!(
        operator.pod("minimal").await,
        one,
        "scaling replaces no pod"
    );
    let mut several = named("several");
    several["spec"]["workload"] = json!({"replicas": 2});
    operator.create(&several).await;
    operator.wait_until_ready("several").await;
    let two = operator.pod("several").await;
    let anti_affinity = two.affinity.unwrap().pod_anti_affinity.unwrap();
    assert_eq!(
        anti_affinity
            .preferred_during_scheduling_ignored_during_execution
            .unwrap()
            .len(),
        1
    );
    assert_eq!(two.topology_spread_constraints.unwrap().len(), 3);

    let wait_for_budget = async |wanted: (Option<i32>, Option<i32>)| {
        let is_as_wanted = |one: Option<&PodDisruptionBudget>| {
            one.and_then(|one| one.spec.as_ref()).is_some_and(|spec| {
                (&spec.min_available, &spec.max_unavailable)
                    == (
                        &wanted.0.map(IntOrString::Int),
                        &wanted.1.map(IntOrString::Int),
                    )
            })
        };
        eventually(&budgets, "minimal-pdb", DEADLINE, "as wanted", is_as_wanted)
            .await
            .unwrap();
    };
    wait_for_budget((None, Some(1))).await;
    let budget = |budget: Value| json!({"spec": {"workload": {"podDisruptionBudget": budget}}});
    let least = json!({"minAvailable": 1, "maxUnavailable": null});
    operator.edit("minimal", budget(least)).await;
    wait_for_budget((Some(1), None)).await;
    let most = json!({"minAvailable": null, "maxUnavailable": 1});
    operator.edit("minimal", budget(most)).await;
    wait_for_budget((None, Some(1))).await;
    operator.wait_until_ready("minimal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_valid_for_every_child_work_and_others_are_rejected_with_the_reason() {
    let operator = Operator::start("names").await;
    let longest = "a".repeat(48);
    operator.create(&named(&longest)).await;
    let too_long = format!("{longest}a");
    for name in [&too_long, "with.dot"] {
        operator.create(&named(name)).await;
        let is_rejected = |cr: &Distribution| phase(cr) == Some(Phase::Failed);
        let cr = operator.wait_for(name, "rejected", is_rejected).await;
        let (_, _, message) = condition(&cr, "ConfigGenerated").unwrap();
        assert!(message.contains("metadata.name: "), "{message}");
        let deployment = operator.api::<Deployment>().get_opt(name).await.unwrap();
        assert!(deployment.is_none());
    }
    operator.wait_until_ready(&longest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_claim_gets_defaults_and_is_never_changed() {
    let operator = Operator::start("claim").await;
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"storage": {}});
    operator.create(&resource).await;
    operator.wait_for("minimal", "written", is_written).await;
    let claims: Api<PersistentVolumeClaim> = operator.api();
    let created = claims.get("minimal-pvc").await.unwrap();
    let requests = created
        .spec
        .as_ref()
        .unwrap()
        .resources
        .as_ref()
        .unwrap()
        .requests
        .as_ref();
    assert_eq!(requests.unwrap()["storage"].0, "10Gi");
    let mounts = operator
        .pod("minimal")
        .await
        .containers
        .remove(0)
        .volume_mounts
        .unwrap();
    let storage = mounts.iter().find(|one| one.name == "lls-storage");
    assert_eq!(storage.unwrap().mount_path, "/.llama");

    for storage in [json!({"size": "20Gi"}), Value::Null] {
        let change = json!({"spec": {"workload": {"storage": storage}}});
        operator.edit("minimal", change).await;
        operator.wait_for("minimal", "written", is_written).await;
        let now = claims.get("minimal-pvc").await.unwrap();
        assert_eq!(json!(now.spec), json!(created.spec));
        assert_eq!(now.uid(), created.uid());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_child_has_one_owner_and_the_service_selects_exactly_the_pods() {
    let operator = Operator::start("owners").await;
    let mut resource = minimal();
    resource["spec"]["networking"] = json!({"expose": true, "allowedFrom": {"namespaces": ["*"]}});
    resource["spec"]["workload"] = json!({"replicas": 2, "storage": {"size": "1Gi"}});
    operator.create(&resource).await;
    let cr = operator.wait_for("minimal", "written", is_written).await;
    let kinds = "deployments,services,serviceaccounts,persistentvolumeclaims,configmaps,\
        networkpolicies,poddisruptionbudgets,ingresses";
    let children = operator.children(kinds).await;
    assert_eq!(children.len(), 8, "{children:#?}");
    for child in children {
        let owners = child["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 1, "{child}");
        assert_eq!(owners[0]["uid"], json!(cr.meta().uid));
    }
    let service = operator
        .api::<Service>()
        .get("minimal-service")
        .await
        .unwrap();
    let spec = service.spec.unwrap();
    assert_eq!(spec.ports.unwrap().len(), 1);
    let template = operator.deployment("minimal").await.spec.unwrap().template;
    let labels = template.metadata.unwrap().labels.unwrap();
    for (key, value) in spec.selector.unwrap() {
        assert_eq!(labels.get(&key), Some(&value));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_distribution_is_rejected_with_a_list_of_the_known_ones() {
    let operator = Operator::start("unknown").await;
    let mut resource = minimal();
    resource["spec"]["distribution"] = json!({"name": "startr"});
    operator.create(&resource).await;
    let is_rejected = |cr: &Distribution| phase(cr) == Some(Phase::Failed);
    let cr = operator.wait_for("minimal", "rejected", is_rejected).await;
    let (_, _, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert!(
        message.contains("spec.distribution.name") && message.contains("starter"),
        "{message}"
    );
}
