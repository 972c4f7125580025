//! Paced rollouts: existing resources follow what the installer changes, one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use llsd_api::Distribution;
use llsd_controller::Options;
use llsd_e2e::{
    DEADLINE, Fleet, Operator, RolloutState, STARTER, TestEnv, TestRegistry, condition,
    has_condition, named, on_image, registries,
};
use llsd_testbed::{Access, CertificateAuthority, eventually};
use serde_json::json;

use crate::adoption::adopt;
use crate::updates::rewrite_history;
use crate::upstream::{UpstreamSnapshot, snapshot};

/// The operator's ConfigMap.
const SETTINGS: &str = "llama-stack-operator-config";
const OLD_IMAGE: &str = "docker.io/llamastack/distribution-starter:0.7.1";
const NEW_IMAGE: &str = "mirror.example/llamastack/starter:0.7.1";

fn image(deployment: &Deployment) -> String {
    let pod = deployment.spec.clone().unwrap().template.spec.unwrap();
    pod.containers[0].image.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_image_of_a_distribution_rolls_out_one_by_one_and_halts_where_pods_fail() {
    let operator = Operator::start("paced").await;
    Fleet::create(&operator, named).await;
    let fleet = Fleet::before_update(&operator).await;
    Fleet::apply_settings(&operator, &format!("starter: {NEW_IMAGE}"), "").await;
    fleet.assert_halts(&operator, "distribution.starter").await;
    assert_eq!(image(&operator.deployment("a").await), NEW_IMAGE);
    assert_eq!(image(&operator.deployment("b").await), OLD_IMAGE);

    // Another leader does not continue either.
    let operator = operator.stop().await.start_operator().await;
    operator.create(&named("new")).await;
    operator.wait_until_ready("new").await;
    assert_eq!(image(&operator.deployment("new").await), NEW_IMAGE);
    fleet.assert_still_halted(&operator).await;

    // With room for its pods, `b` is updated on request, and the rollout goes on.
    Fleet::remove_quota(&operator).await;
    let request = json!({"metadata": {"annotations": {"llamastack.io/update": "1"}}});
    operator.edit("b", request).await;
    let deployments: Api<Deployment> = operator.api();
    let is_new = |one: Option<&Deployment>| one.is_some_and(|one| image(one) == NEW_IMAGE);
    for name in ["b", "c"] {
        eventually(&deployments, name, DEADLINE, "updated", is_new)
            .await
            .unwrap();
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_keep_a_new_image_of_a_distribution_is_only_offered() {
    let operator = Operator::start("kept").await;
    operator.create(&named("a")).await;
    operator.wait_until_ready("a").await;
    let before = RolloutState::of(&operator, "a").await;
    let settings = json!({
        "image-overrides": format!("starter: {NEW_IMAGE}"),
        "rollouts": "distributions: Keep",
    });
    operator.apply_config_map(SETTINGS, settings).await;
    let is_offered = |cr: &Distribution| {
        condition(cr, "UpdateAvailable").is_some_and(|(_, reason, message)| {
            reason == "DistributionImageChanged" && message.contains(NEW_IMAGE)
        })
    };
    operator.wait_for("a", "offered", is_offered).await;
    operator.create(&named("new")).await;
    operator.wait_until_ready("new").await;
    assert_eq!(image(&operator.deployment("new").await), NEW_IMAGE);
    assert_eq!(before, RolloutState::of(&operator, "a").await);
    operator.stop().await;
}

/// A new CA bundle of the platform.
async fn apply_platform_ca(env: &TestEnv) -> String {
    let authority = CertificateAuthority::generate().unwrap();
    let certificate = authority.certificate().to_owned();
    let data = json!({"ca-bundle.crt": certificate});
    env.apply_config_map("odh-trusted-ca-bundle", data).await;
    certificate
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_ca_bundle_rolls_out_one_by_one_and_a_failure_restores_the_old_one() {
    let operator = Operator::start("ca").await;
    let first = apply_platform_ca(&operator).await;
    Fleet::create(&operator, named).await;
    let fleet = Fleet::before_update(&operator).await;
    let second = apply_platform_ca(&operator).await;
    fleet.assert_halts(&operator, "ca-bundle").await;
    let maps: Api<ConfigMap> = operator.api();
    let trusts = |certificate: &str| {
        let certificate: String = certificate.split_whitespace().collect();
        move |map: Option<&ConfigMap>| {
            let data: Option<&BTreeMap<_, _>> = map.and_then(|map| map.data.as_ref());
            let text = data.and_then(|data| data.get("ca-bundle.crt"));
            let text = text.map(|text| text.split_whitespace().collect::<String>());
            text.as_deref() == Some(certificate.as_str())
        }
    };
    for (name, certificate) in [("a", &second), ("b", &first), ("c", &first)] {
        let map = format!("{name}-ca-bundle");
        eventually(&maps, &map, DEADLINE, "as expected", trusts(certificate))
            .await
            .unwrap();
    }
    for name in Fleet::NAMES {
        assert_eq!(image(&operator.deployment(name).await), OLD_IMAGE);
    }

    // Without the resource that failed, the rollout goes on.
    let resources: Api<Distribution> = operator.api();
    let parameters = DeleteParams::default();
    resources.delete("b", &parameters).await.unwrap();
    let is_new = trusts(&second);
    eventually(&maps, "c-ca-bundle", DEADLINE, "updated", is_new)
        .await
        .unwrap();
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_automatic_updates_a_moved_tag_rolls_out_one_by_one_and_halts_where_pods_fail() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let push = async |config: &str| {
        registry
            .push_labelled("acme/stack", "1", config, "llama-stack/0.7", None)
            .await
    };
    push(STARTER).await;
    let tag = registry.reference("acme/stack:1");
    let env = TestEnv::new("followed-tag").await;
    let pulls = llsd_registry::Settings {
        tag_ttl: Duration::ZERO,
        ..registry.settings()
    };
    let settings = Options {
        registries: registries(pulls),
        tag_interval: Some(Duration::from_secs(1)),
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    operator.create(&on_image("manual", &tag)).await;
    Fleet::create(&operator, |name| {
        let mut resource = on_image(name, &tag);
        resource["spec"]["distribution"]["updates"] = json!("Automatic");
        resource
    })
    .await;
    operator.wait_until_ready("manual").await;
    let manual = RolloutState::of(&operator, "manual").await;
    let first = image(&operator.deployment("a").await);
    let fleet = Fleet::before_update(&operator).await;

    let moved = STARTER.replacen("version:", "# moved\nversion:", 1);
    assert_ne!(moved, STARTER);
    push(&moved).await;
    let rollout = format!("tag.{}", tag.replace([':', '/'], "_"));
    fleet.assert_halts(&operator, &rollout).await;
    let second = image(&operator.deployment("a").await);
    let repository = registry.reference("acme/stack@sha256:");
    assert!(second.starts_with(&repository), "{second}");
    assert_ne!(second, first);
    let cr = operator.wait_until_ready("b").await;
    let resolved = cr.status.unwrap().resolved_distribution.unwrap();
    assert!(first.ends_with(&resolved.digest.unwrap()));

    // Without automatic updates, the same tag is only offered.
    let is_offered = |cr: &Distribution| {
        condition(cr, "UpdateAvailable").is_some_and(|(_, reason, _)| reason == "ImageTagMoved")
    };
    operator.wait_for("manual", "offered", is_offered).await;
    assert_eq!(manual, RolloutState::of(&operator, "manual").await);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_templates_of_the_operator_roll_out_one_by_one_and_halt_where_pods_fail() {
    let operator = Operator::start("followed-operator").await;
    Fleet::create(&operator, named).await;
    let env = operator.stop().await;
    for name in Fleet::NAMES {
        rewrite_history(&env, name).await;
    }
    let operator = env.start_operator().await;
    let is_offered = |cr: &Distribution| {
        condition(cr, "UpdateAvailable").is_some_and(|(_, reason, _)| reason == "OperatorChanged")
    };
    for name in Fleet::NAMES {
        operator.wait_for(name, "offered", is_offered).await;
    }
    let fleet = Fleet::before_update(&operator).await;
    Fleet::apply_settings(&operator, "", "operator: Follow").await;
    fleet.assert_halts(&operator, "operator").await;
    for (name, is_updated) in [("a", true), ("b", false), ("c", false)] {
        let container = operator.pod(name).await.containers.remove(0);
        assert_eq!(container.startup_probe.is_some(), is_updated, "{name}");
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_ca_bundle_on_an_adopted_server_leaves_its_image_alone() {
    let (operator, name) = adopt(snapshot!("minimal"), "adopted-ca").await;
    let before = operator.deployment(&name).await;
    apply_platform_ca(&operator).await;
    let has_ca = |one: Option<&Deployment>| {
        let pod = one.and_then(|one| one.spec.as_ref()?.template.spec.as_ref());
        let volumes = pod.and_then(|pod| pod.volumes.as_ref());
        volumes.is_some_and(|volumes| volumes.iter().any(|one| one.name == "ca-bundle"))
    };
    let deployments: Api<Deployment> = operator.api();
    let after = eventually(&deployments, &name, DEADLINE, "trusting", has_ca)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(image(&after), image(&before));
    let container = |deployment: &Deployment| {
        let pod = deployment.spec.clone().unwrap().template.spec.unwrap();
        pod.containers[0].clone()
    };
    let (before, after) = (container(&before), container(&after));
    assert_eq!(
        (&before.command, &before.args, &before.startup_probe),
        (&after.command, &after.args, &after.startup_probe)
    );
    let cr = operator.wait_until_ready(&name).await;
    assert!(has_condition(&cr, "UpdateAvailable", "True"));
    operator.stop().await;
}
