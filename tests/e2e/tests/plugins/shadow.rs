//! A new plugin version is compared with the one in use before it is promoted.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{
    Fleet, Operator, RolloutState, TestRegistry, acme_base, condition, config_map, named, on_image,
    phase,
};
use llsd_testbed::Access;
use serde_json::json;

use crate::test_plugin::TestPlugin;

/// A string in the adapter's catalogue, and a replacement that changes its output.
const ORIGINAL: &str = "inference remote::vllm base_url:http:/v1";
const CHANGED: &str = "inference remote::vllm base_url:http:/v2";

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_version_that_changes_more_than_allowed_waits_for_approval() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let first = registry.push_plugin("example-adapter", "acme/adapter:1");
    let second = registry.push_patched("example-adapter", "acme/adapter:2", ORIGINAL, CHANGED);
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let operator = Operator::start_with_registry("shadow", registry.settings()).await;
    let names = ["one", "two"];
    for name in names {
        operator.create(&on_image(name, &image)).await;
    }
    // The comparison leaves out resources without a configuration and those of other plugins.
    operator.create(&named("other")).await;
    operator.wait_until_ready("other").await;
    let spec = json!({ "reference": first, "rollout": { "maxDiff": 0 } });
    let installed = TestPlugin::create(&operator, spec).await;
    let loaded = installed.wait_for("Ready", "True", "InUse").await;
    let first_digest = loaded.status.unwrap().current.unwrap().component_digest;
    installed.wait_for_event("InUse").await;
    let mut before = Vec::new();
    for name in names {
        let cr = operator.wait_until_ready(name).await;
        before.push((config_map(&cr), RolloutState::of(&operator, name).await));
    }

    installed.edit(json!({ "reference": second })).await;
    let waiting = installed.wait_for("Shadowed", "False", "ShadowDiff").await;
    let status = waiting.status.unwrap();
    let summary = status.shadow.unwrap();
    assert_eq!(
        (summary.compared, summary.changed, summary.refused),
        (3, 2, 0)
    );
    let namespace = operator.namespace.name();
    let example = format!("{namespace}/one: providers.inference[1].config.base_url");
    assert_eq!(summary.examples[0], example);
    assert_eq!(status.current.unwrap().component_digest, first_digest);
    assert_ne!(status.candidate.unwrap().component_digest, first_digest);
    installed.wait_for("Ready", "True", "LastGoodInUse").await;
    let note = installed.wait_for_event("ShadowDiff").await;
    assert!(note.contains("spec.rollout.maxDiff is 0"), "{note}");

    // While the version waits, the operator writes no resource. The comparison that its own status
    // triggers can be the first that counts the new resource.
    let mark = operator.mark().await;
    operator.create(&named("later")).await;
    operator.wait_until_ready("later").await;
    let writes = operator.writes_since(mark).await;
    let statuses = writes.iter().filter(|one| one.contains("schemaplugins"));
    assert!(statuses.count() <= 1, "{writes:#?}");
    let is_expected = |one: &&String| one.contains("later") || one.contains(&installed.name);
    let others: Vec<_> = writes.iter().filter(|one| !is_expected(one)).collect();
    assert!(others.is_empty(), "{others:#?}");
    for (name, (map, rollout)) in names.iter().zip(&before) {
        let cr = operator.wait_until_ready(name).await;
        assert_eq!(config_map(&cr), *map);
        assert_eq!(RolloutState::of(&operator, name).await, *rollout);
    }

    installed.edit(json!({ "rollout": { "maxDiff": 2 } })).await;
    let promoted = installed.wait_for("Shadowed", "True", "Compared").await;
    let status = promoted.status.unwrap();
    let current = status.current.clone().unwrap();
    assert_ne!(current.component_digest, first_digest);
    assert_eq!(
        status.previous.clone().unwrap().component_digest,
        first_digest
    );
    assert_eq!(status.candidate, None);
    // Existing resources keep what they have, and say what they would get.
    let second_digest = status.current.unwrap().component_digest;
    for (name, (map, rollout)) in names.iter().zip(&before) {
        let is_offered = |cr: &Distribution| {
            condition(cr, "UpdateAvailable").is_some_and(|(_, reason, message)| {
                reason == "PluginChanged" && message.contains(&second_digest)
            })
        };
        let cr = operator.wait_for(name, "offered", is_offered).await;
        assert_eq!(config_map(&cr), *map);
        assert_eq!(RolloutState::of(&operator, name).await, *rollout);
    }
    operator.create(&on_image("three", &image)).await;
    let third = operator.wait_until_ready("three").await;
    let generation = third.status.unwrap().config_generation.unwrap();
    assert_eq!(generation.plugin.unwrap().digest, second_digest);

    // Once told to follow, they take it one by one.
    installed
        .edit(json!({ "rollout": { "existing": "Follow" } }))
        .await;
    for (name, (map, rollout)) in names.iter().zip(&before) {
        let is_changed =
            |cr: &Distribution| phase(cr) == Some(Phase::Ready) && config_map(cr) != *map;
        operator.wait_for(name, "changed", is_changed).await;
        assert_ne!(RolloutState::of(&operator, name).await, *rollout);
    }
    installed
        .wait_for_rollout("rolled out", |progress| {
            progress.summary == "2 of 2" && progress.component_digest == second_digest
        })
        .await;
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_plugin_version_rolls_out_one_by_one_and_halts_where_pods_fail() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let first = registry.push_plugin("example-adapter", "acme/adapter:1");
    let second = registry.push_patched("example-adapter", "acme/adapter:2", ORIGINAL, CHANGED);
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let operator = Operator::start_with_registry("shadow-halts", registry.settings()).await;
    let spec = json!({ "reference": first, "rollout": { "existing": "Follow" } });
    let installed = TestPlugin::create(&operator, spec).await;
    installed.wait_for("Ready", "True", "InUse").await;
    Fleet::create(&operator, |name| on_image(name, &image)).await;
    let map = config_map(&operator.wait_until_ready("b").await);
    let fleet = Fleet::before_update(&operator).await;

    installed.edit(json!({ "reference": second })).await;
    let rollout = format!("plugin.{}", installed.name);
    fleet.assert_halts(&operator, &rollout).await;
    let cr = operator.wait_until_ready("b").await;
    assert_eq!(config_map(&cr), map);
    operator.api::<ConfigMap>().get(&map).await.unwrap();
    let halted_at = format!("{}/b", operator.namespace.name());
    installed
        .wait_for_rollout("halted", |progress| {
            progress.halted_at.as_ref() == Some(&halted_at)
        })
        .await;
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_pack_version_is_offered_and_rolls_out_when_followed() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let first = registry.push_plugin("example-pack", "acme/pack:1");
    let (before, after) = ("acme_llama_provider", "acme_other_provider");
    let second = registry.push_patched("example-pack", "acme/pack:2", before, after);
    let operator = Operator::start_with_registry("shadow-pack", registry.settings()).await;
    let installed = TestPlugin::create(&operator, json!({ "reference": first })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.apply_secret("acme", &[("token", "secret")]).await;
    let mut resource = named("one");
    resource["spec"]["providers"]["inference"] = json!({
        "provider": "acme",
        "endpoint": "https://llm.acme.example",
        "apiKey": { "name": "acme", "key": "token" },
    });
    operator.create(&resource).await;
    let map = config_map(&operator.wait_until_ready("one").await);
    let state = RolloutState::of(&operator, "one").await;

    installed.edit(json!({ "reference": second })).await;
    let is_offered = |cr: &Distribution| {
        condition(cr, "UpdateAvailable").is_some_and(|(_, reason, message)| {
            reason == "PluginChanged" && message.contains("provider pack example-pack")
        })
    };
    operator.wait_for("one", "offered", is_offered).await;
    assert_eq!(RolloutState::of(&operator, "one").await, state);

    let follow = json!({ "rollout": { "existing": "Follow" } });
    installed.edit(follow).await;
    let is_changed = |cr: &Distribution| {
        phase(cr) == Some(Phase::Ready) && config_map(cr) != map && !is_offered(cr)
    };
    let cr = operator.wait_for("one", "changed", is_changed).await;
    let maps = operator.api::<ConfigMap>();
    let written = maps.get(&config_map(&cr)).await.unwrap();
    assert!(written.data.unwrap()["config.yaml"].contains(after));
    installed
        .wait_for_rollout("rolled out", |progress| progress.summary == "1 of 1")
        .await;
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_version_that_changes_no_output_is_promoted() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let first = registry.push_plugin("llama-stack-0.7", "acme/adapter:1");
    let operator = Operator::start_with_registry("shadow-same", registry.settings()).await;
    operator.create(&named("one")).await;
    operator.wait_until_ready("one").await;
    let before = RolloutState::of(&operator, "one").await;
    let spec = json!({ "reference": first, "rollout": { "maxDiff": 0 } });
    let installed = TestPlugin::create(&operator, spec).await;
    let promoted = installed.wait_for("Shadowed", "True", "Compared").await;
    let summary = promoted.status.unwrap().shadow.unwrap();
    assert_eq!((summary.compared, summary.changed), (1, 0));

    // A plugin that replaces a built-in one is compared with it, too.
    let second = registry.push_patched("llama-stack-0.7", "acme/adapter:2", ORIGINAL, CHANGED);
    installed.delete().await;
    let spec = json!({ "reference": second, "rollout": { "maxDiff": 0 } });
    let installed = TestPlugin::create(&operator, spec).await;
    let waiting = installed.wait_for("Ready", "False", "ShadowDiff").await;
    assert_eq!(waiting.status.unwrap().current, None);
    assert_eq!(before, RolloutState::of(&operator, "one").await);
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_cannot_be_restored_at_start_changes_nothing() {
    let mut registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_patched("llama-stack-0.7", "acme/adapter:1", ORIGINAL, CHANGED);
    let operator = Operator::start_with_registry("unrestored", registry.settings()).await;
    let installed = TestPlugin::create(&operator, json!({ "reference": plugin })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.create(&named("one")).await;
    let cr = operator.wait_until_ready("one").await;
    let map = config_map(&cr);
    let before = RolloutState::of(&operator, "one").await;
    let name = installed.name.clone();
    let env = operator.stop().await;

    // Neither the stored component nor the registry is there. The operator's own upgrades are followed,
    // which must not mean that a fallback is.
    registry.server.stop();
    let stored = ListParams::default().labels("llamastack.io/kept-for");
    let maps = env.api::<ConfigMap>();
    maps.delete_collection(&DeleteParams::default(), &stored)
        .await
        .unwrap();
    env.apply_config_map(
        "llama-stack-operator-config",
        json!({ "rollouts": "operator: Follow" }),
    )
    .await;
    let operator = env.start_operator_with_registry(registry.settings()).await;
    let is_offered = |cr: &Distribution| condition(cr, "UpdateAvailable").is_some();
    let cr = operator.wait_for("one", "reconciled", is_offered).await;
    assert_eq!(config_map(&cr), map);
    operator.create(&named("last")).await;
    operator.wait_until_ready("last").await;
    assert_eq!(before, RolloutState::of(&operator, "one").await);
    TestPlugin::existing(&operator, name).delete().await;
    operator.stop().await;
}
