//! Base configurations from the labels of images, on a real control plane with a real registry.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use llsd_api::Distribution;
use llsd_e2e::{Operator, STARTER, Shelf, condition, config_map, on_image};
use llsd_testbed::Access;
use serde_json::json;

const SCHEMA: &str = "llama-stack/0.7";
const PASSWORD: &str = "s3cret-canary";

fn is_refused(cr: &Distribution) -> bool {
    condition(cr, "ConfigGenerated").is_some_and(|(status, ..)| status == "False")
}

#[tokio::test(flavor = "multi_thread")]
async fn many_resources_on_one_private_image_read_it_once() {
    let shelf = Shelf::start(Access::Basic {
        user: "puller".to_owned(),
        password: PASSWORD.to_owned(),
    })
    .await;
    let image = shelf
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let operator = Operator::start_reaching("private", shelf.settings()).await;

    // Without the credential the image cannot be read, and nobody is asked with another.
    operator.create(&on_image("first", &image)).await;
    let cr = operator.wait_for("first", "refused", is_refused).await;
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
                ByteString(shelf.docker_config()),
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
    let before = shelf.registry.requests().await.unwrap().len();
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
    let requests = shelf.registry.requests().await.unwrap();
    let asked = requests[before..]
        .iter()
        // Before it is let in, a client asks how.
        .filter(|one| one.status == 200 && one.user_agent.starts_with("llsd"))
        .map(|one| {
            let kind = one.uri.split('/').rev().nth(1).unwrap_or_default();
            format!("{} {kind}", one.method)
        });
    assert_eq!(
        asked.collect::<Vec<_>>(),
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
async fn an_image_without_labels_gets_the_words_of_the_specification() {
    let shelf = Shelf::start(Access::Anyone).await;
    let labelled = shelf
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let bare = shelf.reference("acme/stack:bare");
    let operator = Operator::start_reaching("bare", shelf.settings()).await;
    operator.create(&on_image("stack", &bare)).await;
    let cr = operator.wait_for("stack", "refused", is_refused).await;
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
async fn a_registry_that_is_down_stops_a_change_and_changes_nothing() {
    let mut shelf = Shelf::start(Access::Anyone).await;
    let first = shelf
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let changed = STARTER.replace("version: 2", "version: 2\n# another release");
    let second = shelf
        .push_labelled("acme/stack", "2", &changed, SCHEMA, None)
        .await;
    let operator = Operator::start_reaching("down", shelf.settings()).await;
    operator.create(&on_image("stack", &first)).await;
    let before = operator.wait_until_ready("stack").await;

    shelf.registry.stop();
    let image = json!({ "spec": { "distribution": { "image": second } } });
    operator.edit("stack", image).await;
    let stopped = operator.wait_for("stack", "refused", is_refused).await;
    let (_, reason, message) = condition(&stopped, "ConfigGenerated").unwrap();
    assert_eq!(reason, "RegistryUnreachable", "{message}");
    assert_eq!(condition(&stopped, "Available").unwrap().0, "True");
    assert_eq!(config_map(&stopped), config_map(&before));
    let deployment = operator.api::<Deployment>().get("stack").await.unwrap();
    assert_eq!(deployment.metadata.generation, Some(1));

    shelf.registry.restart().await.unwrap();
    let is_healed = |cr: &Distribution| {
        let resolved = cr.status.clone().unwrap().resolved_distribution.unwrap();
        resolved.image.as_deref() == Some(&*second)
    };
    operator.wait_for("stack", "healed", is_healed).await;
    operator.stop().await;
}
