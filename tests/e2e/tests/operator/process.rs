//! The process of the operator: leader election, probes and metrics.

use std::net::TcpListener;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{Endpoints, Options, run};
use llsd_e2e::{DEADLINE, TestEnv, minimal, phase};
use llsd_testbed::eventually;
use serde_json::json;
use tokio::sync::oneshot;

const LEASE: &str = "llsd-operator";

fn holder(lease: Option<&Lease>) -> Option<String> {
    lease?.spec.as_ref()?.holder_identity.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_replicas_is_leader_and_the_other_replaces_it_when_it_stops() {
    let env = TestEnv::new("leader").await;
    let named = async |name: &str| Options {
        identity: Some(name.to_owned()),
        ..env.settings().await
    };
    let (first, second) = (named("first").await, named("second").await);
    let leases: Api<Lease> = env.api();
    let (stop_second, stopped) = oneshot::channel::<()>();
    let operator = env.start_operator_with(first);
    let is_held_by =
        |name: &'static str| move |lease: Option<&Lease>| holder(lease).as_deref() == Some(name);
    eventually(
        &leases,
        LEASE,
        DEADLINE,
        "held by the first",
        is_held_by("first"),
    )
    .await
    .unwrap();
    let follower = tokio::spawn(run(second, async {
        let _ = stopped.await;
    }));
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    assert_eq!(
        holder(Some(&leases.get(LEASE).await.unwrap())).as_deref(),
        Some("first")
    );

    let env = operator.stop().await;
    // Most likely nobody is the leader now, and the second has seen the change before it is.
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    env.edit("minimal", change).await;
    eventually(
        &leases,
        LEASE,
        DEADLINE,
        "held by the second",
        is_held_by("second"),
    )
    .await
    .unwrap();
    let is_reported = |cr: &Distribution| {
        let status = cr.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        observed == cr.metadata.generation && phase(cr) == Some(Phase::Ready)
    };
    env.wait_for("minimal", "ready with the change", is_reported)
        .await;
    stop_second.send(()).unwrap();
    follower.await.unwrap().unwrap();
    assert_eq!(holder(Some(&leases.get(LEASE).await.unwrap())), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_public_and_metrics_need_permission() {
    let env = TestEnv::new("probes").await;
    let bind = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Some(listener), address)
    };
    let ((probes, probes_at), (metrics, metrics_at)) = (bind(), bind());
    let settings = Options {
        endpoints: Endpoints { probes, metrics },
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;

    // The operator serves metrics with a self-signed certificate.
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    for path in ["healthz", "readyz"] {
        let response = client
            .get(format!("http://{probes_at}/{path}"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200, "{path}");
    }

    let scrape = async |token: Option<&str>| {
        let request = client.get(format!("https://{metrics_at}/metrics"));
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(scrape(None).await.0, 401);
    assert_eq!(scrape(Some("invalid")).await.0, 403);
    let token = operator.token().await;
    assert_eq!(scrape(Some(&token)).await.0, 403);
    operator.allow_reading_metrics().await;
    // The authorizer learns of the new role after a moment.
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
    for cache in [
        "resources",
        "objects",
        "resolutions",
        "results",
        "compiled_on_disk",
    ] {
        let metric = format!("llsd_cache_bytes{{cache=\"{cache}\"}} ");
        let bytes = text.lines().find_map(|line| line.strip_prefix(&metric));
        assert!(bytes.is_some_and(|bytes| bytes != "0"), "{cache}: {text}");
    }
}
