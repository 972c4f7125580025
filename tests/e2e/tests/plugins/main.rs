//! Plugins from a real registry, on a real control plane: loaded, replaced, refused and put aside.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod installed;
mod proposals;
mod shadow;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{Operator, Shelf, condition, config_map, ogx_base, on_image};
use llsd_testbed::Access;
use serde_json::{Value, json};

use installed::Installed;

/// A public key whose private half nobody has.
const STRANGER: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

/// Enough to describe itself and for a small resource, too little for a large one.
const LITTLE_FUEL: u64 = 6_000_000;

/// Creates resources that a plugin with little fuel fails at, again and again.
async fn overtax(operator: &Operator, image: &str) {
    let models: Vec<_> = (0..256).map(|number| format!("model-{number}")).collect();
    for number in 0..5 {
        let mut large = on_image(&format!("large-{number}"), image);
        large["spec"]["resources"]["models"] = json!(models);
        operator.create(&large).await;
    }
}

fn is_unsupported(cr: &Distribution) -> bool {
    condition(cr, "ConfigGenerated")
        .is_some_and(|(_, reason, _)| reason == "UnsupportedConfigVersion")
}

/// Puts a base of ogx into a ConfigMap, and gives what points a resource at it.
async fn with_base(operator: &Operator) -> Value {
    let base = json!({ "metadata": { "name": "base" }, "data": { "config.yaml": ogx_base() } });
    let base: ConfigMap = serde_json::from_value(base).unwrap();
    let maps = operator.api::<ConfigMap>();
    maps.create(&PostParams::default(), &base).await.unwrap();
    json!({ "schema": "ogx/1.0", "baseConfig": { "configMapName": "base" } })
}

