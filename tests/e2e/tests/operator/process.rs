//! The process around the passes: who leads, how it is, and what it counts.

use std::net::TcpListener;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{Endpoints, Settings, run};
use llsd_e2e::{DEADLINE, Stage, minimal, phase};
use llsd_testbed::eventually;
use serde_json::json;
use tokio::sync::oneshot;

const LEASE: &str = "llsd-operator";

fn holder(lease: Option<&Lease>) -> Option<String> {
    lease?.spec.as_ref()?.holder_identity.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_writes_and_the_other_goes_on_when_it_ends() {
    let stage = Stage::set("lead").await;
    let named = async |name: &str| Settings {
        identity: Some(name.to_owned()),
        ..stage.settings().await
    };
    let (first, second) = (named("first").await, named("second").await);
    let leases: Api<Lease> = stage.api();
    let (stop_second, stopped) = oneshot::channel::<()>();
    let operator = stage.operate_with(first);
    let leads =
        |name: &'static str| move |lease: Option<&Lease>| holder(lease).as_deref() == Some(name);
    eventually(
        &leases,
        LEASE,
        DEADLINE,
        "held by the first",
        leads("first"),
    )
    .await
    .unwrap();
    let waiting = tokio::spawn(run(second, async {
        let _ = stopped.await;
    }));
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    assert_eq!(
        holder(Some(&leases.get(LEASE).await.unwrap())).as_deref(),
        Some("first")
    );

    let stage = operator.stop().await;
    eventually(
        &leases,
        LEASE,
        DEADLINE,
        "held by the second",
        leads("second"),
    )
    .await
    .unwrap();
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    stage.edit("minimal", change).await;
    stage
        .wait_for("minimal", "ready", |cr| phase(cr) == Some(Phase::Ready))
        .await;
    stop_second.send(()).unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(holder(Some(&leases.get(LEASE).await.unwrap())), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_anybody_and_metrics_only_those_who_may_read_them() {
    let stage = Stage::set("probes").await;
    let bind = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Some(listener), address)
    };
    let ((probes, probes_at), (metrics, metrics_at)) = (bind(), bind());
    let settings = Settings {
        endpoints: Endpoints { probes, metrics },
        ..stage.settings().await
    };
    let operator = stage.operate_with(settings);
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;

    // A certificate of its own: who asks for metrics knows the operator by its Service.
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    for path in ["healthz", "readyz"] {
        let answer = client
            .get(format!("http://{probes_at}/{path}"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }

    let scrape = async |token: Option<&str>| {
        let request = client.get(format!("https://{metrics_at}/metrics"));
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(scrape(None).await.0, 401);
    assert_eq!(scrape(Some("nonsense")).await.0, 403);
    let token = operator.token().await;
    assert_eq!(scrape(Some(&token)).await.0, 403);
    operator.admit_to_metrics().await;
    // The API server's own authorizer may need a moment to hear of the role.
    let scraped = async {
        loop {
            match scrape(Some(&token)).await {
                (200, text) => return text,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    let text = tokio::time::timeout(DEADLINE, scraped).await.unwrap();
    assert!(
        text.contains("llsd_reconciles_total{outcome=\"done\"}"),
        "{text}"
    );
}
