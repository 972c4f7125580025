//! Everything that an operator does, brought about.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use llsd_api::{DISTRIBUTION_CRD_NAME, Distribution, SchemaPlugin, Webhook};
use llsd_controller::{install_admission, install_definitions};
use llsd_e2e::{
    DEADLINE, Operator, SERVED_BY, Shelf, Stage, condition, config_map, named, serve_webhooks,
};
use llsd_testbed::{Authority, eventually, until};
use llsd_webhook::Periods;
use serde_json::{Value, json};

/// A certificate whose successor is announced at once, and serves long after the test.
const SOON_ANNOUNCED: Periods = Periods {
    valid: Duration::from_secs(3600),
    renew_before: Duration::from_secs(3599),
    settle: Duration::from_secs(1800),
    overlap: Duration::from_secs(1800),
};

/// Installs everything but the authority, which is the webhook's own to fill in.
pub(crate) async fn publish_webhooks(stage: &Stage) {
    let kubeconfig = stage.testbed.kubeconfig(&stage.user).unwrap();
    let home = stage.home.as_ref().unwrap().name();
    let webhook = serve_webhooks(kubeconfig, home, SOON_ANNOUNCED)
        .await
        .unwrap();
    let unsigned = Webhook {
        ca_bundle: None,
        ..webhook
    };
    install_definitions(&stage.client, Some(&unsigned))
        .await
        .unwrap();
    install_admission(&stage.client, &unsigned).await.unwrap();
}

/// Resources of which the definition says that some may be stored as v1alpha1.
pub(crate) async fn leave_unmigrated(stage: &Stage) {
    let resource: Distribution = serde_json::from_value(named("unmigrated")).unwrap();
    // Refused until the webhook can be believed.
    until("the webhook answers", DEADLINE, || async {
        Ok(stage
            .api()
            .create(&PostParams::default(), &resource)
            .await?)
    })
    .await
    .unwrap();
    let stored = json!({"status": {"storedVersions": ["v1alpha1", "v1alpha2"]}});
    definitions(stage)
        .patch_status(
            DISTRIBUTION_CRD_NAME,
            &PatchParams::default(),
            &Patch::Merge(stored),
        )
        .await
        .unwrap();
}

pub(crate) async fn wait_until_migrated(stage: &Stage) {
    let is_migrated = |one: Option<&CustomResourceDefinition>| {
        one.and_then(|one| one.status.as_ref()?.stored_versions.as_deref())
            == Some(&["v1alpha2".to_owned()])
    };
    eventually(
        &definitions(stage),
        DISTRIBUTION_CRD_NAME,
        DEADLINE,
        "migrated",
        is_migrated,
    )
    .await
    .unwrap();
}

fn definitions(stage: &Stage) -> Api<CustomResourceDefinition> {
    Api::all(stage.client.clone())
}

/// A resource that asks for every child, then for none of those that it can do without, then for one
/// file after the other.
pub(crate) async fn grow_and_shrink(operator: &Operator) {
    let file = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "mine"}, "data": {"config.yaml": "version: 2"},
    });
    operator.apply(&[postgres(), file]).await;
    let mut resource = named("overridden");
    resource["spec"] = json!({
        "distribution": {"name": "starter"},
        "overrideConfig": {"configMapName": "mine"},
    });
    operator.create(&resource).await;
    operator.wait_until_ready("overridden").await;

    let mut resource = with_every_child("whole");
    resource["spec"]["storage"] = on_postgres("whole")["spec"]["storage"].take();
    operator.create(&resource).await;
    // Nobody provides the volume, so it never gets ready.
    let is_written = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated").is_some_and(|(status, ..)| status == "True")
    };
    operator.wait_for("whole", "written", is_written).await;
    let none = json!({"spec": {"networking": null, "workload": null, "storage": null}});
    operator.edit("whole", none).await;
    operator.wait_until_gone::<Ingress>("whole-ingress").await;
    operator
        .wait_until_gone::<NetworkPolicy>("whole-network-policy")
        .await;
    operator
        .wait_until_gone::<PodDisruptionBudget>("whole-pdb")
        .await;
    operator
        .wait_until_gone::<HorizontalPodAutoscaler>("whole-hpa")
        .await;
    operator.wait_until_gone::<Secret>("whole-derived").await;
    let first = config_map(&operator.wait_until_ready("whole").await);
    for model in ["second", "third"] {
        let change = json!({"spec": {"resources": {"models": [model]}}});
        operator.edit("whole", change).await;
        operator.wait_until_ready("whole").await;
    }
    operator.wait_until_gone::<ConfigMap>(&first).await;
}

