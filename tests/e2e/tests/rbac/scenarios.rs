//! Scenarios that together make the operator use every permission.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, ListParams, Patch, PatchParams, PostParams};
use llsd_api::{Distribution, SchemaPlugin};
use llsd_e2e::{
    DEADLINE, Operator, SERVED_BY, TestRegistry, condition, config_map, has_condition, named,
    objects_of, wait_for_object,
};
use llsd_render::objects::Kind;
use llsd_testbed::{CertificateAuthority, eventually, until};
use serde_json::{Value, json};

/// Creates every kind of child object, removes the optional ones, and changes the configuration until an
/// old ConfigMap is pruned.
pub(crate) async fn create_and_remove_children(operator: &Operator) {
    let file = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "mine"}, "data": {"config.yaml": "version: 2"},
    });
    operator.apply(&[postgres_secret(), file]).await;
    let mut resource = named("overridden");
    resource["spec"] = json!({
        "distribution": {"name": "starter"},
        "overrideConfig": {"configMapName": "mine"},
    });
    operator.create(&resource).await;
    operator.wait_until_ready("overridden").await;

    let mut resource = with_every_child("whole");
    resource["spec"]["storage"] = with_postgres("whole")["spec"]["storage"].take();
    operator.create(&resource).await;
    // The testbed provides no volumes, so the resource does not become ready.
    let is_written = |cr: &Distribution| has_condition(cr, "DeploymentUpdated", "True");
    operator.wait_for("whole", "written", is_written).await;
    let none = json!({"spec": {"networking": null, "workload": null, "storage": null}});
    operator.edit("whole", none).await;
    operator
        .wait_until_deleted::<Ingress>("whole-ingress")
        .await;
    operator
        .wait_until_deleted::<NetworkPolicy>("whole-network-policy")
        .await;
    operator
        .wait_until_deleted::<PodDisruptionBudget>("whole-pdb")
        .await;
    operator
        .wait_until_deleted::<HorizontalPodAutoscaler>("whole-hpa")
        .await;
    operator.wait_until_deleted::<Secret>("whole-derived").await;
    let first = config_map(&operator.wait_until_ready("whole").await);
    for model in ["second", "third"] {
        let change = json!({"spec": {"resources": {"models": [model]}}});
        operator.edit("whole", change).await;
        operator.wait_until_ready("whole").await;
    }
    operator.wait_until_deleted::<ConfigMap>(&first).await;
}

/// Creates objects of another owner under the name of every child, which the operator must then read.
pub(crate) async fn collide_with_foreign_objects(operator: &Operator) {
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
            "policy-network-policy",
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
    for name in ["account", "claim", "service", "deployment", "policy"] {
        operator.create(&with_every_child(name)).await;
        let is_rejected = |cr: &Distribution| has_condition(cr, "DeploymentUpdated", "False");
        operator.wait_for(name, "rejected", is_rejected).await;
    }
    operator.create(&with_every_child("optional")).await;
    let names_all = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated").is_some_and(|(_, _, message)| {
            ["ingress", "pdb", "hpa"]
                .iter()
                .all(|suffix| message.contains(&format!("optional-{suffix}")))
        })
    };
    operator
        .wait_for("optional", "named all of them", names_all)
        .await;
}

