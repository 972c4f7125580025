//! Base configurations from image labels, on a real control plane with a real registry.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use llsd_api::Distribution;
use llsd_e2e::{Operator, STARTER, TestRegistry, condition, config_map, has_condition, on_image};
use llsd_testbed::Access;
use serde_json::json;

const SCHEMA: &str = "llama-stack/0.7";
const PASSWORD: &str = "s3cret-canary";

fn is_rejected(cr: &Distribution) -> bool {
    has_condition(cr, "ConfigGenerated", "False")
}

#[tokio::test(flavor = "multi_thread")]
async fn many_resources_with_one_private_image_pull_it_once() {
    let registry = TestRegistry::start(Access::Basic {
        user: "puller".to_owned(),
        password: PASSWORD.to_owned(),
    })
    .await;
    let image = registry
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let operator = Operator::start_with_registry("private", registry.settings()).await;

    // Without the pull secret the image cannot be read.
    operator.create(&on_image("first", &image)).await;
    let cr = operator.wait_for("first", "rejected", is_rejected).await;
    let (_, reason, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert_eq!(reason, "AuthFailed", "{message}");
    assert!(message.contains("pull secret"), "{message}");

    let secret = Secret {
        metadata: kube::core::ObjectMeta {
            name: Some("pull".to_owned()),
            ..Default::default()
        },
        type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
        data: Some(
            [(
                ".dockerconfigjson".to_owned(),
                ByteString(registry.docker_config()),
            )]
            .into(),
        ),
        ..Secret::default()
    };
    operator
        .api::<Secret>()
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let overrides = json!({ "overrides": { "imagePullSecrets": [{ "name": "pull" }] } });
    let before = registry.server.requests().await.unwrap().len();
    operator
        .edit("first", json!({ "spec": { "workload": overrides } }))
        .await;
    for number in 0..20 {
        let mut resource = on_image(&format!("another-{number}"), &image);
        resource["spec"]["workload"] = overrides.clone();
        operator.create(&resource).await;
    }
    let first = operator.wait_until_ready("first").await;
    for number in 0..20 {
        operator
            .wait_until_ready(&format!("another-{number}"))
            .await;
    }
    let requests = registry.server.requests().await.unwrap();
    let pulled = requests[before..]
        .iter()
        // A client first sends a request without credentials, which gets status 401.
        .filter(|one| one.status == 200 && one.user_agent.starts_with("llsd"))
        .map(|one| {
            let kind = one.uri.split('/').rev().nth(1).unwrap_or_default();
            format!("{} {kind}", one.method)
        });
    assert_eq!(
        pulled.collect::<Vec<_>>(),
        ["HEAD manifests", "GET manifests", "GET blobs"],
        "21 resources, one image: {requests:?}"
    );

    let resolved = first
        .status
        .as_ref()
        .unwrap()
        .resolved_distribution
        .clone()
        .unwrap();
    assert_eq!(
        serde_json::to_value(resolved.config_source).unwrap(),
        json!("ImageLabels")
    );
    assert!(resolved.digest.unwrap().starts_with("sha256:"));
    let map = operator.api::<ConfigMap>().get(&config_map(&first)).await;
    let file = map.unwrap().data.unwrap()["config.yaml"].clone();
    assert!(file.contains("http://vllm:8000/v1"), "{file}");
    let everything = serde_json::to_string(&first).unwrap() + &file;
    assert!(!everything.contains(PASSWORD));
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_labels_is_rejected_with_the_message_of_the_specification() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let labelled = registry
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let bare = registry.reference("acme/stack:bare");
    let operator = Operator::start_with_registry("bare", registry.settings()).await;
    operator.create(&on_image("stack", &bare)).await;
    let cr = operator.wait_for("stack", "rejected", is_rejected).await;
    let (_, reason, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert_eq!(reason, "MissingConfigLabels");
    assert_eq!(
        message,
        format!(
            "Distribution image {bare} missing config labels. Add labels using `crane mutate` or use `overrideConfig` to \
             provide configuration manually. See docs/configuration.md for details."
        )
    );
    assert!(
        operator
            .api::<Deployment>()
            .get_opt("stack")
            .await
            .unwrap()
            .is_none()
    );
    let image = json!({ "spec": { "distribution": { "image": labelled } } });
    operator.edit("stack", image).await;
    operator.wait_until_ready("stack").await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_registry_blocks_a_change_and_running_servers_are_unchanged() {
    let mut registry = TestRegistry::start(Access::Anyone).await;
    let first = registry
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let changed = STARTER.replace("version: 2", "version: 2\n# another release");
    let second = registry
        .push_labelled("acme/stack", "2", &changed, SCHEMA, None)
        .await;
    let operator = Operator::start_with_registry("down", registry.settings()).await;
    operator.create(&on_image("stack", &first)).await;
    let before = operator.wait_until_ready("stack").await;

    registry.server.stop();
    let image = json!({ "spec": { "distribution": { "image": second } } });
    operator.edit("stack", image).await;
    let blocked = operator.wait_for("stack", "rejected", is_rejected).await;
    let (_, reason, message) = condition(&blocked, "ConfigGenerated").unwrap();
    assert_eq!(reason, "RegistryUnreachable", "{message}");
    assert_eq!(condition(&blocked, "Available").unwrap().0, "True");
    assert_eq!(config_map(&blocked), config_map(&before));
    let deployment = operator.api::<Deployment>().get("stack").await.unwrap();
    assert_eq!(deployment.metadata.generation, Some(1));

    registry.server.restart().await.unwrap();
    let is_updated = |cr: &Distribution| {
        let resolved = cr.status.clone().unwrap().resolved_distribution.unwrap();
        resolved.image.as_deref() == Some(&*second)
    };
    operator.wait_for("stack", "updated", is_updated).await;
    operator.stop().await;
}
