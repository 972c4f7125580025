//! Permissions that the audit log does not show. Without them the API server rejects the request.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use llsd_e2e::{DEADLINE, Permission, TestEnv, granted, named};
use llsd_testbed::until;
use serde_json::json;

use crate::UNAUDITED;

#[tokio::test(flavor = "multi_thread")]
async fn the_permissions_that_the_audit_log_does_not_show_are_needed() {
    let env = TestEnv::new("unaudited").await;
    let cr = env.create(&named("owner")).await;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "orphan"},
        "spec": {
            "selector": {"matchLabels": {"app": "orphan"}},
            "template": {
                "metadata": {"labels": {"app": "orphan"}},
                "spec": {"containers": [{"name": "one", "image": "one"}]},
            },
        },
    });
    env.apply(std::slice::from_ref(&deployment)).await;
    let mut owner = json!(cr.controller_owner_ref(&()).unwrap());
    owner["blockOwnerDeletion"] = true.into();
    let owned = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "orphan", "ownerReferences": [owner]},
    });
    let adopt = async |user: &str| {
        let client = env.testbed.client(user).await.unwrap();
        let parameters = PatchParams::apply("tests");
        let api: Api<Deployment> = env.namespace.api(&client);
        api.patch("orphan", &parameters, &Patch::Apply(&owned))
            .await
    };
    for (resource, verb, message) in UNAUDITED {
        let user = format!("without-{verb}-{}", env.namespace.name());
        let all = granted().into_iter();
        let rest =
            all.filter(|one| !one.is_own && (&*one.resource, &*one.verb) != (resource, verb));
        allow(&env, &user, rest).await;
        until("the missing permission is reported", DEADLINE, || async {
            let error = adopt(&user).await.err();
            let error = error.map_or_else(String::new, |error| error.to_string());
            anyhow::ensure!(error.contains(message), "{error}");
            Ok(())
        })
        .await
        .unwrap();
    }
    adopt(&env.user).await.unwrap();
}

/// Creates a user with permissions in the namespace of the test.
async fn allow(env: &TestEnv, user: &str, permissions: impl Iterator<Item = Permission>) {
    env.testbed.add_user(user, None).unwrap();
    let rules: Vec<_> = permissions
        .map(|one| json!({"apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb]}))
        .collect();
    let group = "rbac.authorization.k8s.io";
    env.apply(&[
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role",
            "metadata": {"name": user}, "rules": rules,
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }),
    ])
    .await;
}
