//! Story seven: v1alpha1 resources still work, and both versions show the same resource.
//!
//! Webhooks affect a whole cluster, so the test starts its own control plane.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use llsd_controller::{install_admission, install_definitions};
use llsd_e2e::{DEADLINE, TestEnv, minimal, serve_webhooks};
use llsd_testbed::{Release, Testbed, until};
use llsd_webhook::Periods;
use serde_json::json;
use tokio::sync::OnceCell;

#[tokio::test(flavor = "multi_thread")]
async fn story_7_a_v1alpha1_resource_is_served_and_both_versions_show_it() {
    static TESTBED: OnceCell<Testbed> = OnceCell::const_new();
    let testbed = TESTBED
        .get_or_init(async || Testbed::start(Release::Newest).await.unwrap())
        .await;
    let client = testbed.client("admin").await.unwrap();
    let kubeconfig = testbed.kubeconfig("admin").unwrap();
    let webhook = serve_webhooks(kubeconfig, "default", Periods::default()).await;
    let webhook = webhook.unwrap();
    install_definitions(&client, Some(&webhook)).await.unwrap();
    install_admission(&client, &webhook).await.unwrap();
    let operator = TestEnv::on(testbed, "story7").await.start_operator().await;
    let version = |version: &str| -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("llamastack.io", version, "LlamaStackDistribution");
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(client.clone(), operator.namespace.name(), &resource)
    };
    let (old, new) = (version("v1alpha1"), version("v1alpha2"));

    let first = json!({
        "apiVersion": "llamastack.io/v1alpha1",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": "old"},
        "spec": {
            "replicas": 1,
            "server": {
                "distribution": {"name": "starter"},
                "containerSpec": {"port": 8321, "env": [{"name": "LOG", "value": "debug"}]},
            },
        },
    });
    let first: DynamicObject = serde_json::from_value(first).unwrap();
    until("the v1alpha1 resource is accepted", DEADLINE, || async {
        Ok(old.create(&PostParams::default(), &first).await?)
    })
    .await
    .unwrap();
    operator.wait_until_ready("old").await;
    let shown = new.get("old").await.unwrap().data;
    assert_eq!(shown["spec"]["distribution"]["name"], "starter");
    assert_eq!(shown["spec"]["networking"]["port"], 8321);
    assert_eq!(
        shown["spec"]["workload"]["overrides"]["env"][0]["name"],
        "LOG"
    );

    let more = Patch::Merge(json!({"spec": {"replicas": 2}}));
    old.patch("old", &PatchParams::default(), &more)
        .await
        .unwrap();
    let cr = operator.wait_until_ready("old").await;
    assert_eq!(cr.status.unwrap().available_replicas, Some(2));
    let status = &old.get("old").await.unwrap().data["status"];
    assert_eq!(status["phase"], "Ready");

    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let shown = old.get("minimal").await.unwrap().data;
    assert_eq!(shown["spec"]["server"]["distribution"]["name"], "starter");
    operator.stop().await;
}
