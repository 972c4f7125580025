//! The HTTPS server, with limits for connections and for the size and duration of requests.

mod connections;
mod review_body;

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use llsd_api::{CONVERSION_PATH, VALIDATION_PATH};
use llsd_blocking::REVIEWS;
use tokio::task::JoinError;
use tokio::time::timeout;

use crate::admission::{self, Context};
use crate::conversion;
use crate::limits::Limits;
use connections::LimitedAcceptor;
use review_body::{BodyReader, ReviewBody};

/// Reviews up to this size are handled on the async thread; that takes a fraction of a millisecond.
const INLINE_BYTES: usize = 64 << 10;
/// How long requests in progress may take after shutdown begins.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Why a request fails with an HTTP error.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(
        "the request body is larger than {0} bytes; make the resource smaller, or list fewer resources per request"
    )]
    TooLarge(usize),
    #[error("the request body ended early")]
    Incomplete,
    #[error(
        "the request body did not arrive within {0:?}; check the network between the API server and the operator"
    )]
    BodyTimeout(Duration),
    #[error("invalid ConversionReview: {0}; send an apiextensions.k8s.io/v1 ConversionReview")]
    InvalidReview(#[from] serde_json::Error),
    #[error("the request was not processed within {0:?}; check the load of the operator")]
    ProcessingTimeout(Duration),
    #[error("the request failed with an internal error; see the log of the operator")]
    Failed(#[from] JoinError),
}

/// Serves requests until `shutdown` completes and the requests in progress are finished.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: RustlsConfig,
    context: Context,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let handle = Handle::<SocketAddr>::new();
    let ending = handle.clone();
    let watcher = tokio::spawn(async move {
        shutdown.await;
        ending.graceful_shutdown(Some(GRACE_PERIOD));
    });
    let acceptor = RustlsAcceptor::new(tls)
        .handshake_timeout(limits.handshake)
        // A response is one small packet. Nagle's algorithm would delay it.
        .acceptor(NoDelayAcceptor::new());
    let mut server = axum_server::from_tcp(listener)?
        .acceptor(LimitedAcceptor::new(acceptor, limits))
        .handle(handle);
    let mut http = server.http_builder().http1();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.idle);
    let served = server
        .serve(router(context, limits).into_make_service())
        .await;
    watcher.abort();
    served
}

/// Runs `work` on a review: on this thread if the review is small, because waking another thread would take
/// longer.
pub(crate) async fn compute<T: Send + 'static>(
    review: Bytes,
    work: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, JoinError> {
    if review.len() <= INLINE_BYTES {
        return Ok(work(&review));
    }
    REVIEWS.run(move || work(&review)).await
}

fn router(context: Context, limits: Limits) -> Router {
    let reader = BodyReader::new(limits);
    let converting = reader.clone();
    let convert = move |body| convert(body, converting, limits);
    let validate = move |State(context), body| validate(context, body, reader, limits);
    Router::new()
        .route(CONVERSION_PATH, post(convert))
        .route(VALIDATION_PATH, post(validate))
        .route("/healthz", get(async || "ok"))
        .with_state(context)
}

async fn convert(body: Body, reader: BodyReader, limits: Limits) -> Result<Response, RequestError> {
    let ReviewBody { bytes, share } = reader.read(body, limits.conversion_bytes).await?;
    let response = compute(bytes, |body| {
        let response = conversion::respond(body);
        drop(share);
        response
    });
    let json = with_timeout(limits.response, response).await??;
    Ok(([("content-type", "application/json")], json).into_response())
}

async fn validate(
    context: Context,
    body: Body,
    reader: BodyReader,
    limits: Limits,
) -> Result<Json<serde_json::Value>, RequestError> {
    let ReviewBody { bytes, share } = reader.read(body, limits.admission_bytes).await?;
    let response = admission::respond(&context, bytes);
    let response = with_timeout(limits.response, response).await;
    drop(share);
    Ok(Json(response?))
}

async fn with_timeout<T>(
    limit: Duration,
    response: impl Future<Output = Result<T, JoinError>>,
) -> Result<T, RequestError> {
    let result = timeout(limit, response).await;
    Ok(result.map_err(|_| RequestError::ProcessingTimeout(limit))??)
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete | Self::InvalidReview(_) => StatusCode::BAD_REQUEST,
            Self::BodyTimeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::ProcessingTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(error) => {
                tracing::error!(%error, "a webhook request panicked or was aborted");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        (status, self.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests;
