//! The status of running servers, read from a fake server because no container runs in the testbed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{Options, Polling};
use llsd_e2e::{DEADLINE, TestEnv, condition, config_map, minimal, phase};
use llsd_testbed::until;
use serde_json::json;

#[derive(Default)]
struct FakeServer {
    is_broken: AtomicBool,
    requests: AtomicUsize,
}

/// Serves the version and the providers, or status 500 while `is_broken`.
async fn serve(server: Arc<FakeServer>) -> SocketAddr {
    let respond = |text: &'static str| {
        let server = server.clone();
        get(async move || {
            server.requests.fetch_add(1, Ordering::Relaxed);
            match server.is_broken.load(Ordering::Relaxed) {
                true => Err(StatusCode::INTERNAL_SERVER_ERROR),
                false => Ok(text),
            }
        })
    };
    let provider = r#"{"data": [{"api": "inference", "provider_id": "vllm", "provider_type": "remote::vllm", "config": {"api_token": "canary"}}]}"#;
    let router = Router::new()
        .route("/v1/version", respond(r#"{"version": "0.7.1"}"#))
        .route("/v1/providers", respond(provider));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, router).await });
    address
}

/// Whether the server responds, according to the status.
fn responds(cr: &Distribution) -> Option<bool> {
    let (status, ..) = condition(cr, "ServerAnswers")?;
    Some(status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_what_the_server_reports_and_an_unresponsive_server_blocks_nothing() {
    let server = Arc::new(FakeServer::default());
    let at = serve(server.clone()).await;
    let env = TestEnv::new("polled").await;
    let settings = Options {
        polling: Some(Polling {
            interval: Duration::from_millis(50),
            connect_to: Some(at),
        }),
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    operator.create(&minimal()).await;
    let is_reported =
        |cr: &Distribution| phase(cr) == Some(Phase::Ready) && responds(cr) == Some(true);
    let cr = operator.wait_for("minimal", "reported", is_reported).await;
    let text = serde_json::to_string(&cr).unwrap();
    assert!(!text.contains("canary"), "{text}");
    let status = cr.status.as_ref().unwrap();
    let version = status.version.as_ref().unwrap();
    assert_eq!(version.llama_stack_server_version.as_deref(), Some("0.7.1"));
    let providers = &status.distribution_config.as_ref().unwrap().providers;
    assert_eq!(providers[0].provider_id, "vllm");

    let mark = operator.mark().await;
    let before = server.requests.load(Ordering::Relaxed);
    until("the operator polled ten more times", DEADLINE, || async {
        let polls = server.requests.load(Ordering::Relaxed);
        anyhow::ensure!(polls >= before + 10, "{polls} polls");
        Ok(())
    })
    .await
    .unwrap();
    let requests = operator.requests_since(mark).await;
    assert!(requests.is_empty(), "{requests:?}");

    server.is_broken.store(true, Ordering::Relaxed);
    let is_unresponsive = |cr: &Distribution| responds(cr) == Some(false);
    operator
        .wait_for("minimal", "unresponsive", is_unresponsive)
        .await;
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    operator.edit("minimal", change).await;
    let is_changed =
        |one: &Distribution| phase(one) == Some(Phase::Ready) && config_map(one) != config_map(&cr);
    let cr = operator.wait_for("minimal", "changed", is_changed).await;
    let version = cr.status.as_ref().unwrap().version.as_ref().unwrap();
    assert_eq!(version.llama_stack_server_version.as_deref(), Some("0.7.1"));
    server.is_broken.store(false, Ordering::Relaxed);
    operator
        .wait_for("minimal", "reported again", is_reported)
        .await;
    operator.stop().await;
}
