//! Plugins from a real registry on a real control plane: loading, replacement, rejection and quarantine.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod keyless;
mod proposals;
mod revocation;
mod shadow;
mod test_plugin;
mod vendor;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{Operator, TestRegistry, acme_base, condition, config_map, ogx_base, on_image};
use llsd_testbed::Access;
use serde_json::{Value, json};

use test_plugin::TestPlugin;

/// A public key that signed none of the plugins.
pub(crate) const UNUSED_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

/// Enough fuel for `describe` and a small resource, but not for a large one.
const LITTLE_FUEL: u64 = 6_000_000;

/// Creates large resources, for which a plugin with little fuel fails.
async fn create_large_resources(operator: &Operator, image: &str) {
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

/// Stores a base configuration of a vendor in a ConfigMap, and returns the `distribution` that refers to it.
async fn store_base(operator: &Operator) -> Value {
    let base = json!({ "metadata": { "name": "base" }, "data": { "config.yaml": acme_base() } });
    let base: ConfigMap = serde_json::from_value(base).unwrap();
    let maps = operator.api::<ConfigMap>();
    maps.create(&PostParams::default(), &base).await.unwrap();
    json!({ "schema": "acme/1.0", "baseConfig": { "configMapName": "base" } })
}

/// The name of the plugin that generated a resource's configuration.
fn generated_by(cr: &Distribution) -> String {
    let generation = cr.status.clone().unwrap().config_generation.unwrap();
    generation.plugin.unwrap().name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_adapter_is_used_at_once_and_after_a_restart_without_the_registry() {
    let mut registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let operator = Operator::start_with_registry("published", registry.settings()).await;
    operator.create(&on_image("stack", &image)).await;
    operator
        .wait_for("stack", "unsupported", is_unsupported)
        .await;

    let installed = TestPlugin::create(&operator, json!({ "reference": plugin })).await;
    let loaded = installed.wait_for("Ready", "True", "InUse").await;
    let cr = operator.wait_until_ready("stack").await;
    assert_eq!(generated_by(&cr), "example-adapter");
    let status = loaded.status.unwrap();
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
        let found = status.conditions.iter().find(|one| one.type_ == step);
        assert_eq!(found.unwrap().status, "True", "{step}");
    }
    let current = status.current.unwrap();
    assert_eq!(current.name.as_deref(), Some("example-adapter"));
    assert!(current.schemas.contains(&"acme/1.0".to_owned()));
    assert_eq!(installed.stored_components().await, 1);
    let name = installed.name.clone();

    registry.server.stop();
    let operator = operator
        .stop()
        .await
        .start_operator_with_registry(registry.settings())
        .await;
    let installed = TestPlugin::existing(&operator, name);
    installed.wait_for("Ready", "True", "LastGoodInUse").await;
    let map = config_map(&cr);
    // The new operator has not cached the image, and the registry is down, so use a base in a ConfigMap.
    let change = json!({ "spec": {
        "distribution": store_base(&operator).await,
        "resources": { "models": ["another-model"] },
    }});
    operator.edit("stack", change).await;
    let changed = |cr: &Distribution| config_map(cr) != map;
    let cr = operator.wait_for("stack", "generated again", changed).await;
    assert_eq!(generated_by(&cr), "example-adapter");
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_ogx_needs_no_plugin() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let image = registry
        .push_labelled("acme/ogx", "1", &ogx_base(), "ogx/1.0", None)
        .await;
    let operator = Operator::start_with_registry("ogx", registry.settings()).await;
    operator.create(&on_image("stack", &image)).await;
    let cr = operator.wait_until_ready("stack").await;
    assert_eq!(generated_by(&cr), "ogx");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_the_adapter_of_a_vendor_does_not_support_is_rejected_by_its_path() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let operator = Operator::start_with_registry("capability", registry.settings()).await;
    let installed = TestPlugin::create(&operator, json!({ "reference": plugin })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.create(&on_image("stack", &image)).await;
    let map = config_map(&operator.wait_until_ready("stack").await);

    let tool = json!({ "name": "files", "endpoint": "http://mcp-files:8000/mcp" });
    let change = json!({ "spec": { "resources": { "tools": [tool] } } });
    operator.edit("stack", change).await;
    let is_rejected = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(status, _, message)| {
            status == "False"
                && message.contains("spec.resources.tools[0].endpoint")
                && message.contains("tool-endpoints")
        })
    };
    let cr = operator.wait_for("stack", "rejected", is_rejected).await;
    assert_eq!(config_map(&cr), map, "the server keeps its configuration");
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_generated_configurations_even_if_the_plugin_spec_is_rejected_meanwhile() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let operator = Operator::start_with_registry("restored", registry.settings()).await;
    let installed = TestPlugin::create(&operator, json!({ "reference": plugin })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    let mut resource = on_image("stack", "quay.io/acme/stack:1");
    let base = store_base(&operator).await;
    resource["spec"]["distribution"]
        .as_object_mut()
        .unwrap()
        .extend(base.as_object().unwrap().clone());
    operator.create(&resource).await;
    let map = config_map(&operator.wait_until_ready("stack").await);
    let invalid = json!({ "verify": { "level": "enforce", "keys": ["not a key"] } });
    installed.edit(invalid).await;
    installed.wait_for("Admitted", "False", "BadSpec").await;

    let name = installed.name.clone();
    let operator = operator
        .stop()
        .await
        .start_operator_with_registry(registry.settings())
        .await;
    let change = json!({ "spec": { "resources": { "models": ["another-model"] } } });
    operator.edit("stack", change).await;
    let changed = |cr: &Distribution| config_map(cr) != map;
    let cr = operator.wait_for("stack", "generated again", changed).await;
    assert_eq!(generated_by(&cr), "example-adapter");
    let events = operator.api::<Event>();
    let events = events.list(&ListParams::default()).await.unwrap();
    let unsupported: Vec<_> = events
        .into_iter()
        .filter(|one| one.reason.as_deref() == Some("UnsupportedConfigVersion"))
        .collect();
    assert!(unsupported.is_empty(), "{unsupported:?}");
    TestPlugin::existing(&operator, name).delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_version_without_the_required_signature_is_not_used() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let operator = Operator::start_with_registry("unsigned", registry.settings()).await;
    let installed = TestPlugin::create(&operator, json!({ "reference": plugin })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.create(&on_image("stack", &image)).await;
    operator.wait_until_ready("stack").await;

    installed
        .edit(json!({ "verify": { "level": "enforce", "keys": [UNUSED_KEY] } }))
        .await;
    let rejected = installed
        .wait_for("Verified", "False", "SignatureInvalid")
        .await;
    let status = rejected.status.unwrap();
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
    assert_eq!(ready.unwrap().reason, "LastGoodInUse");
    assert!(status.current.is_some());

    // The version in use still generates configurations.
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
    let cr = operator
        .wait_for("stack", "without its plugin", is_unsupported)
        .await;
    assert_eq!(condition(&cr, "Available").unwrap().0, "True");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_keeps_failing_is_quarantined_and_running_servers_are_unchanged() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let operator = Operator::start_with_registry("trap", registry.settings()).await;
    let spec = json!({ "reference": plugin, "limits": { "fuel": LITTLE_FUEL } });
    let installed = TestPlugin::create(&operator, spec).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.create(&on_image("small", &image)).await;
    let small = operator.wait_until_ready("small").await;

    create_large_resources(&operator, &image).await;
    let quarantined = installed.wait_for("Promoted", "False", "Quarantined").await;
    let status = quarantined.status.unwrap();
    assert_eq!((status.current, status.quarantined.len()), (None, 1));
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
    assert_eq!(ready.unwrap().status, "False");
    let note = installed.wait_for_event("Quarantined").await;
    assert!(note.contains(&status.quarantined[0]), "{note}");

    let small = operator
        .wait_for("small", "reconciled", |cr| {
            is_unsupported(cr) || generated_by(cr) == generated_by(&small)
        })
        .await;
    let deployment = operator.api::<Deployment>().get(&small.name_any()).await;
    assert_eq!(deployment.unwrap().metadata.generation, Some(1));
    assert_eq!(condition(&small, "Available").unwrap().0, "True");
    installed.delete().await;
    operator.stop().await;
}
