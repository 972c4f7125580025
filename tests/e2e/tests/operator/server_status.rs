//! What running servers say, from a stand-in on this machine: no server runs in the testbed's pods.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{Polling, Settings};
use llsd_e2e::{DEADLINE, Stage, condition, config_map, minimal, phase};
use llsd_testbed::until;
use serde_json::json;

#[derive(Default)]
struct StandIn {
    is_broken: AtomicBool,
    asked: AtomicUsize,
}

/// Answers as a server does, as long as it is not broken.
async fn serve(stand_in: Arc<StandIn>) -> SocketAddr {
    let answer = |text: &'static str| {
        let stand_in = stand_in.clone();
        get(async move || {
            stand_in.asked.fetch_add(1, Ordering::Relaxed);
            match stand_in.is_broken.load(Ordering::Relaxed) {
                true => Err(StatusCode::INTERNAL_SERVER_ERROR),
                false => Ok(text),
            }
        })
    };
    let provider = r#"{"data": [{"api": "inference", "provider_id": "vllm", "provider_type": "remote::vllm", "config": {"api_token": "canary"}}]}"#;
    let router = Router::new()
        .route("/v1/version", answer(r#"{"version": "0.7.1"}"#))
        .route("/v1/providers", answer(provider));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, router).await });
    address
}

fn answers(cr: &Distribution) -> Option<bool> {
    let (status, ..) = condition(cr, "ServerAnswers")?;
    Some(status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_heard_costs_nothing_at_rest_and_its_silence_blocks_nothing() {
    let stand_in = Arc::new(StandIn::default());
    let at = serve(stand_in.clone()).await;
    let stage = Stage::set("polled").await;
    let settings = Settings {
        polling: Some(Polling {
            every: Duration::from_millis(50),
            at: Some(at),
        }),
        ..stage.settings().await
    };
    let operator = stage.operate_with(settings);
    operator.create(&minimal()).await;
    let is_heard = |cr: &Distribution| phase(cr) == Some(Phase::Ready) && answers(cr) == Some(true);
    let cr = operator.wait_for("minimal", "heard", is_heard).await;
    let text = serde_json::to_string(&cr).unwrap();
    assert!(!text.contains("canary"), "{text}");
    let status = cr.status.as_ref().unwrap();
    let version = status.version.as_ref().unwrap();
    assert_eq!(version.llama_stack_server_version.as_deref(), Some("0.7.1"));
    let providers = &status.distribution_config.as_ref().unwrap().providers;
    assert_eq!(providers[0].provider_id, "vllm");

    let mark = operator.mark().await;
    let before = stand_in.asked.load(Ordering::Relaxed);
    until("it was asked ten times more", DEADLINE, || async {
        let asked = stand_in.asked.load(Ordering::Relaxed);
        anyhow::ensure!(asked >= before + 10, "{asked} times");
        Ok(())
    })
    .await
    .unwrap();
    let requests = operator.requests_since(mark).await;
    assert!(requests.is_empty(), "{requests:?}");

    stand_in.is_broken.store(true, Ordering::Relaxed);
    let is_silent = |cr: &Distribution| answers(cr) == Some(false);
    operator.wait_for("minimal", "silent", is_silent).await;
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    operator.edit("minimal", change).await;
    let is_changed =
        |one: &Distribution| phase(one) == Some(Phase::Ready) && config_map(one) != config_map(&cr);
    let cr = operator.wait_for("minimal", "changed", is_changed).await;
    let version = cr.status.as_ref().unwrap().version.as_ref().unwrap();
    assert_eq!(version.llama_stack_server_version.as_deref(), Some("0.7.1"));
    stand_in.is_broken.store(false, Ordering::Relaxed);
    operator.wait_for("minimal", "heard again", is_heard).await;
    operator.stop().await;
}
