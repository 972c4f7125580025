//! The control plane itself fails: the operator waits, what runs goes on, and afterwards everything
//! becomes what the resources say.
//!
//! These tests break a control plane of their own, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use llsd_api::{Distribution, WEBHOOK_NAME, Webhook, WebhookEndpoint};
use llsd_controller::{install_admission, install_definitions};
use llsd_e2e::{DEADLINE, Footprint, Operator, Stage, condition, config_map, named};
use llsd_testbed::{Authority, Release, Testbed, until};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// A control plane to break, for one test at a time.
async fn fragile() -> (&'static Testbed, MutexGuard<'static, ()>) {
    static PLANE: OnceCell<Testbed> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let plane = PLANE
        .get_or_init(async || Testbed::start(Release::Newest).await.unwrap())
        .await;
    let client = plane.client("admin").await.unwrap();
    install_definitions(&client, None).await.unwrap();
    (plane, turn)
}

/// An operator with two servers: one that the test changes, and one that it does not.
async fn two_servers(testbed: &'static Testbed, prefix: &str) -> (Operator, Footprint) {
    let operator = Stage::set_on(testbed, prefix).await.operate().await;
    for name in ["steady", "moving"] {
        operator.create(&named(name)).await;
        operator.wait_until_ready(name).await;
    }
    let steady = Footprint::of(&operator, "steady").await;
    (operator, steady)
}

/// Asks for another model, as somebody who tries again until the API server answers.
async fn ask_for(operator: &Operator, model: &str) {
    let change = json!({"spec": {"resources": {"models": [model]}}});
    let api = operator.api::<Distribution>();
    until("the change is taken", DEADLINE, || async {
        let change = Patch::Merge(&change);
        Ok(api
            .patch("moving", &PatchParams::default(), &change)
            .await?)
    })
    .await
    .unwrap();
}

async fn assert_serves(operator: &Operator, model: &str) {
    let cr = operator.wait_until_ready("moving").await;
    let map = operator.api::<ConfigMap>().get(&config_map(&cr)).await;
    let file = &map.unwrap().data.unwrap()["config.yaml"];
    assert!(file.contains(model), "{file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_killed_and_comes_back_finds_the_operator_at_work() {
    let (testbed, _turn) = fragile().await;
    let (operator, steady) = two_servers(testbed, "restart").await;
    for model in ["after-one", "after-two"] {
        testbed.restart_api_server().await.unwrap();
        assert_eq!(Footprint::of(&operator, "steady").await, steady);
        ask_for(&operator, model).await;
        assert_serves(&operator, model).await;
    }
    assert_eq!(Footprint::of(&operator, "steady").await, steady);
    // An API server that has just started has not read the roles yet, and forbids everything.
    operator.forgive();
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_slow_etcd_changes_take_longer_and_arrive() {
    const CHANGES: usize = 5;
    const STILL: Duration = Duration::from_millis(400);
    const AWAKE: Duration = Duration::from_millis(150);
    let (testbed, _turn) = fragile().await;
    let (operator, steady) = two_servers(testbed, "slow").await;
    let slowness = tokio::spawn(async move {
        loop {
            let held = testbed.state().hold_etcd().unwrap();
            tokio::time::sleep(STILL).await;
            drop(held);
            tokio::time::sleep(AWAKE).await;
        }
    });
    for number in 0..CHANGES {
        let model = format!("model-{number}");
        ask_for(&operator, &model).await;
        assert_serves(&operator, &model).await;
    }
    slowness.abort();
    assert!(slowness.await.unwrap_err().is_cancelled());
    assert_eq!(Footprint::of(&operator, "steady").await, steady);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_webhooks_changes_arrive_and_one_that_they_would_refuse_changes_nothing() {
    let (testbed, _turn) = fragile().await;
    let (operator, steady) = two_servers(testbed, "dead").await;
    let knocks = kill_webhooks(&operator).await;
    until("somebody asks for the webhooks", DEADLINE, || async {
        let touch = json!({"metadata": {"labels": {"touched": fastrand::u32(..).to_string()}}});
        operator.edit("moving", touch).await;
        anyhow::ensure!(knocks.load(Ordering::Relaxed) > 0, "nobody does");
        Ok(())
    })
    .await
    .unwrap();

    ask_for(&operator, "meanwhile").await;
    assert_serves(&operator, "meanwhile").await;
    let moving = Footprint::of(&operator, "moving").await;
    let provider = |name: &str| json!({"spec": {"providers": {"inference": {"provider": name}}}});
    operator.edit("moving", provider("vlm")).await;
    let is_refused = |cr: &Distribution| {
        condition(cr, "ConfigGenerated").is_some_and(|(status, ..)| status == "False")
    };
    operator.wait_for("moving", "refused", is_refused).await;
    assert_eq!(Footprint::of(&operator, "moving").await, moving);

    revive(&operator).await;
    operator.edit("moving", provider("vllm")).await;
    ask_for(&operator, "afterwards").await;
    assert_serves(&operator, "afterwards").await;
    assert_eq!(Footprint::of(&operator, "steady").await, steady);
    operator.stop().await;
}

/// Publishes webhooks at a port where whoever knocks is sent away, and gives the number of knocks.
async fn kill_webhooks(operator: &Operator) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let knocks = Arc::new(AtomicUsize::new(0));
    let counter = knocks.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let webhook = Webhook {
        endpoint: WebhookEndpoint::Url(format!("https://{address}")),
        ca_bundle: Some(Authority::generate().unwrap().certificate().to_owned()),
    };
    install_definitions(&operator.client, Some(&webhook))
        .await
        .unwrap();
    install_admission(&operator.client, &webhook).await.unwrap();
    knocks
}

/// The end of the outage: nothing needs a webhook any more.
async fn revive(operator: &Operator) {
    install_definitions(&operator.client, None).await.unwrap();
    let configurations = Api::<ValidatingWebhookConfiguration>::all(operator.client.clone());
    configurations
        .delete(WEBHOOK_NAME, &DeleteParams::default())
        .await
        .unwrap();
}
