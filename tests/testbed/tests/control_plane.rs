//! The control plane works: it stores objects, schedules pods, checks permissions and audits.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace as KubeNamespace};
use kube::api::{Api, ListParams, PostParams};
use llsd_testbed::{Testbed, eventually};
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn kubectl_shows_the_version_of_the_newest_api_server() {
    let testbed = Testbed::shared().await.unwrap();
    let kubectl = testbed.kubectl("admin").unwrap();
    let output = kubectl
        .args(["version", "--output=json"])
        .run()
        .await
        .unwrap()
        .success()
        .unwrap();
    let versions: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        versions["serverVersion"]["gitVersion"],
        testbed.state().version
    );
}

#[tokio::test]
async fn the_oldest_api_server_emulates_1_33_and_stores_objects() {
    let testbed = Testbed::shared_oldest().await.unwrap();
    let client = testbed.client("admin").await.unwrap();
    let kubectl = testbed.kubectl("admin").unwrap();
    let version = kubectl.args(["get", "--raw", "/version"]).run().await;
    let version = version.unwrap().success().unwrap();
    let version: serde_json::Value = serde_json::from_str(&version).unwrap();
    assert_eq!(
        (&version["emulationMajor"], &version["emulationMinor"]),
        (&json!("1"), &json!("33"))
    );

    let namespace = testbed.namespace("oldest").await.unwrap();
    let maps = namespace.api::<ConfigMap>(&client);
    let map =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let stored = maps.get("a").await.unwrap();
    assert_eq!(stored.data.unwrap()["k"], "v");
}

#[tokio::test]
async fn a_deployment_becomes_available_on_the_simulated_node() {
    let testbed = Testbed::shared().await.unwrap();
    let namespace = testbed.namespace("deployment").await.unwrap();
    let client = testbed.client("admin").await.unwrap();
    let deployments = namespace.api::<Deployment>(&client);
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "server"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "server"}},
            "template": {
                "metadata": {"labels": {"app": "server"}},
                "spec": {"containers": [{"name": "server", "image": "example.test/server:1"}]},
            },
        },
    }))
    .unwrap();
    deployments
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    let is_available = |d: Option<&Deployment>| {
        d.and_then(|d| d.status.as_ref())
            .is_some_and(|s| s.available_replicas == Some(2))
    };
    eventually(&deployments, "server", DEADLINE, "available", is_available)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_audit_log_counts_the_requests_of_one_user() {
    let testbed = Testbed::shared().await.unwrap();
    let namespace = testbed.namespace("audit").await.unwrap();
    let user = format!("auditor-{}", namespace.name());
    testbed.add_user(&user, Some("system:masters")).unwrap();
    let client = testbed.client(&user).await.unwrap();
    let admin = testbed.client("admin").await.unwrap();
    let (own, others) = (
        namespace.api::<ConfigMap>(&client),
        namespace.api::<ConfigMap>(&admin),
    );

    own.list(&ListParams::default()).await.unwrap();
    let mark = testbed.audit().mark().unwrap();
    let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    own.create(&PostParams::default(), &map).await.unwrap();
    own.get("a").await.unwrap();
    others.get("a").await.unwrap();
    assert!(own.get_opt("b").await.unwrap().is_none());

    let requests = testbed.audit().requests(&user, mark).unwrap();
    let seen: Vec<_> = requests
        .iter()
        .map(|r| {
            (
                r.verb.as_str(),
                r.resource.as_str(),
                r.name.as_str(),
                r.code,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("create", "configmaps", "a", 201),
            ("get", "configmaps", "a", 200),
            ("get", "configmaps", "b", 404),
        ]
    );
    assert!(requests.iter().all(|r| r.namespace == namespace.name()));
}

#[tokio::test]
async fn a_user_without_a_role_is_denied() {
    let testbed = Testbed::shared().await.unwrap();
    let namespace = testbed.namespace("denied").await.unwrap();
    let user = format!("unprivileged-{}", namespace.name());
    testbed.add_user(&user, None).unwrap();
    let kubectl = testbed.kubectl(&user).unwrap().namespace(namespace.name());
    let error = kubectl
        .args(["get", "configmaps"])
        .run()
        .await
        .unwrap()
        .failure()
        .unwrap();
    assert!(
        error.contains(&format!("User \"{user}\" cannot list resource")),
        "{error}"
    );
}

#[tokio::test]
async fn a_wait_that_times_out_reports_the_last_state() {
    let testbed = Testbed::shared().await.unwrap();
    let namespace = testbed.namespace("vain").await.unwrap();
    let client = testbed.client("admin").await.unwrap();
    let maps = namespace.api::<ConfigMap>(&client);
    let short = Duration::from_millis(200);
    let error = eventually(&maps, "a", short, "created", |map| map.is_some())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "configmap \"a\" is not created after 200ms; it does not exist"
    );
}

#[tokio::test]
async fn a_dropped_namespace_is_deleted() {
    let testbed = Testbed::shared().await.unwrap();
    let namespace = testbed.namespace("dropped").await.unwrap();
    let name = namespace.name().to_owned();
    let namespaces = Api::<KubeNamespace>::all(testbed.client("admin").await.unwrap());
    assert!(namespaces.get_opt(&name).await.unwrap().is_some());
    drop(namespace);
    eventually(&namespaces, &name, DEADLINE, "deleted", |n| n.is_none())
        .await
        .unwrap();
}
