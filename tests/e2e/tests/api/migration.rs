//! Migration of resources that llama-stack-k8s-operator stored as v1alpha1.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use llsd_api::DISTRIBUTION_CRD_NAME;
use llsd_controller::{Migration, MigrationError, migrate_storage};
use serde_json::json;

use crate::test_cluster::{LEGACY, Target, TestCluster, list};

async fn stored_versions(client: &Client) -> Vec<String> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = api.get(DISTRIBUTION_CRD_NAME).await.unwrap();
    definition.status.unwrap().stored_versions.unwrap()
}

async fn resource_versions(client: &Client) -> Vec<String> {
    let mut versions = Vec::new();
    for (namespace, name) in LEGACY {
        let target = Target {
            namespace,
            version: "v1alpha2",
        };
        let shown = list(client, &target).await.unwrap();
        assert_eq!(shown[name]["spec"]["workload"]["replicas"], 0);
        versions.push(
            shown[name]["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    versions
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_migration_is_resumed_and_writes_each_resource_once() {
    let cluster = TestCluster::oldest().await;
    let admin = cluster.client().await;
    assert_eq!(stored_versions(&admin).await, ["v1alpha1", "v1alpha2"]);
    let before = resource_versions(&admin).await;

    // A user who may write in only one of the two namespaces cannot complete the migration.
    let restricted = restricted_client(cluster, &admin).await;
    let stopped = migrate_storage(&restricted).await.unwrap_err();
    assert!(
        matches!(&stopped, MigrationError::Resource { namespace, .. } if namespace == "a-legacy-2"),
        "{stopped}"
    );
    assert_eq!(stored_versions(&admin).await, ["v1alpha1", "v1alpha2"]);
    let between = resource_versions(&admin).await;
    assert!(between[0] != before[0] && between[1] != before[1]);
    assert_eq!(between[2], before[2]);

    let done = migrate_storage(&admin).await.unwrap();
    assert!(
        matches!(done, Migration::Done(count) if count >= LEGACY.len()),
        "{done:?}"
    );
    assert_eq!(stored_versions(&admin).await, ["v1alpha2"]);
    let after = resource_versions(&admin).await;
    // Resources that were migrated before are not written again.
    assert_eq!(after[..2], between[..2]);
    assert_ne!(after[2], between[2]);
    assert_eq!(
        migrate_storage(&admin).await.unwrap(),
        Migration::NothingToDo
    );
}

/// A client that may write resources in `a-legacy-1` only.
async fn restricted_client(cluster: &TestCluster, admin: &Client) -> Client {
    const USER: &str = "restricted";
    cluster.testbed.add_user(USER, None).unwrap();
    let subjects = json!([{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}]);
    let role_ref = |name: &str| json!({"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let roles = Api::<ClusterRole>::all(admin.clone());
    for (name, rules) in [
        (
            "restricted-read",
            json!([
                {"apiGroups": ["llamastack.io"], "resources": ["*"], "verbs": ["get", "list"]},
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["*"]},
            ]),
        ),
        (
            "restricted-write",
            json!([{"apiGroups": ["llamastack.io"], "resources": ["*"], "verbs": ["patch"]}]),
        ),
    ] {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        roles
            .create(
                &PostParams::default(),
                &serde_json::from_value(role).unwrap(),
            )
            .await
            .unwrap();
    }
    let cluster_binding = json!({"metadata": {"name": "restricted-read"}, "roleRef": role_ref("restricted-read"), "subjects": subjects});
    Api::<ClusterRoleBinding>::all(admin.clone())
        .create(
            &PostParams::default(),
            &serde_json::from_value(cluster_binding).unwrap(),
        )
        .await
        .unwrap();
    let binding = json!({"metadata": {"name": "restricted-write"}, "roleRef": role_ref("restricted-write"), "subjects": subjects});
    Api::<RoleBinding>::namespaced(admin.clone(), "a-legacy-1")
        .create(
            &PostParams::default(),
            &serde_json::from_value(binding).unwrap(),
        )
        .await
        .unwrap();
    cluster.testbed.client(USER).await.unwrap()
}
