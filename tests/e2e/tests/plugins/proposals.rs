//! Plugins that images propose by label.

use llsd_api::Distribution;
use llsd_e2e::{Operator, Shelf, condition, ogx_base, on_image};
use llsd_testbed::Access;
use serde_json::json;

use crate::installed::Installed;
use crate::{LITTLE_FUEL, is_unsupported, made_by, overtax};

#[tokio::test(flavor = "multi_thread")]
async fn what_an_image_proposes_is_loaded_only_where_a_prefix_allows_it() {
    let shelf = Shelf::start(Access::Anyone).await;
    let plugin = shelf.push_plugin("ogx", "acme/ogx:1");
    let image = shelf
        .push_labelled("acme/stack", "1", &ogx_base(), "ogx/1.0", Some(&plugin))
        .await;
    let operator = Operator::start_reaching("proposal", shelf.settings()).await;
    operator.create(&on_image("stack", &image)).await;
    operator
        .wait_for("stack", "unsupported", is_unsupported)
        .await;
    let asked = shelf.registry.requests().await.unwrap();
    let of_operator = asked
        .iter()
        .filter(|one| one.uri.contains("/acme/ogx/") && one.user_agent.starts_with("llsd"));
    let pushed = of_operator.count();

    let elsewhere = shelf.reference("acme/og");
    let installed = Installed::create(&operator, json!({ "proposalPrefix": elsewhere })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    let asked = shelf.registry.requests().await.unwrap();
    let of_operator = asked
        .iter()
        .filter(|one| one.uri.contains("/acme/ogx/") && one.user_agent.starts_with("llsd"));
    assert_eq!(
        of_operator.count(),
        pushed,
        "nobody allowed it, so nobody is asked"
    );

    let prefix = shelf.reference("acme");
    installed.edit(json!({ "proposalPrefix": prefix })).await;
    let cr = operator.wait_until_ready("stack").await;
    assert_eq!(made_by(&cr), "ogx");
    let told = installed.wait_for("Ready", "True", "InUse").await;
    let proposals = told.status.unwrap().proposals;
    assert_eq!(proposals[0].proposed_by, image);
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_that_fails_again_and_again_is_marked_and_another_spec_gives_it_another_chance()
{
    let shelf = Shelf::start(Access::Anyone).await;
    let plugin = shelf.push_plugin("ogx", "acme/ogx:1");
    let image = shelf
        .push_labelled("acme/stack", "1", &ogx_base(), "ogx/1.0", Some(&plugin))
        .await;
    let operator = Operator::start_reaching("proposal-trap", shelf.settings()).await;
    let prefix = shelf.reference("acme");
    let spec = json!({ "proposalPrefix": prefix, "limits": { "fuel": LITTLE_FUEL } });
    let installed = Installed::create(&operator, spec).await;
    operator.create(&on_image("small", &image)).await;
    operator.wait_until_ready("small").await;

    overtax(&operator, &image).await;
    let aside = installed.wait_for("Promoted", "False", "Quarantined").await;
    let told = aside.status.unwrap();
    let [digest] = told.quarantined.as_slice() else {
        panic!("{:?}", told.quarantined)
    };
    let [proposal] = told.proposals.as_slice() else {
        panic!("{:?}", told.proposals)
    };
    assert_eq!(proposal.proposed_by, image);
    assert_eq!(proposal.plugin, None, "nobody uses it");
    let problem = proposal.problem.as_deref().unwrap();
    assert!(
        problem.contains(&plugin) && problem.contains(digest),
        "{problem}"
    );
    installed.wait_for_event("Quarantined").await;
    let names_it = |cr: &Distribution| {
        let told = condition(cr, "ConfigGenerated");
        is_unsupported(cr) && told.is_some_and(|(_, _, message)| message.contains(&plugin))
    };
    let small = operator.wait_for("small", "without it", names_it).await;
    assert_eq!(condition(&small, "Available").unwrap().0, "True");

    installed.edit(json!({ "limits": null })).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.wait_until_ready("large-0").await;
    installed.delete().await;
    operator.stop().await;
}
