//! Stories five and six: access to the server, and a configuration of the user's own.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::Ingress;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Operator, condition, minimal};
use llsd_testbed::eventually;
use serde_json::{Value, json};

use crate::{container, create};

fn host(ingress: &Ingress) -> Option<String> {
    ingress.spec.as_ref()?.rules.as_ref()?[0].host.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn story_5_a_server_is_exposed_with_or_without_a_host_name_and_over_tls() {
    let operator = Operator::start("story5").await;
    let mut resource = minimal();
    resource["spec"]["networking"] = json!({"expose": true});
    operator.create(&resource).await;
    operator.wait_until_ready("minimal").await;
    let ingresses: Api<Ingress> = operator.api();
    let exposed = ingresses.get("minimal-ingress").await.unwrap();
    // Without a host, the Ingress matches every name.
    assert_eq!(host(&exposed), None);

    // Edge case: an empty object means the same, so nothing is written.
    let networking = |networking: Value| json!({"spec": {"networking": networking}});
    operator
        .edit("minimal", networking(json!({"expose": {}})))
        .await;
    operator.wait_until_ready("minimal").await;
    let again = ingresses.get("minimal-ingress").await.unwrap();
    assert_eq!(again.resource_version(), exposed.resource_version());

    let named = json!({"expose": {"hostname": "llama.example.com"}});
    operator.edit("minimal", networking(named)).await;
    let is_named =
        |one: Option<&Ingress>| one.and_then(host).as_deref() == Some("llama.example.com");
    eventually(&ingresses, "minimal-ingress", DEADLINE, "named", is_named)
        .await
        .unwrap();
    let cr = operator.wait_until_ready("minimal").await;
    let route = cr.status.unwrap().route_url.unwrap();
    assert!(route.contains("llama.example.com"), "{route}");

    operator
        .apply_secret(
            "llama-tls",
            &[("tls.crt", "certificate"), ("tls.key", "key")],
        )
        .await;
    let tls = json!({"tls": {"enabled": true, "secretName": "llama-tls"}});
    operator.edit("minimal", networking(tls)).await;
    let cr = operator.wait_until_ready("minimal").await;
    let url = cr.status.unwrap().service_url.unwrap();
    assert!(url.starts_with("https://"), "{url}");
    let deployment = operator.api::<Deployment>().get("minimal").await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let mounted = pod
        .volumes
        .unwrap()
        .into_iter()
        .filter_map(|one| one.secret?.secret_name);
    assert_eq!(mounted.collect::<Vec<_>>(), ["llama-tls"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn story_6_an_override_config_is_mounted_unchanged_and_excludes_providers() {
    let operator = Operator::start("story6").await;
    let spec = json!({
        "distribution": {"name": "starter"},
        "overrideConfig": {"configMapName": "my-config"},
    });
    create(&operator, "override", spec.clone()).await;
    let is_missing = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, reason, message)| {
            reason == "ConfigMapNotFound" && message.contains("my-config")
        })
    };
    operator
        .wait_for("override", "without its ConfigMap", is_missing)
        .await;

    let sample = include_str!("../../../../samples/override.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(sample).unwrap();
    operator.apply(&objects[..1]).await;
    operator.wait_until_ready("override").await;
    let deployment = operator.api::<Deployment>().get("override").await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let volumes = pod.volumes.unwrap();
    let volume = volumes.iter().find(|one| one.config_map.is_some()).unwrap();
    assert_eq!(volume.config_map.as_ref().unwrap().name, "my-config");
    let container = container(&operator, "override").await;
    let mounts = container.volume_mounts.unwrap();
    let mount = mounts.iter().find(|one| one.name == volume.name).unwrap();
    // A variable points the server to the mounted file.
    let variables = container.env.unwrap();
    let values = variables.iter().filter_map(|one| one.value.as_deref());
    assert!(
        values
            .into_iter()
            .any(|value| value.starts_with(&mount.mount_path))
    );

    let mut both = spec;
    both["providers"] = json!({"inference": {"provider": "vllm"}});
    let both: Distribution = serde_json::from_value(json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "both"},
        "spec": both,
    }))
    .unwrap();
    let rejected = operator.api().create(&PostParams::default(), &both).await;
    let message = rejected.unwrap_err().to_string();
    assert!(
        message.contains("providers") && message.contains("overrideConfig"),
        "{message}"
    );
}
