//! A pull secret that comes later heals what waits for it, without a word about the resource.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{LocalObjectReference, Secret, ServiceAccount};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{Operator, STARTER, Shelf, condition, on_image};
use llsd_testbed::Access;
use serde_json::json;

/// Less than until the operator would look again by itself.
const SECONDS: Duration = Duration::from_secs(30);

fn is_let_in(cr: &Distribution) -> Option<bool> {
    let (status, reason, _) = condition(cr, "ConfigGenerated")?;
    Some(status == "True" && reason != "AuthFailed")
}

fn secret(name: &str, shelf: &Shelf) -> Secret {
    let key = ".dockerconfigjson".to_owned();
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
        data: Some([(key, ByteString(shelf.docker_config()))].into()),
        ..Secret::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_secret_that_is_made_later_heals_within_seconds() {
    let shelf = Shelf::start(Access::Basic {
        user: "puller".to_owned(),
        password: "password".to_owned(),
    })
    .await;
    let image = shelf
        .push_labelled("acme/stack", "1", STARTER, "llama-stack/0.7", None)
        .await;
    let operator = Operator::start_reaching("pull", shelf.settings()).await;
    // One is named by the resource, the other by the account that its pods run as.
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("runner".to_owned()),
            ..ObjectMeta::default()
        },
        image_pull_secrets: Some(vec![LocalObjectReference {
            name: "of-account".to_owned(),
        }]),
        ..ServiceAccount::default()
    };
    let accounts = operator.api::<ServiceAccount>();
    let parameters = PatchParams::apply("tests").force();
    accounts
        .patch("runner", &parameters, &Patch::Apply(account))
        .await
        .unwrap();
    let mut named = on_image("named", &image);
    named["spec"]["workload"] = json!({"overrides": {"imagePullSecrets": [{"name": "pull"}]}});
    let mut by_account = on_image("by-account", &image);
    by_account["spec"]["workload"] = json!({"overrides": {"serviceAccountName": "runner"}});

    for (resource, name, pull) in [
        (named, "named", "pull"),
        (by_account, "by-account", "of-account"),
    ] {
        operator.create(&resource).await;
        let is_refused = |cr: &Distribution| is_let_in(cr) == Some(false);
        operator.wait_for(name, "refused", is_refused).await;
        operator
            .api::<Secret>()
            .create(&PostParams::default(), &secret(pull, &shelf))
            .await
            .unwrap();
        let is_healed = |cr: &Distribution| is_let_in(cr) == Some(true);
        tokio::time::timeout(SECONDS, operator.wait_for(name, "let in", is_healed))
            .await
            .unwrap();
    }
    operator.stop().await;
}
