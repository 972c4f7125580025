//! Migration of resources that llama-stack-k8s-operator stored as v1alpha1.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use llsd_api::{DISTRIBUTION_CRD_NAME, Webhook, WebhookEndpoint};
use llsd_controller::{
    Migration, MigrationError, RejectedResource, install_definitions, migrate_storage,
};
use llsd_e2e::{TestEnv, serve_webhooks};
use llsd_testbed::{CertificateAuthority, Release, Testbed, until};
use llsd_webhook::Periods;
use serde_json::json;

use crate::test_cluster::{
    DEADLINE, LEGACY, SECRET_NAMESPACE, Target, TestCluster, create_legacy_resources, list,
};

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
async fn a_migration_goes_on_after_a_rejected_resource_and_writes_each_resource_once() {
    let cluster = TestCluster::oldest().await;
    let admin = cluster.client().await;
    assert_eq!(stored_versions(&admin).await, ["v1alpha1", "v1alpha2"]);
    let before = resource_versions(&admin).await;

    // A user who may write in only one of the two namespaces cannot complete the migration. The
    // resource that is rejected comes first, and the others are migrated all the same.
    let restricted = restricted_client(cluster, &admin).await;
    let stopped = migrate_storage(&restricted).await.unwrap_err();
    let MigrationError::Resources(rejected) = &stopped else {
        panic!("{stopped}");
    };
    let is_writable = |one: &RejectedResource| one.namespace == "a-legacy-2";
    assert!(!rejected.iter().any(is_writable), "{stopped}");
    assert!(rejected.len() >= 2, "{stopped}");
    assert!(
        stopped.to_string().contains("a-legacy-1/first: "),
        "{stopped}"
    );
    assert_eq!(stored_versions(&admin).await, ["v1alpha1", "v1alpha2"]);
    let between = resource_versions(&admin).await;
    assert_eq!(between[..2], before[..2]);
    assert_ne!(between[2], before[2]);

    let done = migrate_storage(&admin).await.unwrap();
    assert!(
        matches!(done, Migration::Done(count) if count >= LEGACY.len()),
        "{done:?}"
    );
    assert_eq!(stored_versions(&admin).await, ["v1alpha2"]);
    let after = resource_versions(&admin).await;
    // A resource that was migrated before is not written again.
    assert!(after[0] != between[0] && after[1] != between[1]);
    assert_eq!(after[2], between[2]);
    assert_eq!(
        migrate_storage(&admin).await.unwrap(),
        Migration::NothingToDo
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_migrates_as_soon_as_the_webhook_is_reachable() {
    let testbed: &'static Testbed =
        Box::leak(Box::new(Testbed::start(Release::Oldest).await.unwrap()));
    let client = testbed.client("admin").await.unwrap();
    create_legacy_resources(&client).await.unwrap();
    // Nothing listens on port 1.
    let unreachable = Webhook {
        endpoint: WebhookEndpoint::Url("https://127.0.0.1:1".to_owned()),
        ca_bundle: Some(
            CertificateAuthority::generate()
                .unwrap()
                .certificate()
                .to_owned(),
        ),
    };
    install_definitions(&client, Some(&unreachable))
        .await
        .unwrap();
    let env = TestEnv::cluster_wide(testbed, "unreachable").await;
    let mark = env.mark().await;
    let operator = env.start_operator().await;
    until("the operator tried", DEADLINE, || async {
        let requests = operator.requests_since(mark).await;
        let tried = |one: &String| one.starts_with("get customresourcedefinitions");
        let count = requests.iter().filter(|one| tried(one)).count();
        anyhow::ensure!(count >= 2, "{count} attempts");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(stored_versions(&client).await, ["v1alpha1", "v1alpha2"]);

    let kubeconfig = testbed.kubeconfig("admin").unwrap();
    let webhook = serve_webhooks(kubeconfig, SECRET_NAMESPACE, Periods::default()).await;
    install_definitions(&client, Some(&webhook.unwrap()))
        .await
        .unwrap();
    until("the resources are migrated", DEADLINE, || async {
        let stored = stored_versions(&client).await;
        anyhow::ensure!(stored == ["v1alpha2"], "{stored:?}");
        Ok(())
    })
    .await
    .unwrap();
    operator.stop().await;
}

/// A client that may write resources in `a-legacy-2` only.
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
    Api::<RoleBinding>::namespaced(admin.clone(), "a-legacy-2")
        .create(
            &PostParams::default(),
            &serde_json::from_value(binding).unwrap(),
        )
        .await
        .unwrap();
    cluster.testbed.client(USER).await.unwrap()
}