/// Creates and removes every object of the Gateway API, and finds objects of another owner under the names
/// of those of another resource.
pub(crate) async fn attach_to_a_gateway(operator: &Operator) {
    let kinds = [Kind::HTTPRoute, Kind::TLSRoute, Kind::BackendTLSPolicy];
    let names = kinds.map(|kind| match kind {
        Kind::BackendTLSPolicy => "foreign-backend-tls",
        _ => "foreign-route",
    });
    let api = |kind| objects_of(operator, kind);
    for (kind, name) in kinds.into_iter().zip(names) {
        let backend = json!({"name": "other", "port": 1});
        let spec = match kind {
            Kind::BackendTLSPolicy => json!({
                "targetRefs": [{"group": "", "kind": "Service", "name": "other"}],
                "validation": {"hostname": "other", "wellKnownCACertificates": "System"},
            }),
            _ => json!({"hostnames": ["a.example.com"], "rules": [{"backendRefs": [backend]}]}),
        };
        let ApiResource {
            api_version,
            kind: of,
            ..
        } = kind.resource();
        let object = json!({
            "apiVersion": api_version, "kind": of, "metadata": {"name": name}, "spec": spec,
        });
        let parameters = PatchParams::apply("tests").force();
        let patch = Patch::Apply(&object);
        api(kind).patch(name, &parameters, &patch).await.unwrap();
    }
    operator
        .apply_secret("serving", &[("tls.crt", "c"), ("tls.key", "k")])
        .await;
    let gateway = json!({"parentRefs": [{"name": "public"}], "hostnames": ["a.example.com"]});
    let tls = json!({"tls": {"secretName": "serving"}});
    let again = json!({"expose": {"gateway": {"backendTLS": {}}}});
    let steps = [json!({"expose": {"gateway": gateway}}), tls, again];
    for (name, own) in [("foreign", false), ("attached", true)] {
        operator.create(&named(name)).await;
        for (step, kind) in steps.iter().zip(kinds) {
            let change = json!({"spec": {"networking": step}});
            operator.edit(name, change).await;
            let object = match kind {
                Kind::BackendTLSPolicy => format!("{name}-backend-tls"),
                _ => format!("{name}-route"),
            };
            if own {
                wait_for_object(operator, kind, &object, true).await;
                continue;
            }
            let wanted = format!("{kind:?} {object:?}");
            let is_named = |cr: &Distribution| {
                condition(cr, "DeploymentUpdated")
                    .is_some_and(|(_, _, message)| message.contains(&wanted))
            };
            operator.wait_for(name, "named", is_named).await;
        }
    }
    operator
        .edit("attached", json!({"spec": {"networking": null}}))
        .await;
    for kind in kinds {
        let object = match kind {
            Kind::BackendTLSPolicy => "attached-backend-tls",
            _ => "attached-route",
        };
        wait_for_object(operator, kind, object, false).await;
    }
}

/// Creates and removes a PodMonitor, and finds one of another owner under the name of that of another
/// resource.
pub(crate) async fn serve_metrics(operator: &Operator) {
    let foreign = "foreign-counted-metrics";
    let ApiResource {
        api_version, kind, ..
    } = Kind::PodMonitor.resource();
    let object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": foreign},
        "spec": {"selector": {}, "podMetricsEndpoints": []},
    });
    objects_of(operator, Kind::PodMonitor)
        .patch(
            foreign,
            &PatchParams::apply("tests").force(),
            &Patch::Apply(&object),
        )
        .await
        .unwrap();
    // Without it, the operator reads the labels of the image, and tests reach no registry outside.
    let base = llsd_render::distributions::labelled_base("ogx-starter").unwrap();
    let base: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "ogx-base"}, "data": {"config.yaml": base},
    }))
    .unwrap();
    let maps = operator.api::<ConfigMap>();
    maps.create(&PostParams::default(), &base).await.unwrap();
    for name in ["foreign-counted", "counted"] {
        let mut resource = named(name);
        resource["spec"]["distribution"] = json!({
            "name": "ogx-starter", "baseConfig": {"configMapName": "ogx-base"},
        });
        resource["spec"]["telemetry"] = json!({"metrics": {}});
        operator.create(&resource).await;
    }
    let is_named = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated")
            .is_some_and(|(_, _, message)| message.contains(&format!("PodMonitor {foreign:?}")))
    };
    operator
        .wait_for("foreign-counted", "named", is_named)
        .await;
    wait_for_object(operator, Kind::PodMonitor, "counted-metrics", true).await;
    operator
        .edit("counted", json!({"spec": {"telemetry": null}}))
        .await;
    wait_for_object(operator, Kind::PodMonitor, "counted-metrics", false).await;
}

/// Refers to a CA bundle in another namespace. Only the CA key is copied, and a changed CA is copied again.
pub(crate) async fn use_ca_bundle_of_another_namespace(operator: &Operator) {
    let other_namespace = operator.testbed.namespace("ca-bundles").await.unwrap();
    let maps: Api<ConfigMap> = other_namespace.api(&operator.client);
    let publish = async |certificate: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "ca-bundle"},
            "data": {"ca-bundle.crt": certificate, "other": "canary"},
        });
        let parameters = PatchParams::apply("tests").force();
        let patch = Patch::Apply(map);
        maps.patch("ca-bundle", &parameters, &patch).await.unwrap();
    };
    let bundles: Api<ConfigMap> = operator.api();
    let wait_until_copied = async |certificate: &str| {
        let is_copied = |one: Option<&ConfigMap>| {
            let text = one.and_then(|one| one.data.as_ref()?.get("ca-bundle.crt"));
            text.is_some_and(|text| text.contains(certificate.trim()))
        };
        let name = "trusting-ca-bundle";
        let bundle = eventually(&bundles, name, DEADLINE, "copied", is_copied).await;
        let bundle = json!(bundle.unwrap());
        assert!(!bundle.to_string().contains("canary"), "{bundle}");
    };
    let mut resource = named("trusting");
    resource["spec"]["networking"] = json!({"tls": {"caBundle": {
        "configMapName": "ca-bundle", "configMapNamespace": other_namespace.name(),
    }}});
    operator.create(&resource).await;
    let is_missing = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, reason, message)| {
            reason == "ConfigMapNotFound" && message.contains(other_namespace.name())
        })
    };
    operator.wait_for("trusting", "rejected", is_missing).await;
    for _ in 0..2 {
        let certificate = CertificateAuthority::generate()
            .unwrap()
            .certificate()
            .to_owned();
        publish(&certificate).await;
        wait_until_copied(&certificate).await;
    }
    operator.wait_until_ready("trusting").await;
}