/// Objects of somebody else's under the names of every child: each is looked at.
pub(crate) async fn meet_others(operator: &Operator) {
    let template = json!({
        "metadata": {"labels": {"app": "other"}},
        "spec": {"containers": [{"name": "other", "image": "other"}]},
    });
    let selector = json!({"matchLabels": {"app": "other"}});
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let backend = json!({"defaultBackend": {"service": {"name": "other", "port": {"number": 1}}}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"});
    let objects = [
        ("v1", "ServiceAccount", "account-sa", Value::Null),
        ("v1", "PersistentVolumeClaim", "claim-pvc", claim),
        (
            "v1",
            "Service",
            "service-service",
            json!({"ports": [{"port": 1}]}),
        ),
        (
            "apps/v1",
            "Deployment",
            "deployment",
            json!({"selector": selector, "template": template}),
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            "optional-ingress",
            backend,
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "optional-network-policy",
            json!({"podSelector": {}}),
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            "optional-pdb",
            json!({"selector": selector, "minAvailable": 1}),
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "optional-hpa",
            json!({"scaleTargetRef": target, "maxReplicas": 2}),
        ),
    ];
    let objects = objects.map(|(version, kind, name, spec)| {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        object
    });
    operator.apply(&objects).await;
    for name in ["account", "claim", "service", "deployment"] {
        operator.create(&with_every_child(name)).await;
        let is_refused = |cr: &Distribution| {
            condition(cr, "DeploymentUpdated").is_some_and(|(status, ..)| status == "False")
        };
        operator.wait_for(name, "refused", is_refused).await;
    }
    operator.create(&with_every_child("optional")).await;
    let is_told = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated").is_some_and(|(_, _, message)| {
            ["ingress", "network-policy", "pdb", "hpa"]
                .iter()
                .all(|suffix| message.contains(&format!("optional-{suffix}")))
        })
    };
    operator.wait_for("optional", "told of all", is_told).await;
}

/// Authorities in a ConfigMap of another namespace: what else it holds stays there, and another
/// authority in it arrives.
pub(crate) async fn trust_from_elsewhere(operator: &Operator) {
    let elsewhere = operator.testbed.namespace("authorities").await.unwrap();
    let maps: Api<ConfigMap> = elsewhere.api(&operator.client);
    let publish = async |authority: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "authorities"},
            "data": {"ca-bundle.crt": authority, "other": "canary"},
        });
        let parameters = PatchParams::apply("tests").force();
        let patch = Patch::Apply(map);
        maps.patch("authorities", &parameters, &patch)
            .await
            .unwrap();
    };
    let bundles: Api<ConfigMap> = operator.api();
    let gathered = async |authority: &str| {
        let is_there = |one: Option<&ConfigMap>| {
            let text = one.and_then(|one| one.data.as_ref()?.get("ca-bundle.crt"));
            text.is_some_and(|text| text.contains(authority.trim()))
        };
        let name = "trusting-ca-bundle";
        let bundle = eventually(&bundles, name, DEADLINE, "gathered", is_there).await;
        let bundle = json!(bundle.unwrap());
        assert!(!bundle.to_string().contains("canary"), "{bundle}");
    };
    let mut resource = named("trusting");
    resource["spec"]["networking"] = json!({"tls": {"caBundle": {
        "configMapName": "authorities", "configMapNamespace": elsewhere.name(),
    }}});
    operator.create(&resource).await;
    let is_missing = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, reason, message)| {
            reason == "ConfigMapNotFound" && message.contains(elsewhere.name())
        })
    };
    operator
        .wait_for("trusting", "missing it", is_missing)
        .await;
    for _ in 0..2 {
        let authority = Authority::generate().unwrap().certificate().to_owned();
        publish(&authority).await;
        gathered(&authority).await;
    }
    operator.wait_until_ready("trusting").await;
}

