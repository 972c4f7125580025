//! The operator's own ConfigMap: what it decides, whom a change concerns, and what a mistake does.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ListParams, Patch, PatchParams};
use llsd_api::Distribution;
use llsd_api::conversion::{Version, convert};
use llsd_e2e::{DEADLINE, Operator, STARTER, Shelf, Stage, condition, config_map, minimal};
use llsd_testbed::{Access, eventually};
use serde_json::{Value, json};

const NAME: &str = "llama-stack-operator-config";

/// Writes a ConfigMap of the operator's namespace.
async fn write(stage: &Stage, name: &str, data: Value) {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let parameters = PatchParams::apply("tests").force();
    stage
        .api::<ConfigMap>()
        .patch(name, &parameters, &Patch::Apply(map))
        .await
        .unwrap();
}

fn on(name: &str, distribution: Value) -> Value {
    let mut resource = minimal();
    resource["metadata"]["name"] = name.into();
    resource["spec"]["distribution"] = distribution;
    resource
}

fn image(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers[0].image.as_deref()
}

fn is_warned(cr: &Distribution) -> bool {
    condition(cr, "ConfigGenerated")
        .is_some_and(|(status, _, message)| status == "True" && message.contains("image-overrides"))
}

fn is_invalid(cr: &Distribution) -> bool {
    condition(cr, "ConfigGenerated")
        .is_some_and(|(status, reason, _)| status == "False" && reason == "OperatorConfigInvalid")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overridden_image_concerns_its_own_resources_and_a_mistake_changes_nothing() {
    let operator = Operator::start("override").await;
    operator
        .create(&on("ours", json!({"name": "starter"})))
        .await;
    operator
        .create(&on("other", json!({"name": "remote-vllm"})))
        .await;
    operator.wait_until_ready("ours").await;
    operator.wait_until_ready("other").await;
    let mark = operator.mark().await;

    let copy = "mirror.example/llamastack/starter:0.7.1";
    let overrides = |text: String| json!({"image-overrides": text});
    write(&operator, NAME, overrides(format!("starter: {copy}"))).await;
    let deployments: Api<Deployment> = operator.api();
    let is_copy = |one: Option<&Deployment>| one.and_then(image) == Some(copy);
    eventually(&deployments, "ours", DEADLINE, "the copy", is_copy)
        .await
        .unwrap();
    operator.wait_until_ready("ours").await;
    let writes = operator.writes_since(mark).await;
    assert!(
        writes.iter().all(|one| !one.ends_with(" other")),
        "{writes:?}"
    );

    let before = deployments.get("ours").await.unwrap().metadata.generation;
    write(&operator, NAME, overrides("starter: [".to_owned())).await;
    operator.wait_for("ours", "warned", is_warned).await;
    let events: Api<Event> = operator.api();
    let told = events.list(&ListParams::default()).await.unwrap();
    let is_about_map = |event: &Event| {
        event.reason.as_deref() == Some("OperatorConfigInvalid")
            && event.regarding.as_ref().and_then(|one| one.name.as_deref()) == Some(NAME)
    };
    assert!(told.iter().any(is_about_map));

    // An operator that starts with it has no earlier reading, and leaves everything as it is.
    let stage = operator.stop().await;
    let operator = stage.operate().await;
    operator.wait_for("ours", "waiting", is_invalid).await;
    let after = deployments.get("ours").await.unwrap();
    assert_eq!(
        (after.metadata.generation, image(&after)),
        (before, Some(copy))
    );
    write(&operator, NAME, overrides(format!("starter: {copy}"))).await;
    operator.wait_until_ready("ours").await;
    let after = deployments.get("ours").await.unwrap();
    assert_eq!(after.metadata.generation, before);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_only_the_config_map_knows_runs_with_its_schema_and_base() {
    let operator = Operator::start("extended").await;
    operator.create(&on("acme", json!({"name": "acme"}))).await;
    let is_refused = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, _, message)| message.contains("\"acme\""))
    };
    operator.wait_for("acme", "refused", is_refused).await;

    let entry = "acme: {image: 'acme.example/stack:3', schema: llama-stack/0.7, baseConfig: {configMapName: acme-base}}";
    write(&operator, NAME, json!({"distributions": entry})).await;
    let cr = operator.wait_for("acme", "waiting", is_invalid).await;
    let (_, _, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert!(message.contains("acme-base"), "{message}");

    write(&operator, "acme-base", json!({"config.yaml": STARTER})).await;
    let cr = operator.wait_until_ready("acme").await;
    let resolved = cr.status.as_ref().unwrap().resolved_distribution.clone();
    assert_eq!(
        resolved.unwrap().image.as_deref(),
        Some("acme.example/stack:3")
    );
    let first = config_map(&cr);

    let changed = STARTER.replace("version: 2", "version: 2\nimage_name: acme");
    write(&operator, "acme-base", json!({"config.yaml": changed})).await;
    let is_changed = |cr: &Distribution| config_map(cr) != first;
    operator.wait_for("acme", "changed", is_changed).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_decides_about_the_policies_of_resources_made_through_v1alpha1() {
    let operator = Operator::start("switch").await;
    let older = json!({
        "apiVersion": "llamastack.io/v1alpha1", "kind": "LlamaStackDistribution",
        "metadata": {"name": "older"},
        "spec": {"server": {"distribution": {"name": "starter"}}, "network": {"allowedFrom": {"namespaces": ["frontend"]}}},
    });
    operator
        .create(&convert(older, Version::V1Alpha2).unwrap())
        .await;
    let mut newer = on("newer", json!({"name": "starter"}));
    newer["spec"]["networking"] = json!({"allowedFrom": {"namespaces": ["frontend"]}});
    operator.create(&newer).await;
    operator.wait_until_ready("older").await;
    operator.wait_until_ready("newer").await;
    let policies: Api<NetworkPolicy> = operator.api();
    let names = async || {
        let all = policies.list(&ListParams::default()).await.unwrap();
        let names = all.into_iter().filter_map(|one| one.metadata.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["newer-network-policy"]);

    let flag = |enabled: bool| json!({"featureFlags": format!("enableNetworkPolicy: {{enabled: {enabled}}}")});
    let name = "older-network-policy";
    write(&operator, NAME, flag(true)).await;
    eventually(&policies, name, DEADLINE, "there", |one| one.is_some())
        .await
        .unwrap();
    write(&operator, NAME, flag(false)).await;
    eventually(&policies, name, DEADLINE, "gone", |one| one.is_none())
        .await
        .unwrap();
    assert_eq!(names().await, ["newer-network-policy"]);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_used_as_soon_as_it_is_named() {
    let shelf = Shelf::start(Access::Anyone).await;
    let pushed = shelf
        .push_labelled("acme/stack", "1", STARTER, "llama-stack/0.7", None)
        .await;
    let elsewhere = "127.0.0.1:9";
    let image = pushed.replace(shelf.registry.host(), elsewhere);
    let settings = llsd_registry::Settings {
        retry: llsd_registry::Retry {
            attempts: 1,
            ..llsd_registry::Retry::default()
        },
        ..shelf.settings()
    };
    let operator = Operator::start_reaching("mirrored", settings).await;
    operator.create(&on("far", json!({"image": image}))).await;
    let is_refused = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(status, ..)| status == "False")
    };
    operator.wait_for("far", "unreachable", is_refused).await;
    let mirrors = format!("- {{from: '{elsewhere}', to: '{}'}}", shelf.registry.host());
    write(&operator, NAME, json!({"mirrors": mirrors})).await;
    operator.wait_until_ready("far").await;
    operator.stop().await;
}
