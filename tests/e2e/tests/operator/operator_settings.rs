//! The operator's own ConfigMap: its settings, the resources that a change affects, and errors in it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ListParams};
use llsd_api::Distribution;
use llsd_api::conversion::{Version, convert};
use llsd_e2e::{
    DEADLINE, Operator, STARTER, TestRegistry, condition, config_map, has_condition, minimal,
};
use llsd_testbed::{Access, eventually};
use serde_json::{Value, json};

/// The name of the operator's ConfigMap.
const NAME: &str = "llama-stack-operator-config";

fn with_distribution(name: &str, distribution: Value) -> Value {
    let mut resource = minimal();
    resource["metadata"]["name"] = name.into();
    resource["spec"]["distribution"] = distribution;
    resource
}

/// Lets the pods of the operator's namespace have privileges.
pub(crate) async fn allow_privileged_pods(operator: &Operator) {
    let namespaces = format!("privilegedNamespaces: [{}]", operator.namespace.name());
    let settings = json!({"podTemplate": namespaces});
    operator.apply_config_map(NAME, settings).await;
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
async fn an_image_override_affects_only_its_distribution_and_an_invalid_one_changes_nothing() {
    let operator = Operator::start("override").await;
    operator
        .create(&with_distribution("ours", json!({"name": "starter"})))
        .await;
    operator
        .create(&with_distribution("other", json!({"name": "remote-vllm"})))
        .await;
    operator.wait_until_ready("ours").await;
    operator.wait_until_ready("other").await;
    let mark = operator.mark().await;

    let image_override = "mirror.example/llamastack/starter:0.7.1";
    let overrides = |text: String| json!({"image-overrides": text});
    operator
        .apply_config_map(NAME, overrides(format!("starter: {image_override}")))
        .await;
    let deployments: Api<Deployment> = operator.api();
    let is_overridden = |one: Option<&Deployment>| one.and_then(image) == Some(image_override);
    eventually(
        &deployments,
        "ours",
        DEADLINE,
        "using the override",
        is_overridden,
    )
    .await
    .unwrap();
    let cr = operator.wait_until_ready("ours").await;
    let listed = cr.status.unwrap().distribution_config.unwrap();
    let listed = listed.available_distributions;
    assert_eq!(
        (
            listed["starter"].as_str(),
            listed.contains_key("remote-vllm")
        ),
        (image_override, true)
    );
    let writes = operator.writes_since(mark).await;
    assert!(
        writes.iter().all(|one| !one.ends_with(" other")),
        "{writes:?}"
    );

    let before = deployments.get("ours").await.unwrap().metadata.generation;
    operator
        .apply_config_map(NAME, overrides("starter: [".to_owned()))
        .await;
    operator.wait_for("ours", "warned", is_warned).await;
    let events: Api<Event> = operator.api();
    let recorded = events.list(&ListParams::default()).await.unwrap();
    let is_about_map = |event: &Event| {
        event.reason.as_deref() == Some("OperatorConfigInvalid")
            && event.regarding.as_ref().and_then(|one| one.name.as_deref()) == Some(NAME)
    };
    assert!(recorded.iter().any(is_about_map));

    // A restarted operator has no earlier valid settings, so it changes nothing.
    let env = operator.stop().await;
    let operator = env.start_operator().await;
    operator.wait_for("ours", "waiting", is_invalid).await;
    let after = deployments.get("ours").await.unwrap();
    assert_eq!(
        (after.metadata.generation, image(&after)),
        (before, Some(image_override))
    );
    operator
        .apply_config_map(NAME, overrides(format!("starter: {image_override}")))
        .await;
    operator.wait_until_ready("ours").await;
    let after = deployments.get("ours").await.unwrap();
    assert_eq!(after.metadata.generation, before);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_distribution_defined_in_the_config_map_runs_with_its_schema_and_base() {
    let operator = Operator::start("extended").await;
    operator
        .create(&with_distribution("acme", json!({"name": "acme"})))
        .await;
    let is_rejected = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(_, _, message)| message.contains("\"acme\""))
    };
    operator.wait_for("acme", "rejected", is_rejected).await;

    let entry = "acme: {image: 'acme.example/stack:3', schema: llama-stack/0.7, baseConfig: {configMapName: acme-base}}";
    operator
        .apply_config_map(NAME, json!({"distributions": entry}))
        .await;
    let cr = operator.wait_for("acme", "waiting", is_invalid).await;
    let (_, _, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert!(message.contains("acme-base"), "{message}");

    operator
        .apply_config_map("acme-base", json!({"config.yaml": STARTER}))
        .await;
    let cr = operator.wait_until_ready("acme").await;
    let resolved = cr.status.as_ref().unwrap().resolved_distribution.clone();
    assert_eq!(
        resolved.unwrap().image.as_deref(),
        Some("acme.example/stack:3")
    );
    let first = config_map(&cr);

    let changed = STARTER.replace("version: 2", "version: 2\nimage_name: acme");
    operator
        .apply_config_map("acme-base", json!({"config.yaml": changed}))
        .await;
    let is_changed = |cr: &Distribution| config_map(cr) != first;
    operator.wait_for("acme", "changed", is_changed).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_policy_switch_applies_to_v1alpha1_resources() {
    let operator = Operator::start("switch").await;
    let v1alpha1 = json!({
        "apiVersion": "llamastack.io/v1alpha1", "kind": "LlamaStackDistribution",
        "metadata": {"name": "v1alpha1"},
        "spec": {"server": {"distribution": {"name": "starter"}}, "network": {"allowedFrom": {"namespaces": ["frontend"]}}},
    });
    operator
        .create(&convert(v1alpha1, Version::V1Alpha2).unwrap())
        .await;
    let mut v1alpha2 = with_distribution("v1alpha2", json!({"name": "starter"}));
    v1alpha2["spec"]["networking"] = json!({"allowedFrom": {"namespaces": ["frontend"]}});
    operator.create(&v1alpha2).await;
    operator.wait_until_ready("v1alpha1").await;
    operator.wait_until_ready("v1alpha2").await;
    let policies: Api<NetworkPolicy> = operator.api();
    let names = async || {
        let all = policies.list(&ListParams::default()).await.unwrap();
        let names = all.into_iter().filter_map(|one| one.metadata.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["v1alpha2-network-policy"]);

    let flag = |enabled: bool| json!({"featureFlags": format!("enableNetworkPolicy: {{enabled: {enabled}}}")});
    let name = "v1alpha1-network-policy";
    operator.apply_config_map(NAME, flag(true)).await;
    eventually(&policies, name, DEADLINE, "created", |one| one.is_some())
        .await
        .unwrap();
    operator.apply_config_map(NAME, flag(false)).await;
    eventually(&policies, name, DEADLINE, "deleted", |one| one.is_none())
        .await
        .unwrap();
    assert_eq!(names().await, ["v1alpha2-network-policy"]);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_used_as_soon_as_it_is_configured() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let pushed = registry
        .push_labelled("acme/stack", "1", STARTER, "llama-stack/0.7", None)
        .await;
    let unreachable = "127.0.0.1:9";
    let image = pushed.replace(registry.server.host(), unreachable);
    let settings = llsd_registry::Settings {
        retry: llsd_registry::Retry {
            attempts: 1,
            ..llsd_registry::Retry::default()
        },
        ..registry.settings()
    };
    let operator = Operator::start_with_registry("mirrored", settings).await;
    operator
        .create(&with_distribution("remote", json!({"image": image})))
        .await;
    let is_rejected = |cr: &Distribution| has_condition(cr, "ConfigGenerated", "False");
    operator
        .wait_for("remote", "unreachable", is_rejected)
        .await;
    let mirrors = format!(
        "- {{from: '{unreachable}', to: '{}'}}",
        registry.server.host()
    );
    operator
        .apply_config_map(NAME, json!({"mirrors": mirrors}))
        .await;
    operator.wait_until_ready("remote").await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_template_reaches_the_pods_and_privileges_need_the_consent_of_the_installer() {
    let operator = Operator::start("pod-template").await;
    let mut resource = minimal();
    let template = json!({
        "metadata": {"labels": {"team": "ml"}},
        "spec": {
            "nodeSelector": {"gpu": "true"},
            "containers": [{"name": "proxy", "image": "quay.io/acme/proxy:1"}],
        },
    });
    resource["spec"]["workload"] = json!({"podTemplate": template});
    operator.create(&resource).await;
    let is_merged = |deployment: &Deployment| {
        let template = &deployment.spec.as_ref().unwrap().template;
        let labels = template.metadata.as_ref().unwrap().labels.as_ref().unwrap();
        let spec = template.spec.as_ref().unwrap();
        let names: Vec<_> = spec
            .containers
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        labels["team"] == "ml"
            && labels["app"] == "llama-stack"
            && spec.node_selector.is_some()
            && names == ["llama-stack", "proxy"]
    };
    let before = operator
        .wait_for_deployment("minimal", "merged", is_merged)
        .await;

    let host = json!({"spec": {"workload": {"podTemplate": {"spec": {"hostNetwork": true}}}}});
    operator.edit("minimal", host).await;
    let field = "spec.workload.podTemplate.spec.hostNetwork";
    let is_rejected = |cr: &Distribution| {
        let conditions = &cr.status.as_ref().unwrap().conditions;
        conditions.iter().any(|one| one.message.contains(field))
    };
    operator.wait_for("minimal", "rejected", is_rejected).await;
    let after = operator.api::<Deployment>().get("minimal").await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation);

    allow_privileged_pods(&operator).await;
    let uses_host = |deployment: &Deployment| {
        let spec = deployment.spec.as_ref().unwrap().template.spec.as_ref();
        spec.unwrap().host_network == Some(true)
    };
    operator
        .wait_for_deployment("minimal", "on the network of its node", uses_host)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_path_or_an_account_in_overrides_needs_the_consent_of_the_installer() {
    let operator = Operator::start("overrides").await;
    let mut resource = minimal();
    resource["spec"]["workload"] = json!({"overrides": {
        "serviceAccountName": "default",
        "volumes": [{"name": "host", "hostPath": {"path": "/var/lib"}}],
    }});
    operator.create(&resource).await;
    let is_rejected = |cr: &Distribution| {
        let conditions = &cr.status.as_ref().unwrap().conditions;
        let fields = ["serviceAccountName: ", "volumes[0].hostPath: "];
        let fields = fields.map(|field| format!("spec.workload.overrides.{field}"));
        conditions
            .iter()
            .any(|one| fields.iter().all(|field| one.message.contains(field)))
    };
    operator.wait_for("minimal", "rejected", is_rejected).await;
    let deployments: Api<Deployment> = operator.api();
    assert!(deployments.get_opt("minimal").await.unwrap().is_none());

    allow_privileged_pods(&operator).await;
    let has_both = |deployment: &Deployment| {
        let spec = deployment.spec.as_ref().unwrap().template.spec.as_ref();
        let volumes = spec.and_then(|spec| spec.volumes.as_ref());
        let mut volumes = volumes.into_iter().flatten();
        spec.unwrap().service_account_name.as_deref() == Some("default")
            && volumes.any(|one| one.host_path.is_some())
    };
    operator
        .wait_for_deployment("minimal", "with both", has_both)
        .await;
    operator.stop().await;
}