/// One plugin after the other in the same place: the bytes of the first are deleted.
pub(crate) async fn replace_plugins(operator: &Operator, shelf: &Shelf) {
    let api = Api::<SchemaPlugin>::all(operator.client.clone());
    for name in ["ogx", "llama-stack-0.7", "llama-stack-0.4"] {
        let reference = shelf.push_plugin(name, &format!("acme/{name}:1"));
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha1",
            "kind": "SchemaPlugin",
            "metadata": {"name": "replaced", "labels": {SERVED_BY: operator.namespace.name()}},
            "spec": {"reference": reference},
        });
        let parameters = PatchParams::apply("tests").force();
        api.patch("replaced", &parameters, &Patch::Apply(document))
            .await
            .unwrap();
        let is_used = |one: Option<&SchemaPlugin>| {
            let current = one.and_then(|one| one.status.as_ref()?.current.as_ref());
            current.and_then(|current| current.name.as_deref()) == Some(name)
        };
        eventually(
            &api,
            "replaced",
            DEADLINE,
            &format!("{name} in use"),
            is_used,
        )
        .await
        .unwrap();
    }
    let maps: Api<ConfigMap> = operator.home.as_ref().unwrap().api(&operator.client);
    let kept = ListParams::default().labels("llamastack.io/kept-for");
    until("two versions are kept", DEADLINE, || async {
        let kept = maps.list_metadata(&kept).await?;
        anyhow::ensure!(kept.items.len() == 2, "{} are", kept.items.len());
        Ok(())
    })
    .await
    .unwrap();
}

/// Two mistakes in the operator's own ConfigMap, one after the other: an event, which then counts.
pub(crate) async fn spoil_settings(operator: &Operator) {
    let home = operator.home.as_ref().unwrap();
    let maps: Api<ConfigMap> = home.api(&operator.client);
    let events: Api<Event> = home.api(&operator.client);
    for number in 1..=2 {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "llama-stack-operator-config"}, "data": {"mirrors": number.to_string()},
        });
        let parameters = PatchParams::apply("tests").force();
        maps.patch(
            "llama-stack-operator-config",
            &parameters,
            &Patch::Apply(map),
        )
        .await
        .unwrap();
        until("the mistake is told", DEADLINE, || async {
            let all = events.list(&ListParams::default()).await?;
            let told = all.iter().find(|one| {
                one.reason.as_deref() == Some("OperatorConfigInvalid")
                    && one.series.as_ref().map_or(1, |series| series.count) == number
            });
            anyhow::ensure!(
                told.is_some(),
                "{} events, and not this one",
                all.items.len()
            );
            Ok(())
        })
        .await
        .unwrap();
    }
}

pub(crate) fn postgres() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "postgres"},
        "stringData": {"dsn": "postgresql://stack:pw@postgres:5432/stack"},
    })
}

pub(crate) fn on_postgres(name: &str) -> Value {
    let mut resource = named(name);
    resource["spec"]["storage"] = json!({"sql": {
        "type": "postgres",
        "connectionString": {"secretKeyRef": {"name": "postgres", "key": "dsn"}},
    }});
    resource
}

fn with_every_child(name: &str) -> Value {
    let mut resource = named(name);
    resource["spec"]["networking"] = json!({
        "expose": {"hostname": "llama.example.com"},
        "allowedFrom": {"namespaces": ["app"]},
    });
    resource["spec"]["workload"] = json!({
        "podDisruptionBudget": {"maxUnavailable": 1},
        "autoscaling": {"minReplicas": 1, "maxReplicas": 2},
        "storage": {"size": "1Gi"},
    });
    resource
}