/// The plugin that made a resource's configuration.
fn made_by(cr: &Distribution) -> String {
    let generation = cr.status.clone().unwrap().config_generation.unwrap();
    generation.plugin.unwrap().name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_adapter_serves_at_once_and_again_after_a_start_without_its_registry() {
    let mut shelf = Shelf::start(Access::Anyone).await;
    let plugin = shelf.push_plugin("ogx", "acme/ogx:1");
    let image = shelf
        .push_labelled("acme/stack", "1", &ogx_base(), "ogx/1.0", None)
        .await;
    let operator = Operator::start_reaching("ogx", shelf.settings()).await;
    operator.create(&on_image("stack", &image)).await;
    operator
        .wait_for("stack", "unsupported", is_unsupported)
        .await;

    let installed = Installed::create(&operator, json!({ "reference": plugin })).await;
    let loaded = installed.wait_for("Ready", "True", "InUse").await;
    let cr = operator.wait_until_ready("stack").await;
    assert_eq!(made_by(&cr), "ogx");
    let told = loaded.status.unwrap();
    let steps = [
        "Resolved",
        "Admitted",
        "Authenticated",
        "Fetched",
        "Verified",
        "Inspected",
        "Compiled",
        "Instantiated",
        "Promoted",
    ];
    for step in steps {
        let found = told.conditions.iter().find(|one| one.type_ == step);
        assert_eq!(found.unwrap().status, "True", "{step}");
    }
    let current = told.current.unwrap();
    assert_eq!(current.name.as_deref(), Some("ogx"));
    assert!(current.schemas.contains(&"ogx/1.0".to_owned()));
    assert_eq!(installed.kept().await, 1);
    let name = installed.name.clone();

    shelf.registry.stop();
    let operator = operator
        .stop()
        .await
        .operate_reaching(shelf.settings())
        .await;
    let installed = Installed::of(&operator, name);
    installed.wait_for("Ready", "True", "LastGoodInUse").await;
    let map = config_map(&cr);
    // The base is in no cache of the new operator, so it comes from a ConfigMap while the registry is down.
    let change = json!({ "spec": {
        "distribution": with_base(&operator).await,
        "resources": { "models": ["another-model"] },
    }});
    operator.edit("stack", change).await;
    let changed = |cr: &Distribution| config_map(cr) != map;
    let cr = operator.wait_for("stack", "generated anew", changed).await;
    assert_eq!(made_by(&cr), "ogx");
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_changes_nothing_that_an_adapter_made_even_if_its_spec_is_refused_since() {
    let shelf = Shelf::start(Access::Anyone).await;
    let plugin = shelf.push_plugin("ogx", "acme/ogx:1");
    let operator = Operator::start_reaching("restored", shelf.settings()).await;
    let installed = Installed::create(&operator, json!({ "reference": plugin })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    let mut resource = on_image("stack", "quay.io/acme/stack:1");
    let base = with_base(&operator).await;
    resource["spec"]["distribution"]
        .as_object_mut()
        .unwrap()
        .extend(base.as_object().unwrap().clone());
    operator.create(&resource).await;
    let map = config_map(&operator.wait_until_ready("stack").await);
    let bad = json!({ "verify": { "level": "enforce", "keys": ["no key"] } });
    installed.edit(bad).await;
    installed.wait_for("Admitted", "False", "BadSpec").await;

    let name = installed.name.clone();
    let operator = operator
        .stop()
        .await
        .operate_reaching(shelf.settings())
        .await;
    let change = json!({ "spec": { "resources": { "models": ["another-model"] } } });
    operator.edit("stack", change).await;
    let changed = |cr: &Distribution| config_map(cr) != map;
    let cr = operator.wait_for("stack", "generated anew", changed).await;
    assert_eq!(made_by(&cr), "ogx");
    let events = operator.api::<Event>();
    let events = events.list(&ListParams::default()).await.unwrap();
    let troubles: Vec<_> = events
        .into_iter()
        .filter(|one| one.reason.as_deref() == Some("UnsupportedConfigVersion"))
        .collect();
    assert!(troubles.is_empty(), "{troubles:?}");
    Installed::of(&operator, name).delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_signed_as_wanted_changes_nothing() {
    let shelf = Shelf::start(Access::Anyone).await;
    let plugin = shelf.push_plugin("ogx", "acme/ogx:1");
    let image = shelf
        .push_labelled("acme/stack", "1", &ogx_base(), "ogx/1.0", None)
        .await;
    let operator = Operator::start_reaching("unsigned", shelf.settings()).await;
    let installed = Installed::create(&operator, json!({ "reference": plugin })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.create(&on_image("stack", &image)).await;
    operator.wait_until_ready("stack").await;

    installed
        .edit(json!({ "verify": { "level": "enforce", "keys": [STRANGER] } }))
        .await;
    let refused = installed
        .wait_for("Verified", "False", "SignatureInvalid")
        .await;
    let told = refused.status.unwrap();
    let ready = told.conditions.iter().find(|one| one.type_ == "Ready");
    assert_eq!(ready.unwrap().reason, "LastGoodInUse");
    assert!(told.current.is_some());

    // The version in use still serves.
    operator
        .edit(
            "stack",
            json!({ "spec": { "resources": { "models": ["m"] } } }),
        )
        .await;
    operator.wait_until_ready("stack").await;
    installed.delete().await;
    operator
        .edit(
            "stack",
            json!({ "spec": { "resources": { "models": ["n"] } } }),
        )
        .await;
    let alone = operator
        .wait_for("stack", "without its plugin", is_unsupported)
        .await;
    assert_eq!(condition(&alone, "Available").unwrap().0, "True");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_fails_again_and_again_is_put_aside_and_what_runs_stays() {
    let shelf = Shelf::start(Access::Anyone).await;
    let plugin = shelf.push_plugin("ogx", "acme/ogx:1");
    let image = shelf
        .push_labelled("acme/stack", "1", &ogx_base(), "ogx/1.0", None)
        .await;
    let operator = Operator::start_reaching("trap", shelf.settings()).await;
    let spec = json!({ "reference": plugin, "limits": { "fuel": LITTLE_FUEL } });
    let installed = Installed::create(&operator, spec).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.create(&on_image("small", &image)).await;
    let small = operator.wait_until_ready("small").await;

    overtax(&operator, &image).await;
    let aside = installed.wait_for("Promoted", "False", "Quarantined").await;
    let told = aside.status.unwrap();
    assert_eq!((told.current, told.quarantined.len()), (None, 1));
    let ready = told.conditions.iter().find(|one| one.type_ == "Ready");
    assert_eq!(ready.unwrap().status, "False");
    let note = installed.wait_for_event("Quarantined").await;
    assert!(note.contains(&told.quarantined[0]), "{note}");

    let small = operator
        .wait_for("small", "told", |cr| {
            is_unsupported(cr) || made_by(cr) == made_by(&small)
        })
        .await;
    let deployment = operator.api::<Deployment>().get(&small.name_any()).await;
    assert_eq!(deployment.unwrap().metadata.generation, Some(1));
    assert_eq!(condition(&small, "Available").unwrap().0, "True");
    installed.delete().await;
    operator.stop().await;
}
