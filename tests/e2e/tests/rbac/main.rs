//! The shipped roles grant every permission that the operator needs, and no other.
//!
//! A cluster-wide operator goes through every scenario, and the audit log shows the permissions that it
//! used. It has its own control plane, because webhooks and stored versions affect a whole cluster.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod migration;
mod scenarios;
mod unaudited;

use std::collections::BTreeSet;
use std::net::TcpListener;

use llsd_controller::{Endpoints, Options, install_definitions};
use llsd_e2e::{
    Permission, TestEnv, TestRegistry, granted, install_gateway_api, install_pod_monitors,
    registries,
};
use llsd_testbed::{Access, AuditedRequest, Release, Testbed};
use tokio::sync::OnceCell;

use migration::{create_unmigrated, install_webhooks, wait_until_migrated};
use scenarios::{
    attach_to_a_gateway, break_settings, collide_with_foreign_objects, create_and_remove_children,
    postgres_secret, replace_plugins, serve_metrics, update_and_undo,
    use_ca_bundle_of_another_namespace, with_postgres,
};

/// Permissions that the API server checks internally, without an audit line: resource, verb, and the error
/// message when it is missing.
const UNAUDITED: [(&str, &str, &str); 2] = [
    // Needed to set an owner reference.
    (
        "llamastackdistributions/finalizers",
        "update",
        "cannot set blockOwnerDeletion",
    ),
    // Needed to restore the owner reference of an orphaned Deployment.
    (
        "deployments",
        "delete",
        "cannot set an ownerRef on a resource you can't delete",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_shipped_permission_is_used() {
    static TESTBED: OnceCell<Testbed> = OnceCell::const_new();
    let testbed = TESTBED
        .get_or_init(async || Testbed::start(Release::Newest).await.unwrap())
        .await;
    let admin = testbed.client("admin").await.unwrap();
    install_definitions(&admin, None).await.unwrap();
    install_gateway_api(&admin).await;
    install_pod_monitors(&admin).await;
    let env = TestEnv::cluster_wide(testbed, "permissions").await;
    let start = env.mark().await;

    install_webhooks(&env).await;
    create_unmigrated(&env).await;
    let registry = TestRegistry::start(Access::Anyone).await;
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics_at = metrics.local_addr().unwrap();
    let settings = Options {
        registries: registries(registry.settings()),
        identity: Some("first".to_owned()),
        endpoints: Endpoints {
            probes: None,
            metrics: Some(metrics),
        },
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    wait_until_migrated(&operator).await;
    create_and_remove_children(&operator).await;
    collide_with_foreign_objects(&operator).await;
    attach_to_a_gateway(&operator).await;
    serve_metrics(&operator).await;
    use_ca_bundle_of_another_namespace(&operator).await;
    replace_plugins(&operator, &registry).await;
    update_and_undo(&operator).await;
    break_settings(&operator).await;
    let response = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap()
        .get(format!("https://{metrics_at}/metrics"))
        .bearer_auth(operator.token().await)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 403, "metrics need permission");

    let home = operator.home.as_ref().unwrap().name().to_owned();
    let env = operator.stop().await;
    let requests = env.audited(start);
    let used: BTreeSet<Permission> = requests.iter().flat_map(|one| used(one, &home)).collect();
    let is_audited = |permission: &&Permission| {
        let is_same =
            |(resource, verb, _)| permission.resource == resource && permission.verb == verb;
        !UNAUDITED.into_iter().any(is_same)
    };
    let granted = granted();
    let unused: Vec<_> = granted
        .difference(&used)
        .filter(is_audited)
        .map(|permission| {
            let scope = if permission.is_own {
                "own namespace"
            } else {
                "served namespaces"
            };
            let Permission {
                verb,
                group,
                resource,
                ..
            } = permission;
            format!("{verb} {group} {resource} ({scope})")
        })
        .collect();
    assert!(
        unused.is_empty(),
        "granted but never used:\n{}",
        unused.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespaced_operator_with_a_separate_home_has_every_permission_it_needs() {
    let testbed = Testbed::shared().await.unwrap();
    let admin = testbed.client("admin").await.unwrap();
    install_definitions(&admin, None).await.unwrap();
    let env = TestEnv::with_separate_home(testbed, "namespaced").await;
    let settings = Options {
        identity: Some("first".to_owned()),
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    operator.apply(&[postgres_secret()]).await;
    operator.create(&with_postgres("namespaced")).await;
    operator.wait_until_ready("namespaced").await;
    // Dropping the environment fails the test if a request was denied.
    operator.stop().await;
}

/// The permissions that a request needed.
fn used(request: &AuditedRequest, home: &str) -> Vec<Permission> {
    let resource = match request.subresource.as_str() {
        "" => request.resource.clone(),
        below => format!("{}/{below}", request.resource),
    };
    let permission = |verb: &str| Permission {
        is_own: request.namespace == home,
        group: request.group.clone(),
        resource: resource.clone(),
        verb: verb.to_owned(),
    };
    // A server-side apply that creates an object needs `patch` and `create`.
    let is_create = request.verb == "patch" && request.code == 201;
    let mut permissions = vec![permission(&request.verb)];
    permissions.extend(is_create.then(|| permission("create")));
    permissions
}
