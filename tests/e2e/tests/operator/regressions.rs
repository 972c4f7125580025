//! What the first operator did, and what went wrong with it, on a live resource.
//!
//! `tests/behaviours.rs` says which of its behaviours each of these tests shows.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{DEADLINE, Operator, condition, minimal, named, phase};
use llsd_testbed::{Authority, eventually};
use serde_json::{Value, json};

/// Whether the newest spec has reached the Deployment.
fn is_written(cr: &Distribution) -> bool {
    condition(cr, "DeploymentUpdated").is_some_and(|(status, ..)| status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_longer_named_leaves_an_owned_deployment_with_what_others_added() {
    let operator = Operator::start("unnamed").await;
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
    let foreign = json!({"metadata": {
        "labels": {"example.com/team": "ml"},
        "annotations": {"example.com/note": "keep"},
    }});
    deployments
        .patch("minimal", &PatchParams::default(), &Patch::Merge(foreign))
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

    // It is still ours: changes arrive, and it goes with its resource.
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
    operator.wait_until_gone::<Deployment>("minimal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_port_moves_the_service_and_the_pods_and_leaves_nothing_of_the_old_one() {
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
async fn what_is_taken_out_of_a_resource_is_taken_out_of_its_pods() {
    let operator = Operator::start("removed").await;
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
    let racks = before.topology_spread_constraints.unwrap();
    assert_eq!(
        (racks.len(), racks[0].topology_key.as_str()),
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
async fn several_pods_are_spread_and_guarded_and_the_guard_can_change_its_kind() {
    let operator = Operator::start("several").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let one = operator.pod("minimal").await;
    assert_eq!(
        (one.affinity, one.topology_spread_constraints),
        (None, None)
    );
    let budgets: Api<PodDisruptionBudget> = operator.api();
    assert!(budgets.get_opt("minimal-pdb").await.unwrap().is_none());

    operator
        .edit("minimal", json!({"spec": {"workload": {"replicas": 2}}}))
        .await;
    let cr = operator.wait_until_ready("minimal").await;
    assert_eq!(cr.status.unwrap().available_replicas, Some(2));
    let two = operator.pod("minimal").await;
    let apart = two.affinity.unwrap().pod_anti_affinity.unwrap();
    assert_eq!(
        apart
            .preferred_during_scheduling_ignored_during_execution
            .unwrap()
            .len(),
        1
    );
    assert_eq!(two.topology_spread_constraints.unwrap().len(), 3);

    let guards = async |wanted: (Option<i32>, Option<i32>)| {
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
    guards((None, Some(1))).await;
    let budget = |budget: Value| json!({"spec": {"workload": {"podDisruptionBudget": budget}}});
    let least = json!({"minAvailable": 1, "maxUnavailable": null});
    operator.edit("minimal", budget(least)).await;
    guards((Some(1), None)).await;
    let most = json!({"minAvailable": null, "maxUnavailable": 1});
    operator.edit("minimal", budget(most)).await;
    guards((None, Some(1))).await;
    operator.wait_until_ready("minimal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_children_can_have_work_and_others_are_refused_with_the_reason() {
    let operator = Operator::start("names").await;
    let longest = "a".repeat(48);
    operator.create(&named(&longest)).await;
    let too_long = format!("{longest}a");
    for name in [&too_long, "with.dot"] {
        operator.create(&named(name)).await;
        let is_refused = |cr: &Distribution| phase(cr) == Some(Phase::Failed);
        let cr = operator.wait_for(name, "refused", is_refused).await;
        let (_, _, message) = condition(&cr, "ConfigGenerated").unwrap();
        assert!(message.contains("metadata.name: "), "{message}");
        let made = operator.api::<Deployment>().get_opt(name).await.unwrap();
        assert!(made.is_none());
    }
    operator.wait_until_ready(&longest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platforms_authorities_are_trusted_and_new_ones_replace_the_pods_once() {
    let operator = Operator::start("platform").await;
    let authority = || Authority::generate().unwrap().certificate().to_owned();
    let bundle = |keys: &[(&str, &str)]| {
        let data: BTreeMap<_, _> = keys.iter().copied().collect();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "odh-trusted-ca-bundle"}, "data": data,
        })
    };
    // Blank, as the platform leaves it where nothing is to be trusted.
    operator
        .apply(&[bundle(&[
            ("ca-bundle.crt", ""),
            ("odh-ca-bundle.crt", " \n"),
        ])])
        .await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let maps: Api<ConfigMap> = operator.api();
    assert!(maps.get_opt("minimal-ca-bundle").await.unwrap().is_none());

    let (first, second) = (authority(), authority());
    operator
        .apply(&[bundle(&[
            ("ca-bundle.crt", &first),
            ("odh-ca-bundle.crt", " \n"),
        ])])
        .await;
    let holds = |count: usize| {
        move |one: Option<&ConfigMap>| {
            let text = one.and_then(|one| one.data.as_ref()?.get("ca-bundle.crt"));
            text.is_some_and(|text| text.matches("BEGIN CERTIFICATE").count() == count)
        }
    };
    let deployments: Api<Deployment> = operator.api();
    let replaced = |generation: i64| {
        move |one: Option<&Deployment>| {
            one.and_then(|one| one.metadata.generation) == Some(generation)
        }
    };
    for (count, keys) in [
        (1, None),
        (
            2,
            Some([("ca-bundle.crt", &*first), ("odh-ca-bundle.crt", &*second)]),
        ),
    ] {
        if let Some(keys) = keys {
            operator.apply(&[bundle(&keys)]).await;
        }
        eventually(
            &maps,
            "minimal-ca-bundle",
            DEADLINE,
            "gathered",
            holds(count),
        )
        .await
        .unwrap();
        let generation = i64::try_from(count).unwrap() + 1;
        eventually(
            &deployments,
            "minimal",
            DEADLINE,
            "replaced",
            replaced(generation),
        )
        .await
        .unwrap();
        operator.wait_until_ready("minimal").await;
    }
    // Two keys, and nobody touches anything: a touch of the resource replaces no pods.
    operator
        .edit(
            "minimal",
            json!({"metadata": {"labels": {"touched": "yes"}}}),
        )
        .await;
    operator.create(&named("later")).await;
    operator.wait_until_ready("later").await;
    assert_eq!(
        operator.deployment("minimal").await.metadata.generation,
        Some(3)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_has_its_defaults_and_is_never_changed() {
    let operator = Operator::start("claim").await;
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"storage": {}});
    operator.create(&resource).await;
    operator.wait_for("minimal", "written", is_written).await;
    let claims: Api<PersistentVolumeClaim> = operator.api();
    let made = claims.get("minimal-pvc").await.unwrap();
    let requests = made
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
        assert_eq!(json!(now.spec), json!(made.spec));
        assert_eq!(now.uid(), made.uid());
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
async fn a_distribution_that_nobody_knows_is_refused_with_those_that_there_are() {
    let operator = Operator::start("unknown").await;
    let mut resource = minimal();
    resource["spec"]["distribution"] = json!({"name": "startr"});
    operator.create(&resource).await;
    let is_refused = |cr: &Distribution| phase(cr) == Some(Phase::Failed);
    let cr = operator.wait_for("minimal", "refused", is_refused).await;
    let (_, _, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert!(
        message.contains("spec.distribution.name") && message.contains("starter"),
        "{message}"
    );
}
