//! The HTTPS server for `/metrics`.
//!
//! A request needs a bearer token whose user may `get` the path `/metrics`. The API server decides
//! both with a TokenReview and a SubjectAccessReview. A positive decision is cached for a minute, so
//! that a scrape makes no request.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
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
use parking_lot::Mutex;

use super::{Metrics, ServeError};

const METRICS_PATH: &str = "/metrics";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a positive decision of the API server is cached.
const AUTHORIZATION_TTL: Duration = Duration::from_secs(60);
/// How long requests may take after shutdown has begun.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Serves scrapes until the future is dropped. `measure` sets the metrics that are measured at a scrape.
pub(crate) async fn serve_metrics(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    client: Client,
    measure: impl Fn() + Send + Sync + 'static,
) -> Result<(), ServeError> {
    // Fails if another part of the process has already installed the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let generated = rcgen::generate_simple_self_signed(vec!["llsd-metrics".to_owned()])?;
    let tls = RustlsConfig::from_der(
        vec![generated.cert.der().to_vec()],
        generated.signing_key.serialize_der(),
    )
    .await?;
    let authorizer = Arc::new(Authorizer {
        client,
        metrics,
        measure: Box::new(measure),
        authorized: Mutex::default(),
    });
    let router = Router::new()
        .route(METRICS_PATH, get(scrape))
        .with_state(authorizer);
    listener.set_nonblocking(true)?;
    let handle = Handle::<SocketAddr>::new();
    let _shutdown = ShutdownOnDrop(handle.clone());
    axum_server::from_tcp_rustls(listener, tls)?
        .handle(handle)
        .serve(router.into_make_service())
        .await?;
    Ok(())
}

/// Shuts the server down when it is dropped.
struct ShutdownOnDrop(Handle<SocketAddr>);

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        self.0.graceful_shutdown(Some(SHUTDOWN_GRACE));
    }
}

struct Authorizer {
    client: Client,
    metrics: Arc<Metrics>,
    measure: Box<dyn Fn() + Send + Sync>,
    /// When the API server allowed a token, by digest of the token.
    authorized: Mutex<HashMap<String, Instant>>,
}

async fn scrape(State(authorizer): State<Arc<Authorizer>>, headers: HeaderMap) -> Response {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(token) = token else {
        return (StatusCode::UNAUTHORIZED, "a bearer token is required\n").into_response();
    };
    match authorizer.is_authorized(token).await {
        Ok(true) => {
            (authorizer.measure)();
            let text = authorizer.metrics.text();
            ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response()
        }
        Ok(false) => (
            StatusCode::FORBIDDEN,
            "the user of this token must be allowed to get /metrics\n",
        )
            .into_response(),
        Err(error) => {
            tracing::warn!(%error, "failed to authorize a metrics request");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

impl Authorizer {
    async fn is_authorized(&self, token: &str) -> Result<bool, kube::Error> {
        let key = digest::of(token);
        if self.is_cached(&key) {
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
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await?;
        let is_allowed = reviewed.status.is_some_and(|status| status.allowed);
        if is_allowed {
            let mut authorized = self.authorized.lock();
            authorized.retain(|_, since| since.elapsed() < AUTHORIZATION_TTL);
            authorized.insert(key, Instant::now());
        }
        Ok(is_allowed)
    }

    fn is_cached(&self, key: &str) -> bool {
        self.authorized
            .lock()
            .get(key)
            .is_some_and(|since| since.elapsed() < AUTHORIZATION_TTL)
    }
}
