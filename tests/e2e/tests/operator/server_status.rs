//! The status of running servers, read from a fake server because no container runs in the testbed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_controller::{Options, Polling};
use llsd_e2e::{DEADLINE, TestEnv, condition, config_map, has_condition, minimal, phase};
use llsd_testbed::until;
use serde_json::json;

struct FakeServer {
    release: Mutex<&'static str>,
    is_broken: AtomicBool,
    requests: AtomicUsize,
}

impl FakeServer {
    fn of(release: &'static str) -> Arc<Self> {
        Arc::new(Self {
            release: Mutex::new(release),
            is_broken: AtomicBool::default(),
            requests: AtomicUsize::default(),
        })
    }

    /// Waits until the operator polled ten more times.
    async fn ten_more_polls(&self) {
        let before = self.requests.load(Ordering::Relaxed);
        until("the operator polled ten more times", DEADLINE, || async {
            let polls = self.requests.load(Ordering::Relaxed);
            anyhow::ensure!(polls >= before + 10, "{polls} polls");
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// Serves the version and the providers, or status 500 while `is_broken`.
async fn serve(server: Arc<FakeServer>) -> SocketAddr {
    let respond = |text: fn(&FakeServer) -> String| {
        let server = server.clone();
        get(async move || {
            server.requests.fetch_add(1, Ordering::Relaxed);
            match server.is_broken.load(Ordering::Relaxed) {
                true => Err(StatusCode::INTERNAL_SERVER_ERROR),
                false => Ok(text(&server)),
            }
        })
    };
    const PROVIDERS: &str = r#"{"data": [{"api": "inference", "provider_id": "vllm", "provider_type": "remote::vllm", "config": {"api_token": "canary"}}]}"#;
    let version = |server: &FakeServer| {
        let release = *server.release.lock().unwrap();
        json!({ "version": release }).to_string()
    };
    let router = Router::new()
        .route("/v1/version", respond(version))
        .route("/v1/providers", respond(|_| PROVIDERS.to_owned()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, router).await });
    address
}

/// Settings of an operator that polls the fake server often.
async fn polling(env: &TestEnv, server: &Arc<FakeServer>) -> Options {
    let at = serve(server.clone()).await;
    Options {
        polling: Some(Polling {
            interval: Duration::from_millis(50),
            connect_to: Some(at),
        }),
        ..env.settings().await
    }
}

/// The release that the server reports, according to the status.
fn release(cr: &Distribution) -> Option<&str> {
    let version = cr.status.as_ref()?.version.as_ref()?;
    version.llama_stack_server_version.as_deref()
}

/// Whether the server responds, according to the status.
fn responds(cr: &Distribution) -> Option<bool> {
    let (status, ..) = condition(cr, "ServerAnswers")?;
    Some(status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_what_the_server_reports_and_an_unresponsive_server_blocks_nothing() {
    let server = FakeServer::of("0.7.1");
    let env = TestEnv::new("polled").await;
    let settings = polling(&env, &server).await;
    let operator = env.start_operator_with(settings);
    operator.create(&minimal()).await;
    // The release is reported once no pods of another generation can respond.
    let is_reported = |cr: &Distribution| {
        phase(cr) == Some(Phase::Ready) && responds(cr) == Some(true) && release(cr).is_some()
    };
    let cr = operator.wait_for("minimal", "reported", is_reported).await;
    let text = serde_json::to_string(&cr).unwrap();
    assert!(!text.contains("canary"), "{text}");
    assert_eq!(release(&cr), Some("0.7.1"));
    let status = cr.status.as_ref().unwrap();
    let providers = &status.distribution_config.as_ref().unwrap().providers;
    assert_eq!(providers[0].provider_id, "vllm");

    let mark = operator.mark().await;
    server.ten_more_polls().await;
    let mut requests = operator.requests_since(mark).await;
    // The event about the last status is published after it.
    requests.retain(|one| !one.contains(" events "));
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
    assert_eq!(release(&cr), Some("0.7.1"));
    server.is_broken.store(false, Ordering::Relaxed);
    operator
        .wait_for("minimal", "reported again", is_reported)
        .await;
    operator.stop().await;
}

/// Issue H, wanted 3.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_release_than_its_dialect_is_reported_and_changes_nothing() {
    let server = FakeServer::of("0.3.5");
    let env = TestEnv::new("mismatch").await;
    let settings = polling(&env, &server).await;
    let metrics = settings.metrics.clone();
    let operator = env.start_operator_with(settings);
    let mismatches = |expected: usize| {
        let text = metrics.text();
        let line = format!("\nllsd_release_mismatches {expected}\n");
        assert!(text.contains(&line), "{text}");
    };
    operator.create(&minimal()).await;
    let matches = |cr: &Distribution| {
        let (status, ..) = condition(cr, "ReleaseMatches")?;
        Some(status == "True")
    };
    let is_mismatch =
        |cr: &Distribution| phase(cr) == Some(Phase::Ready) && matches(cr) == Some(false);
    let before = operator.wait_for("minimal", "mismatch", is_mismatch).await;
    let (_, reason, message) = condition(&before, "ReleaseMatches").unwrap();
    assert_eq!(reason, "ReleaseMismatch");
    for part in ["0.3.5", "llama-stack/0.7", "spec.distribution.schema"] {
        assert!(message.contains(part), "{message}");
    }
    mismatches(1);
    let events: Api<Event> = operator.api();
    until("the event is published", DEADLINE, || async {
        let all = events.list(&ListParams::default()).await?;
        let is_warning = |event: &Event| event.reason.as_deref() == Some("ReleaseMismatch");
        anyhow::ensure!(all.iter().any(is_warning), "no event");
        Ok(())
    })
    .await
    .unwrap();

    let mark = operator.mark().await;
    server.ten_more_polls().await;
    let requests = operator.requests_since(mark).await;
    assert!(requests.is_empty(), "{requests:?}");

    *server.release.lock().unwrap() = "0.7.1";
    let is_match = |cr: &Distribution| matches(cr) == Some(true);
    let after = operator.wait_for("minimal", "match", is_match).await;
    assert_eq!(config_map(&before), config_map(&after));
    assert_eq!(before.metadata.generation, after.metadata.generation);
    mismatches(0);
    operator.stop().await;
}

/// Issue H, wanted 2: a base that several dialects read alike, for a server that already runs.
#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_the_running_server_decides_between_several_dialects() {
    let server = FakeServer::of("0.5.2");
    let env = TestEnv::new("tiebreak").await;
    let settings = polling(&env, &server).await;
    let operator = env.start_operator_with(settings);
    let base = "{version: 2, apis: [inference], providers: {inference: []}}";
    let map = json!({"metadata": {"name": "base"}, "data": {"config.yaml": base}});
    let maps: Api<ConfigMap> = operator.api();
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();

    let mut running = minimal();
    let providers = running["spec"]["providers"].take();
    running["spec"] = json!({"distribution": {"name": "starter"}});
    operator.create(&running).await;
    let is_reported = |cr: &Distribution| release(cr).is_some();
    operator.wait_for("minimal", "reported", is_reported).await;

    let generated = json!({
        "distribution": {"name": "starter", "baseConfig": {"configMapName": "base"}},
        "providers": providers,
    });
    operator.edit("minimal", json!({"spec": generated})).await;
    let is_generated = |cr: &Distribution| has_condition(cr, "ConfigGenerated", "True");
    let cr = operator
        .wait_for("minimal", "generated", is_generated)
        .await;
    let generation = cr.status.unwrap().config_generation.unwrap();
    assert_eq!(generation.schema.as_deref(), Some("llama-stack/0.5"));
    let reason = generation.schema_reason.unwrap();
    assert!(reason.contains("running server"), "{reason}");

    // Without a running server it is a question.
    let mut new = minimal();
    new["metadata"]["name"] = json!("new");
    new["spec"] = generated;
    operator.create(&new).await;
    let is_question = |cr: &Distribution| has_condition(cr, "ConfigGenerated", "False");
    let cr = operator.wait_for("new", "a question", is_question).await;
    let (_, _, message) = condition(&cr, "ConfigGenerated").unwrap();
    assert!(message.contains("matches several schemas"), "{message}");
    operator.stop().await;
}
