//! Outages of the control plane: running servers continue, and afterwards the operator applies every
//! change.
//!
//! The tests share a control plane of their own and use it one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use llsd_api::v1alpha2::Phase;
use llsd_api::{Distribution, WEBHOOK_NAME, Webhook, WebhookEndpoint};
use llsd_controller::{Options, install_admission, install_definitions};
use llsd_e2e::{
    DEADLINE, Operator, RolloutState, TcpProxy, TestEnv, config_map, has_condition, named, phase,
};
use llsd_testbed::{CertificateAuthority, Release, Testbed, until};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The control plane, locked for one test.
pub(crate) async fn exclusive_testbed() -> (&'static Testbed, MutexGuard<'static, ()>) {
    static TESTBED: OnceCell<Testbed> = OnceCell::const_new();
    static LOCK: Mutex<()> = Mutex::const_new(());
    let guard = LOCK.lock().await;
    let testbed = TESTBED
        .get_or_init(async || Testbed::start(Release::Newest).await.unwrap())
        .await;
    let client = testbed.client("admin").await.unwrap();
    install_definitions(&client, None).await.unwrap();
    (testbed, guard)
}

/// An operator with two servers. The test changes `changing` and leaves `stable` alone.
async fn two_servers(testbed: &'static Testbed, prefix: &str) -> (Operator, RolloutState) {
    let operator = TestEnv::on(testbed, prefix).await.start_operator().await;
    for name in ["stable", "changing"] {
        operator.create(&named(name)).await;
        operator.wait_until_ready(name).await;
    }
    let stable = RolloutState::of(&operator, "stable").await;
    (operator, stable)
}

/// Changes the model, and retries until the API server accepts the change.
async fn change_model(operator: &Operator, model: &str) {
    let change = json!({"spec": {"resources": {"models": [model]}}});
    let api = operator.api::<Distribution>();
    until("the change is accepted", DEADLINE, || async {
        let change = Patch::Merge(&change);
        Ok(api
            .patch("changing", &PatchParams::default(), &change)
            .await?)
    })
    .await
    .unwrap();
}

