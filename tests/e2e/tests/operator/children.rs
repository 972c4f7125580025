//! The objects besides the Deployment: they are created and deleted with their fields, and objects of
//! other owners are not changed.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Secret, Service};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, condition, config_map, has_condition, minimal};
use llsd_testbed::eventually;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A self-signed CA certificate.
const CA_CERTIFICATE: &str = include_str!("../../../../host/render/tests/ca.pem");

#[tokio::test(flavor = "multi_thread")]
async fn optional_objects_follow_their_fields_and_keep_the_fields_of_other_managers() {
    let operator = Operator::start("children").await;
    let mut resource = minimal();
    let all = json!({
        "networking": {
            "expose": {"hostname": "llama.example.com"},
            "allowedFrom": {"namespaces": ["app"]},
        },
        "workload": {"podDisruptionBudget": {"maxUnavailable": 1}},
    });
    merge(&mut resource["spec"], &all);
    operator.create(&resource).await;
    let cr = operator.wait_until_ready("minimal").await;
    let route = cr.status.unwrap().route_url;
    assert_eq!(route.as_deref(), Some("http://llama.example.com"));

    let ingress = get::<Ingress>(&operator, "minimal-ingress").await;
    let rule = ingress.spec.unwrap().rules.unwrap().remove(0);
    assert_eq!(rule.host.as_deref(), Some("llama.example.com"));
    let policy = get::<NetworkPolicy>(&operator, "minimal-network-policy").await;
    let from = policy.spec.unwrap().ingress.unwrap().remove(0).from;
    assert!(from.unwrap().len() >= 2);
    get::<PodDisruptionBudget>(&operator, "minimal-pdb").await;

    let annotation = json!({"metadata": {"annotations": {"cert-manager.io/issuer": "mine"}}});
    let ingresses = operator.api::<Ingress>();
    ingresses
        .patch(
            "minimal-ingress",
            &PatchParams::default(),
            &Patch::Merge(annotation),
        )
        .await
        .unwrap();
    let other_host = json!({"networking": {"expose": {"hostname": "other.example.com"}}});
    operator.edit("minimal", json!({"spec": other_host})).await;
    let moved = |one: Option<&Ingress>| {
        one.is_some_and(|one| {
            let rules = one.spec.as_ref().and_then(|spec| spec.rules.as_ref());
            rules.is_some_and(|rules| rules[0].host.as_deref() == Some("other.example.com"))
        })
    };
    let ingress = eventually(&ingresses, "minimal-ingress", DEADLINE, "moved", moved)
        .await
        .unwrap();
    let annotations = ingress.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["cert-manager.io/issuer"], "mine");

    let none = json!({"spec": {"networking": null, "workload": null}});
    operator.edit("minimal", none).await;
    operator
        .wait_until_deleted::<Ingress>("minimal-ingress")
        .await;
    operator
        .wait_until_deleted::<NetworkPolicy>("minimal-network-policy")
        .await;
    operator
        .wait_until_deleted::<PodDisruptionBudget>("minimal-pdb")
        .await;
    let cr = operator.wait_until_ready("minimal").await;
    assert_eq!(cr.status.unwrap().route_url, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_and_egress_rules_reach_the_network_policy() {
    let operator = Operator::start("peers").await;
    let mut resource = minimal();
    let web = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    let offices = json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}});
    let vllm = json!({
        "to": [{"podSelector": {"matchLabels": {"app": "vllm"}}}],
        "ports": [{"port": 8000, "protocol": "TCP"}],
    });
    resource["spec"]["networking"] =
        json!({"allowedFrom": {"peers": [web, offices]}, "egress": [vllm]});
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let policy = get::<NetworkPolicy>(&operator, "minimal-network-policy").await;
    let spec = serde_json::to_value(policy.spec).unwrap();
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    let from = spec["ingress"][0]["from"].as_array().unwrap();
    assert!(from.contains(&web) && from.contains(&offices), "{from:?}");
    assert!(!from.contains(&json!({"podSelector": {}})), "{from:?}");
    let egress = spec["egress"].as_array().unwrap();
    assert_eq!(egress[0]["ports"][0]["port"], 53);
    assert_eq!(egress[1], vllm);

    // Without egress rules the server may connect everywhere again.
    let open = json!({"spec": {"networking": {"egress": null}}});
    operator.edit("minimal", open).await;
    let is_open = |one: Option<&NetworkPolicy>| {
        let spec = one.and_then(|one| one.spec.as_ref());
        spec.is_some_and(|spec| {
            spec.egress.is_none() && spec.policy_types == Some(vec!["Ingress".to_owned()])
        })
    };
    let policies = operator.api::<NetworkPolicy>();
    eventually(
        &policies,
        "minimal-network-policy",
        DEADLINE,
        "open",
        is_open,
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_controls_the_replicas_until_it_is_removed() {
    let operator = Operator::start("scaling").await;
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"replicas": 3});
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;

    let scaled =
        json!({"spec": {"workload": {"autoscaling": {"minReplicas": 2, "maxReplicas": 6}}}});
    operator.edit("minimal", scaled).await;
    let autoscalers = operator.api::<HorizontalPodAutoscaler>();
    let is_created = |one: Option<&HorizontalPodAutoscaler>| one.is_some();
    let autoscaler = eventually(&autoscalers, "minimal-hpa", DEADLINE, "created", is_created)
        .await
        .unwrap();
    let spec = autoscaler.unwrap().spec.unwrap();
    assert_eq!((spec.min_replicas, spec.max_replicas), (Some(3), 6));
    let deployment = get::<Deployment>(&operator, "minimal").await;
    assert_eq!(deployment.spec.unwrap().replicas, Some(3));

    // The operator does not revert what the autoscaler sets.
    let deployments = operator.api::<Deployment>();
    let scale = json!({"spec": {"replicas": 5}});
    deployments
        .patch_scale("minimal", &PatchParams::default(), &Patch::Merge(scale))
        .await
        .unwrap();
    let model = json!({"spec": {"resources": {"models": ["another-model"]}}});
    let before = operator.wait_until_ready("minimal").await;
    operator.edit("minimal", model).await;
    let changed = |cr: &Distribution| config_map(cr) != config_map(&before);
    operator
        .wait_for("minimal", "ready with another configuration", changed)
        .await;
    let deployment = get::<Deployment>(&operator, "minimal").await;
    assert_eq!(deployment.spec.unwrap().replicas, Some(5));

    operator
        .edit(
            "minimal",
            json!({"spec": {"workload": {"autoscaling": null}}}),
        )
        .await;
    operator
        .wait_until_deleted::<HorizontalPodAutoscaler>("minimal-hpa")
        .await;
    let is_restored =
        |one: Option<&Deployment>| one.and_then(|one| one.spec.as_ref()?.replicas) == Some(3);
    eventually(
        &deployments,
        "minimal",
        DEADLINE,
        "back to three replicas",
        is_restored,
    )
    .await
    .unwrap();
}