/// Replaces the component of a plugin twice, so that the first stored component is deleted.
pub(crate) async fn replace_plugins(operator: &Operator, registry: &TestRegistry) {
    let api = Api::<SchemaPlugin>::all(operator.client.clone());
    for name in ["example-adapter", "llama-stack-0.7", "llama-stack-0.4"] {
        let reference = registry.push_plugin(name, &format!("acme/{name}:1"));
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
    let stored = ListParams::default().labels("llamastack.io/kept-for");
    until("two components are stored", DEADLINE, || async {
        let found = maps.list_metadata(&stored).await?;
        anyhow::ensure!(found.items.len() == 2, "{} are stored", found.items.len());
        Ok(())
    })
    .await
    .unwrap();
}

/// Writes two different errors into the operator's ConfigMap: the first creates an event, the second
/// increments its count.
pub(crate) async fn break_settings(operator: &Operator) {
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
        until("the error is reported", DEADLINE, || async {
            let all = events.list(&ListParams::default()).await?;
            let reported = all.iter().find(|one| {
                one.reason.as_deref() == Some("OperatorConfigInvalid")
                    && one.series.as_ref().map_or(1, |series| series.count) == number
            });
            anyhow::ensure!(
                reported.is_some(),
                "none of {} events reports it",
                all.items.len()
            );
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// Records, prunes and undoes revisions, and rolls a new image out.
pub(crate) async fn update_and_undo(operator: &Operator) {
    operator.create(&named("revised")).await;
    let mut map = config_map(&operator.wait_until_ready("revised").await);
    let edit = async |change: Value| operator.edit("revised", change).await;
    for model in ["second", "third"] {
        edit(json!({"spec": {"resources": {"models": [model]}}})).await;
        let is_new = |cr: &Distribution| config_map(cr) != map;
        let cr = operator.wait_for("revised", "changed", is_new).await;
        map = config_map(&cr);
    }
    operator.wait_until_ready("revised").await;
    let api: Api<ControllerRevision> = operator.api();
    for (request, number) in [("update", 3), ("undo", 4)] {
        let annotation = format!("llamastack.io/{request}");
        edit(json!({"metadata": {"annotations": {&annotation: "1"}}})).await;
        let is_answered = |one: Option<&ControllerRevision>| {
            one.is_some_and(|one| one.annotations().contains_key(&annotation))
        };
        let name = format!("revised-rev-{number}");
        eventually(&api, &name, DEADLINE, "answered", is_answered)
            .await
            .unwrap();
    }
    let home = operator.home.as_ref().unwrap();
    let maps: Api<ConfigMap> = home.api(&operator.client);
    let image = "mirror.example/llamastack/starter:0.7.1";
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "llama-stack-operator-config"},
        "data": {"image-overrides": format!("starter: {image}")},
    });
    let parameters = PatchParams::apply("tests").force();
    let name = "llama-stack-operator-config";
    maps.patch(name, &parameters, &Patch::Apply(settings))
        .await
        .unwrap();
    let is_reported = |one: Option<&ConfigMap>| {
        let data = one.and_then(|one| one.data.as_ref());
        data.is_some_and(|data| data.contains_key("distribution.starter"))
    };
    eventually(&maps, "llsd-rollouts", DEADLINE, "reported", is_reported)
        .await
        .unwrap();
}

/// A Secret with a connection string.
pub(crate) fn postgres_secret() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "postgres"},
        "stringData": {"dsn": "postgresql://stack:pw@postgres:5432/stack"},
    })
}

/// A resource that stores its data in PostgreSQL.
pub(crate) fn with_postgres(name: &str) -> Value {
    let mut resource = named(name);
    resource["spec"]["storage"] = json!({"sql": {
        "type": "postgres",
        "connectionString": {"secretKeyRef": {"name": "postgres", "key": "dsn"}},
    }});
    resource
}

/// A resource with every optional child object.
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