async fn assert_configured(operator: &Operator, model: &str) {
    let cr = operator.wait_until_ready("changing").await;
    let map = operator.api::<ConfigMap>().get(&config_map(&cr)).await;
    let file = &map.unwrap().data.unwrap()["config.yaml"];
    assert!(file.contains(model), "{file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_continues_after_a_crash_of_the_api_server() {
    let (testbed, _guard) = exclusive_testbed().await;
    let (operator, stable) = two_servers(testbed, "restart").await;
    for model in ["after-one", "after-two"] {
        testbed.restart_api_server().await.unwrap();
        assert_eq!(RolloutState::of(&operator, "stable").await, stable);
        change_model(&operator, model).await;
        assert_configured(&operator, model).await;
    }
    assert_eq!(RolloutState::of(&operator, "stable").await, stable);
    // An API server that has just started denies requests until it has read the roles.
    operator.ignore_earlier_denials();
    operator.stop().await;
}

/// After a restart the API server does not know the versions of before, so that watches begin with new lists.
#[tokio::test(flavor = "multi_thread")]
async fn changes_that_the_operator_learns_from_a_new_list_are_applied() {
    let (testbed, _guard) = exclusive_testbed().await;
    let env = TestEnv::on(testbed, "listed").await;
    let proxy = TcpProxy::to(testbed).await;
    let settings = Options {
        client: proxy.client(testbed, &env.user).await,
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    for name in ["stable", "changing", "deleted"] {
        operator.create(&named(name)).await;
        operator.wait_until_ready(name).await;
    }
    let stable = RolloutState::of(&operator, "stable").await;

    proxy.disconnect();
    change_model(&operator, "meanwhile").await;
    operator.create(&named("new")).await;
    let resources = operator.api::<Distribution>();
    let now = DeleteParams::default();
    resources.delete("deleted", &now).await.unwrap();
    testbed.restart_api_server().await.unwrap();
    let mark = operator.mark().await;
    proxy.reconnect();

    assert_configured(&operator, "meanwhile").await;
    operator.wait_until_ready("new").await;
    let again = operator.create(&named("deleted")).await;
    let is_new = |cr: &Distribution| cr.uid() == again.uid() && phase(cr) == Some(Phase::Ready);
    operator.wait_for("deleted", "ready", is_new).await;
    let list = "list llamastackdistributions ".to_owned();
    let requests = operator.requests_since(mark).await;
    assert!(requests.contains(&list), "{requests:?}");
    assert_eq!(RolloutState::of(&operator, "stable").await, stable);
    // An API server that has just started denies requests until it has read the roles.
    operator.ignore_earlier_denials();
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_applied_after_etcd_was_suspended() {
    const CHANGES: usize = 5;
    const SUSPENDED: Duration = Duration::from_millis(400);
    const RUNNING: Duration = Duration::from_millis(150);
    let (testbed, _guard) = exclusive_testbed().await;
    let (operator, stable) = two_servers(testbed, "slow").await;
    let interruptions = tokio::spawn(async move {
        loop {
            let suspended = testbed.state().suspend_etcd().unwrap();
            tokio::time::sleep(SUSPENDED).await;
            drop(suspended);
            tokio::time::sleep(RUNNING).await;
        }
    });
    for number in 0..CHANGES {
        let model = format!("model-{number}");
        change_model(&operator, &model).await;
        assert_configured(&operator, &model).await;
    }
    interruptions.abort();
    assert!(interruptions.await.unwrap_err().is_cancelled());
    assert_eq!(RolloutState::of(&operator, "stable").await, stable);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_webhooks_valid_changes_are_applied_and_invalid_ones_change_nothing() {
    let (testbed, _guard) = exclusive_testbed().await;
    let (operator, stable) = two_servers(testbed, "dead").await;
    let connections = break_webhooks(&operator).await;
    until("the API server calls the webhooks", DEADLINE, || async {
        let touch = json!({"metadata": {"labels": {"touched": fastrand::u32(..).to_string()}}});
        operator.edit("changing", touch).await;
        anyhow::ensure!(connections.load(Ordering::Relaxed) > 0, "no connection yet");
        Ok(())
    })
    .await
    .unwrap();

    change_model(&operator, "meanwhile").await;
    assert_configured(&operator, "meanwhile").await;
    let changing = RolloutState::of(&operator, "changing").await;
    let provider = |name: &str| json!({"spec": {"providers": {"inference": {"provider": name}}}});
    operator.edit("changing", provider("vlm")).await;
    let is_rejected = |cr: &Distribution| has_condition(cr, "ConfigGenerated", "False");
    operator.wait_for("changing", "rejected", is_rejected).await;
    assert_eq!(RolloutState::of(&operator, "changing").await, changing);

    remove_webhooks(&operator).await;
    operator.edit("changing", provider("vllm")).await;
    change_model(&operator, "afterwards").await;
    assert_configured(&operator, "afterwards").await;
    assert_eq!(RolloutState::of(&operator, "stable").await, stable);
    operator.stop().await;
}

/// Registers webhooks at a port that closes every connection, and counts the connections.
async fn break_webhooks(operator: &Operator) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let webhook = Webhook {
        endpoint: WebhookEndpoint::Url(format!("https://{address}")),
        ca_bundle: Some(
            CertificateAuthority::generate()
                .unwrap()
                .certificate()
                .to_owned(),
        ),
    };
    install_definitions(&operator.client, Some(&webhook))
        .await
        .unwrap();
    install_admission(&operator.client, &webhook).await.unwrap();
    connections
}

/// Removes the webhooks.
async fn remove_webhooks(operator: &Operator) {
    install_definitions(&operator.client, None).await.unwrap();
    let configurations = Api::<ValidatingWebhookConfiguration>::all(operator.client.clone());
    configurations
        .delete(WEBHOOK_NAME, &DeleteParams::default())
        .await
        .unwrap();
}