/// Issue I, row 18.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_policy_that_cannot_be_written_stops_the_rollout() {
    let operator = Operator::start("closed").await;
    let foreign = json!({
        "metadata": {"name": "minimal-network-policy"},
        "spec": {"podSelector": {}},
    });
    let policies = operator.api::<NetworkPolicy>();
    policies
        .create(
            &PostParams::default(),
            &serde_json::from_value(foreign).unwrap(),
        )
        .await
        .unwrap();
    let mut resource = minimal();
    let restricted = json!({"networking": {"allowedFrom": {"namespaces": ["app"]}}});
    merge(&mut resource["spec"], &restricted);
    operator.create(&resource).await;
    let is_stopped = |cr: &Distribution| has_condition(cr, "DeploymentUpdated", "False");
    let cr = operator.wait_for("minimal", "stopped", is_stopped).await;
    let (_, _, message) = condition(&cr, "DeploymentUpdated").unwrap();
    assert!(message.contains("minimal-network-policy"), "{message}");
    let deployments = operator.api::<Deployment>();
    assert!(deployments.get_opt("minimal").await.unwrap().is_none());

    let mark = operator.mark().await;
    policies
        .delete("minimal-network-policy", &DeleteParams::default())
        .await
        .unwrap();
    operator.wait_until_ready("minimal").await;
    let writes = operator.writes_since(mark).await;
    let position = |written: &str| writes.iter().position(|one| one == written);
    let policy = position("patch networkpolicies minimal-network-policy");
    let deployment = position("patch deployments minimal");
    assert!(policy.is_some() && policy < deployment, "{writes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_optional_object_of_another_owner_is_not_changed_and_the_server_runs() {
    let operator = Operator::start("foreign-ingress").await;
    let foreign = json!({
        "metadata": {"name": "minimal-ingress"},
        "spec": {"defaultBackend": {"service": {"name": "other", "port": {"number": 1}}}},
    });
    let foreign: Ingress = serde_json::from_value(foreign).unwrap();
    let ingresses = operator.api::<Ingress>();
    let created = ingresses
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    let mut resource = minimal();
    resource["spec"]["networking"] = json!({"expose": true});
    operator.create(&resource).await;
    let cr = operator.wait_until_ready("minimal").await;
    let (status, _, message) = condition(&cr, "DeploymentUpdated").unwrap();
    assert_eq!(status, "True");
    assert!(message.contains("Ingress \"minimal-ingress\""), "{message}");

    operator
        .edit("minimal", json!({"spec": {"networking": null}}))
        .await;
    let is_silent = |cr: &Distribution| {
        condition(cr, "DeploymentUpdated")
            .is_some_and(|(_, _, message)| !message.contains("Ingress"))
    };
    operator
        .wait_for("minimal", "without an Ingress", is_silent)
        .await;
    let unchanged = get::<Ingress>(&operator, "minimal-ingress").await;
    assert_eq!(
        unchanged.meta().resource_version,
        created.meta().resource_version
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_waits_for_its_certificate_and_serves_it() {
    let operator = Operator::start("tls").await;
    let mut resource = minimal();
    resource["spec"]["networking"] = json!({"port": 8443, "tls": {"secretName": "llama-tls"}});
    operator.create(&resource).await;
    let is_waiting = |cr: &Distribution| {
        condition(cr, "SecretsResolved")
            .is_some_and(|(_, _, message)| message.starts_with("Secret not found: llama-tls"))
    };
    operator
        .wait_for("minimal", "without its certificate", is_waiting)
        .await;
    operator
        .apply_secret(
            "llama-tls",
            &[("tls.crt", CA_CERTIFICATE), ("tls.key", "canary")],
        )
        .await;
    let cr = operator.wait_until_ready("minimal").await;
    let url = cr.status.as_ref().unwrap().service_url.clone().unwrap();
    assert!(
        url.starts_with("https://") && url.ends_with(":8443"),
        "{url}"
    );

    let container = server(&operator).await;
    let mounts = container.volume_mounts.unwrap();
    let folder = &mounts
        .iter()
        .find(|one| one.name == "serving-certificate")
        .unwrap()
        .mount_path;
    let file = get::<ConfigMap>(&operator, &config_map(&cr)).await;
    let file = &file.data.unwrap()["config.yaml"];
    assert!(file.contains(&format!("{folder}/tls.crt")), "{file}");
    let probe = container.startup_probe.unwrap().http_get.unwrap();
    assert_eq!(probe.scheme.as_deref(), Some("HTTPS"));
    let service = get::<Service>(&operator, "minimal-service").await;
    let port = service.spec.unwrap().ports.unwrap().remove(0);
    assert_eq!((port.name.as_deref(), port.port), (Some("https"), 8443));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_string_is_split_into_a_derived_secret() {
    let operator = Operator::start("connection").await;
    operator.apply_secret("pg", &[("dsn", "canary")]).await;
    let mut resource = minimal();
    resource["spec"]["storage"] = json!({
        "sql": {"type": "postgres", "connectionString": {"name": "pg", "key": "dsn"}},
    });
    operator.create(&resource).await;
    let unusable = |cr: &Distribution| {
        condition(cr, "SecretsResolved")
            .is_some_and(|(_, reason, _)| reason == "SecretValueUnusable")
    };
    let cr = operator.wait_for("minimal", "rejected", unusable).await;
    let (_, _, message) = condition(&cr, "SecretsResolved").unwrap();
    assert!(message.contains("pg/dsn"), "{message}");
    assert!(!message.contains("canary"), "{message}");

    let dsn = "postgresql://stack:can%2Fary@db.example.com/llama";
    operator.apply_secret("pg", &[("dsn", dsn)]).await;
    let cr = operator.wait_until_ready("minimal").await;
    let secret = get::<Secret>(&operator, "minimal-derived").await;
    let data = secret.data.unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    assert_eq!(text("LLSD_SQL_HOST"), "db.example.com");
    assert_eq!(text("LLSD_SQL_PORT"), "5432");
    let variables = server(&operator).await.env.unwrap();
    let host = variables.iter().find(|one| one.name == "LLSD_SQL_HOST");
    let source = host.unwrap().value_from.as_ref().unwrap();
    let selector = source.secret_key_ref.as_ref().unwrap();
    assert_eq!(selector.name, "minimal-derived");

    // Only the two Secrets hold the value.
    let file = get::<ConfigMap>(&operator, &config_map(&cr)).await;
    let deployment = get::<Deployment>(&operator, "minimal").await;
    let shown = json!([cr, file, deployment, secret.metadata]).to_string();
    assert!(!shown.contains("can/ary") && !shown.contains("can%2Fary"));
    let cr_shown = json!(cr.status).to_string();
    assert!(!cr_shown.contains("db.example.com"));
}

async fn get<K>(operator: &Operator, name: &str) -> K
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    operator.api::<K>().get(name).await.unwrap()
}

/// The server container of the resource `minimal`.
async fn server(operator: &Operator) -> Container {
    let deployment = get::<Deployment>(operator, "minimal").await;
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    pod.containers.into_iter().next().unwrap()
}

fn merge(target: &mut Value, source: &Value) {
    for (key, value) in source.as_object().unwrap() {
        target[key] = value.clone();
    }
}
