//! Resources that the first operator left, stored anew.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use llsd_api::DISTRIBUTION_CRD_NAME;
use llsd_controller::{Migration, MigrationError, migrate_storage};
use serde_json::json;

use crate::plane::{LEGACY, Plane, Target, list};

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
async fn a_migration_that_was_stopped_is_taken_up_and_done_once() {
    let plane = Plane::oldest().await;
    let admin = plane.client().await;
    assert_eq!(stored_versions(&admin).await, ["v1alpha1", "v1alpha2"]);
    let before = resource_versions(&admin).await;

    // Somebody who may write in one of the two namespaces only comes half the way.
    let half = half_allowed(plane, &admin).await;
    let stopped = migrate_storage(&half).await.unwrap_err();
    assert!(
        matches!(&stopped, MigrationError::Resource { namespace, .. } if namespace == "legacy-b"),
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
    // What was stored anew already is not written again.
    assert_eq!(after[..2], between[..2]);
    assert_ne!(after[2], between[2]);
    assert_eq!(
        migrate_storage(&admin).await.unwrap(),
        Migration::NothingToDo
    );
}

async fn half_allowed(plane: &Plane, admin: &Client) -> Client {
    const USER: &str = "half-allowed";
    plane.testbed.add_user(USER, None).unwrap();
    let subjects = json!([{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}]);
    let role = |name: &str| json!({"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let roles = Api::<ClusterRole>::all(admin.clone());
    for (name, rules) in [
        (
            "half-reads",
            json!([
                {"apiGroups": ["llamastack.io"], "resources": ["*"], "verbs": ["get", "list"]},
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["*"]},
            ]),
        ),
        (
            "half-writes",
            json!([{"apiGroups": ["llamastack.io"], "resources": ["*"], "verbs": ["patch"]}]),
        ),
    ] {
        let made = json!({"metadata": {"name": name}, "rules": rules});
        roles
            .create(
                &PostParams::default(),
                &serde_json::from_value(made).unwrap(),
            )
            .await
            .unwrap();
    }
    let everywhere = json!({"metadata": {"name": "half-reads"}, "roleRef": role("half-reads"), "subjects": subjects});
    Api::<ClusterRoleBinding>::all(admin.clone())
        .create(
            &PostParams::default(),
            &serde_json::from_value(everywhere).unwrap(),
        )
        .await
        .unwrap();
    let there = json!({"metadata": {"name": "half-writes"}, "roleRef": role("half-writes"), "subjects": subjects});
    Api::<RoleBinding>::namespaced(admin.clone(), "legacy-a")
        .create(
            &PostParams::default(),
            &serde_json::from_value(there).unwrap(),
        )
        .await
        .unwrap();
    plane.testbed.client(USER).await.unwrap()
}
