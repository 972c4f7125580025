//! The HTTP server for the probes `/healthz` and `/readyz`.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::{Health, ServeError};

/// Serves the probes until the future is dropped.
pub(crate) async fn serve_probes(
    listener: TcpListener,
    health: Arc<Health>,
) -> Result<(), ServeError> {
    let alive = |State(health): State<Arc<Health>>| async move {
        response(
            health.is_alive(Instant::now()),
            "a reconciliation is stuck\n",
        )
    };
    let ready = |State(health): State<Arc<Health>>| async move {
        response(health.is_ready(), "the caches are not complete yet\n")
    };
    let router = Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(health);
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(axum::serve(listener, router).await?)
}

fn response(is_healthy: bool, problem: &'static str) -> Response {
    if is_healthy {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, problem).into_response()
    }
}
