//! Plugins that image labels propose.

use llsd_api::Distribution;
use llsd_e2e::{Operator, TestRegistry, acme_base, condition, on_image};
use llsd_testbed::Access;
use serde_json::json;

use crate::test_plugin::TestPlugin;
use crate::{LITTLE_FUEL, create_large_resources, generated_by, is_unsupported};

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_proposed_by_an_image_is_loaded_only_from_an_allowed_prefix() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", Some(&plugin))
        .await;
    let operator = Operator::start_with_registry("proposal", registry.settings()).await;
    operator.create(&on_image("stack", &image)).await;
    operator
        .wait_for("stack", "unsupported", is_unsupported)
        .await;
    let requests = registry.server.requests().await.unwrap();
    let of_operator = requests
        .iter()
        .filter(|one| one.uri.contains("/acme/adapter/") && one.user_agent.starts_with("llsd"));
    let before = of_operator.count();

    let other_prefix = registry.reference("acme/adapt");
    let installed = TestPlugin::create(&operator, json!({ "proposalPrefix": other_prefix })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    let requests = registry.server.requests().await.unwrap();
    let of_operator = requests
        .iter()
        .filter(|one| one.uri.contains("/acme/adapter/") && one.user_agent.starts_with("llsd"));
    assert_eq!(
        of_operator.count(),
        before,
        "a proposal outside the prefix must not be pulled"
    );

    let prefix = registry.reference("acme");
    installed.edit(json!({ "proposalPrefix": prefix })).await;
    let cr = operator.wait_until_ready("stack").await;
    assert_eq!(generated_by(&cr), "example-adapter");
    let plugin_resource = installed.wait_for("Ready", "True", "InUse").await;
    let proposals = plugin_resource.status.unwrap().proposals;
    assert_eq!(proposals[0].proposed_by, image);
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposed_plugin_that_keeps_failing_is_quarantined_until_the_spec_changes() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", Some(&plugin))
        .await;
    let operator = Operator::start_with_registry("proposal-trap", registry.settings()).await;
    let prefix = registry.reference("acme");
    let spec = json!({ "proposalPrefix": prefix, "limits": { "fuel": LITTLE_FUEL } });
    let installed = TestPlugin::create(&operator, spec).await;
    operator.create(&on_image("small", &image)).await;
    operator.wait_until_ready("small").await;

    create_large_resources(&operator, &image).await;
    let quarantined = installed.wait_for("Promoted", "False", "Quarantined").await;
    let status = quarantined.status.unwrap();
    let [digest] = status.quarantined.as_slice() else {
        panic!("{:?}", status.quarantined)
    };
    let [proposal] = status.proposals.as_slice() else {
        panic!("{:?}", status.proposals)
    };
    assert_eq!(proposal.proposed_by, image);
    assert_eq!(
        proposal.plugin, None,
        "a quarantined plugin must not be in use"
    );
    let problem = proposal.problem.as_deref().unwrap();
    assert!(
        problem.contains(&plugin) && problem.contains(digest),
        "{problem}"
    );
    installed.wait_for_event("Quarantined").await;
    let names_plugin = |cr: &Distribution| {
        let generated = condition(cr, "ConfigGenerated");
        is_unsupported(cr) && generated.is_some_and(|(_, _, message)| message.contains(&plugin))
    };
    operator
        .wait_for("large-0", "unsupported", names_plugin)
        .await;
    // What runs keeps its recorded configuration, without the plugin.
    let small = operator.wait_until_ready("small").await;
    assert_eq!(condition(&small, "ConfigGenerated").unwrap().0, "True");

    installed.edit(json!({ "limits": null })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.wait_until_ready("large-0").await;
    installed.delete().await;
    operator.stop().await;
}
