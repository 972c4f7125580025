//! The shipped roles: all that they grant is used, and nothing that is needed is missing.
//!
//! One operator for the whole cluster, at home in a namespace of its own, does everything that an
//! operator does. It has a control plane to itself, because webhooks and stored versions belong to the
//! whole of it. What it asked for stands in the audit log.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod deeds;
mod unseen;

use std::collections::BTreeSet;
use std::net::TcpListener;

use llsd_controller::{Endpoints, Settings, install_definitions};
use llsd_e2e::{Right, Shelf, Stage, granted, registries};
use llsd_testbed::{Access, AuditedRequest, Release, Testbed};
use tokio::sync::OnceCell;

use deeds::{
    grow_and_shrink, leave_unmigrated, meet_others, on_postgres, postgres, publish_webhooks,
    replace_plugins, spoil_settings, trust_from_elsewhere, wait_until_migrated,
};

/// Asked for inside the API server, so that no log tells of it, and what it says where it is missing.
const UNSEEN: [(&str, &str, &str); 2] = [
    // Whenever a child names its owner.
    (
        "llamastackdistributions/finalizers",
        "update",
        "cannot set blockOwnerDeletion",
    ),
    // Whenever an orphaned Deployment gets its owner back.
    (
        "deployments",
        "delete",
        "cannot set an ownerRef on a resource you can't delete",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_right_that_is_shipped_is_used() {
    static PLANE: OnceCell<Testbed> = OnceCell::const_new();
    let testbed = PLANE
        .get_or_init(async || Testbed::start(Release::Newest).await.unwrap())
        .await;
    let admin = testbed.client("admin").await.unwrap();
    install_definitions(&admin, None).await.unwrap();
    let stage = Stage::set_across(testbed, "rights").await;
    let begun = stage.mark().await;

    publish_webhooks(&stage).await;
    leave_unmigrated(&stage).await;
    let shelf = Shelf::start(Access::Anyone).await;
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics_at = metrics.local_addr().unwrap();
    let settings = Settings {
        registries: registries(shelf.settings()),
        identity: Some("first".to_owned()),
        endpoints: Endpoints {
            probes: None,
            metrics: Some(metrics),
        },
        ..stage.settings().await
    };
    let operator = stage.operate_with(settings);
    wait_until_migrated(&operator).await;
    grow_and_shrink(&operator).await;
    meet_others(&operator).await;
    trust_from_elsewhere(&operator).await;
    replace_plugins(&operator, &shelf).await;
    spoil_settings(&operator).await;
    let asked = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap()
        .get(format!("https://{metrics_at}/metrics"))
        .bearer_auth(operator.token().await)
        .send()
        .await
        .unwrap();
    assert_eq!(asked.status(), 403, "who may read nothing reads no metrics");

    let home = operator.home.as_ref().unwrap().name().to_owned();
    let stage = operator.stop().await;
    let requests = stage.audited(begun);
    let used: BTreeSet<Right> = requests.iter().flat_map(|one| used(one, &home)).collect();
    let is_seen = |right: &&Right| {
        let is_it = |(resource, verb, _)| right.resource == resource && right.verb == verb;
        !UNSEEN.into_iter().any(is_it)
    };
    let granted = granted();
    let unused: Vec<_> = granted
        .difference(&used)
        .filter(is_seen)
        .map(|right| {
            let place = if right.is_own { "at home" } else { "served" };
            format!(
                "{} {} {} ({place})",
                right.verb, right.group, right.resource
            )
        })
        .collect();
    assert!(
        unused.is_empty(),
        "granted and never used:\n{}",
        unused.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_one_namespace_has_all_that_it_needs_at_home() {
    let testbed = Testbed::shared().await.unwrap();
    let admin = testbed.client("admin").await.unwrap();
    install_definitions(&admin, None).await.unwrap();
    let stage = Stage::set_apart(testbed, "apart").await;
    let settings = Settings {
        identity: Some("first".to_owned()),
        ..stage.settings().await
    };
    let operator = stage.operate_with(settings);
    operator.apply(&[postgres()]).await;
    operator.create(&on_postgres("apart")).await;
    operator.wait_until_ready("apart").await;
    // What was forbidden meanwhile fails the test when the stage goes.
    operator.stop().await;
}

/// The rights that a request needed.
fn used(request: &AuditedRequest, home: &str) -> Vec<Right> {
    let resource = match request.subresource.as_str() {
        "" => request.resource.clone(),
        below => format!("{}/{below}", request.resource),
    };
    let right = |verb: &str| Right {
        is_own: request.namespace == home,
        group: request.group.clone(),
        resource: resource.clone(),
        verb: verb.to_owned(),
    };
    // An apply that makes an object needs both.
    let made = request.verb == "patch" && request.code == 201;
    let mut rights = vec![right(&request.verb)];
    rights.extend(made.then(|| right("create")));
    rights
}
