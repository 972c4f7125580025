//! A new version is compared with the one in use before it takes over.

use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{Footprint, Operator, Shelf, config_map, named, ogx_base, on_image, phase};
use llsd_testbed::Access;
use serde_json::json;

use crate::installed::Installed;

/// What the adapter knows of a provider, and what another version would know.
const TEXT: &str = "inference remote::vllm base_url:http:/v1";
const OTHER: &str = "inference remote::vllm base_url:http:/v2";

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_changes_more_than_allowed_waits_and_nothing_that_runs_changes() {
    let shelf = Shelf::start(Access::Anyone).await;
    let first = shelf.push_plugin("ogx", "acme/ogx:1");
    let second = shelf.push_altered("ogx", "acme/ogx:2", TEXT, OTHER);
    let image = shelf
        .push_labelled("acme/stack", "1", &ogx_base(), "ogx/1.0", None)
        .await;
    let operator = Operator::start_reaching("shadow", shelf.settings()).await;
    let names = ["one", "two"];
    for name in names {
        operator.create(&on_image(name, &image)).await;
    }
    // What waits for the plugin has nothing to lose by it, and neither has what others generate.
    operator.create(&named("other")).await;
    operator.wait_until_ready("other").await;
    let spec = json!({ "reference": first, "rollout": { "maxDiff": 0 } });
    let installed = Installed::create(&operator, spec).await;
    let loaded = installed.wait_for("Ready", "True", "InUse").await;
    let first_digest = loaded.status.unwrap().current.unwrap().component_digest;
    installed.wait_for_event("InUse").await;
    let mut before = Vec::new();
    for name in names {
        let cr = operator.wait_until_ready(name).await;
        before.push((config_map(&cr), Footprint::of(&operator, name).await));
    }

    installed.edit(json!({ "reference": second })).await;
    let held = installed.wait_for("Shadowed", "False", "ShadowDiff").await;
    let told = held.status.unwrap();
    let summary = told.shadow.unwrap();
    assert_eq!(
        (summary.compared, summary.changed, summary.refused),
        (3, 2, 0)
    );
    let namespace = operator.namespace.name();
    let example = format!("{namespace}/one: providers.inference[1].config.base_url");
    assert_eq!(summary.examples[0], example);
    assert_eq!(told.current.unwrap().component_digest, first_digest);
    assert_ne!(told.candidate.unwrap().component_digest, first_digest);
    installed.wait_for("Ready", "True", "LastGoodInUse").await;
    let note = installed.wait_for_event("ShadowDiff").await;
    assert!(note.contains("spec.rollout.maxDiff is 0"), "{note}");

    // While it waits, nobody writes: neither to the plugin nor to what it would change.
    let mark = operator.mark().await;
    operator.create(&named("later")).await;
    operator.wait_until_ready("later").await;
    let writes = operator.writes_since(mark).await;
    let others: Vec<_> = writes.iter().filter(|one| !one.contains("later")).collect();
    assert!(others.is_empty(), "{others:#?}");
    for (name, (map, footprint)) in names.iter().zip(&before) {
        let cr = operator.wait_until_ready(name).await;
        assert_eq!(config_map(&cr), *map);
        assert_eq!(Footprint::of(&operator, name).await, *footprint);
    }

    installed.edit(json!({ "rollout": { "maxDiff": 2 } })).await;
    let taken = installed.wait_for("Shadowed", "True", "Compared").await;
    let told = taken.status.unwrap();
    assert_ne!(told.current.unwrap().component_digest, first_digest);
    assert_eq!(told.previous.unwrap().component_digest, first_digest);
    assert_eq!(told.candidate, None);
    for (name, (map, footprint)) in names.iter().zip(&before) {
        let is_changed =
            |cr: &Distribution| phase(cr) == Some(Phase::Ready) && config_map(cr) != *map;
        operator.wait_for(name, "changed", is_changed).await;
        assert_ne!(Footprint::of(&operator, name).await, *footprint);
    }
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_changes_nothing_takes_over_where_nothing_may_change() {
    let shelf = Shelf::start(Access::Anyone).await;
    let first = shelf.push_plugin("llama-stack-0.7", "acme/adapter:1");
    let operator = Operator::start_reaching("shadow-same", shelf.settings()).await;
    operator.create(&named("one")).await;
    operator.wait_until_ready("one").await;
    let before = Footprint::of(&operator, "one").await;
    let spec = json!({ "reference": first, "rollout": { "maxDiff": 0 } });
    let installed = Installed::create(&operator, spec).await;
    let taken = installed.wait_for("Shadowed", "True", "Compared").await;
    let summary = taken.status.unwrap().shadow.unwrap();
    assert_eq!((summary.compared, summary.changed), (1, 0));

    // The place of a plugin that is built in is no less protected than that of one before it.
    let second = shelf.push_altered("llama-stack-0.7", "acme/adapter:2", TEXT, OTHER);
    installed.delete().await;
    let spec = json!({ "reference": second, "rollout": { "maxDiff": 0 } });
    let installed = Installed::create(&operator, spec).await;
    let held = installed.wait_for("Ready", "False", "ShadowDiff").await;
    assert_eq!(held.status.unwrap().current, None);
    assert_eq!(before, Footprint::of(&operator, "one").await);
    installed.delete().await;
    operator.stop().await;
}
