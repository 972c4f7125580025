//! What the operator answers: probes in plain text, and metrics over TLS to whoever may read them.
//!
//! The API server says who asks and whether they may: a bearer token, and the permission to `get` the
//! path `/metrics`. A yes is remembered for a while, so that a scrape costs nothing.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use llsd_render::digest;

use crate::health::Health;
use crate::metrics::Metrics;

const METRICS_PATH: &str = "/metrics";
/// What Prometheus expects.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a yes of the API server counts.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Requests under way may take this long at the end.
const GRACE: Duration = Duration::from_secs(5);

/// Why nothing is answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
    #[error("cannot make a certificate for the metrics")]
    Certificate(#[from] rcgen::Error),
}

/// Answers the probes until it is dropped.
pub(crate) async fn probes(listener: TcpListener, health: Arc<Health>) -> Result<(), Error> {
    let alive = |State(health): State<Arc<Health>>| async move {
        answer(health.is_alive(Instant::now()), "a pass is stuck")
    };
    let ready = |State(health): State<Arc<Health>>| async move {
        answer(
            health.is_ready(),
            "the watches have not told everything yet",
        )
    };
    let router = Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(health);
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(axum::serve(listener, router).await?)
}

/// Answers scrapes until it is dropped.
pub(crate) async fn metrics(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    client: Client,
) -> Result<(), Error> {
    // Whoever comes first decides for the process; all choose the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(vec!["llsd-metrics".to_owned()])?;
    let tls = RustlsConfig::from_der(
        vec![made.cert.der().to_vec()],
        made.signing_key.serialize_der(),
    )
    .await?;
    let gate = Arc::new(Gate {
        client,
        metrics,
        admitted: Mutex::default(),
    });
    let router = Router::new()
        .route(METRICS_PATH, get(scrape))
        .with_state(gate);
    listener.set_nonblocking(true)?;
    let handle = Handle::<SocketAddr>::new();
    let _ending = Ending(handle.clone());
    axum_server::from_tcp_rustls(listener, tls)?
        .handle(handle)
        .serve(router.into_make_service())
        .await?;
    Ok(())
}

/// Ends the server with whoever waits for it.
struct Ending(Handle<SocketAddr>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.graceful_shutdown(Some(GRACE));
    }
}

struct Gate {
    client: Client,
    metrics: Arc<Metrics>,
    /// By digest of the token: when the API server said yes.
    admitted: Mutex<HashMap<String, Instant>>,
}

async fn scrape(State(gate): State<Arc<Gate>>, headers: HeaderMap) -> Response {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(token) = token else {
        return (StatusCode::UNAUTHORIZED, "a bearer token is needed\n").into_response();
    };
    match gate.admits(token).await {
        Ok(true) => ([(header::CONTENT_TYPE, TEXT)], gate.metrics.text()).into_response(),
        Ok(false) => (StatusCode::FORBIDDEN, "get /metrics is not allowed\n").into_response(),
        Err(error) => {
            tracing::warn!(%error, "the API server did not say who may read metrics");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

impl Gate {
    async fn admits(&self, token: &str) -> Result<bool, kube::Error> {
        let key = digest::of(token);
        if self.is_remembered(&key) {
            return Ok(true);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let tokens = Api::<TokenReview>::all(self.client.clone());
        let status = tokens.create(&PostParams::default(), &review).await?.status;
        let Some(user) = status
            .filter(|status| status.authenticated == Some(true))
            .and_then(|status| status.user)
        else {
            return Ok(false);
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(METRICS_PATH.to_owned()),
                    verb: Some("get".to_owned()),
                }),
                resource_attributes: None,
            },
            ..SubjectAccessReview::default()
        };
        let accesses = Api::<SubjectAccessReview>::all(self.client.clone());
        let answer = accesses.create(&PostParams::default(), &review).await?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        if is_allowed {
            let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
            admitted.retain(|_, since| since.elapsed() < REMEMBERED);
            admitted.insert(key, Instant::now());
        }
        Ok(is_allowed)
    }

    fn is_remembered(&self, key: &str) -> bool {
        let admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        admitted
            .get(key)
            .is_some_and(|since| since.elapsed() < REMEMBERED)
    }
}

fn answer(is_well: bool, trouble: &'static str) -> Response {
    if is_well {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, trouble).into_response()
    }
}
