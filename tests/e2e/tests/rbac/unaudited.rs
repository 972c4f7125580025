//! Rights that are needed although no log tells of their use: without them the API server refuses.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use llsd_e2e::{DEADLINE, Right, Stage, granted, named};
use llsd_testbed::until;
use serde_json::json;

use crate::UNSEEN;

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_no_log_tells_of_are_needed() {
    let stage = Stage::set("unseen").await;
    let cr = stage.create(&named("owner")).await;
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
    stage.apply(std::slice::from_ref(&deployment)).await;
    let mut owner = json!(cr.controller_owner_ref(&()).unwrap());
    owner["blockOwnerDeletion"] = true.into();
    let owned = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "orphan", "ownerReferences": [owner]},
    });
    let adopt = async |user: &str| {
        let client = stage.testbed.client(user).await.unwrap();
        let parameters = PatchParams::apply("tests");
        let api: Api<Deployment> = stage.namespace.api(&client);
        api.patch("orphan", &parameters, &Patch::Apply(&owned))
            .await
    };
    for (resource, verb, words) in UNSEEN {
        let user = format!("without-{verb}-{}", stage.namespace.name());
        let all = granted().into_iter();
        let rest =
            all.filter(|one| !one.is_own && (&*one.resource, &*one.verb) != (resource, verb));
        allow(&stage, &user, rest).await;
        until("it is missed", DEADLINE, || async {
            let refused = adopt(&user).await.err();
            let refused = refused.map_or_else(String::new, |error| error.to_string());
            anyhow::ensure!(refused.contains(words), "{refused}");
            Ok(())
        })
        .await
        .unwrap();
    }
    adopt(&stage.user).await.unwrap();
}

/// Gives a new user rights in the namespace of a stage.
async fn allow(stage: &Stage, user: &str, rights: impl Iterator<Item = Right>) {
    stage.testbed.add_user(user, None).unwrap();
    let rules: Vec<_> = rights
        .map(|one| json!({"apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb]}))
        .collect();
    let group = "rbac.authorization.k8s.io";
    stage
        .apply(&[
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
