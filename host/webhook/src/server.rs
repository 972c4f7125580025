//! The HTTPS server: bounded bodies, bounded time, and nothing long on the threads of others.

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
use futures::StreamExt;
use hyper_util::rt::TokioTimer;
use kube::core::conversion::ConversionReview;
use llsd_api::{CONVERSION_PATH, VALIDATION_PATH};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use crate::admission::{self, Context};
use crate::conversion;

/// What is read and judged within a fraction of a millisecond.
const QUICK_BYTES: usize = 64 << 10;
/// What requests under way may still take when the process ends.
const GRACE: Duration = Duration::from_secs(5);

/// How much a client may send, and how long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Size of an admission review.
    pub(crate) admission_bytes: usize,
    /// Size of a conversion review.
    pub(crate) conversion_bytes: usize,
    /// From a connection to an agreement on keys.
    pub(crate) handshake: Duration,
    /// From the first to the last byte of a request's head; also what a connection may idle before it.
    pub(crate) head: Duration,
    /// From the head to the last byte of the review.
    pub(crate) body: Duration,
    /// From there to the answer.
    pub(crate) answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Two copies of the largest object that etcd takes, and room.
            admission_bytes: 8 << 20,
            // A list is converted in one review: 500 resources of more than 100 KiB each.
            conversion_bytes: 64 << 20,
            handshake: Duration::from_secs(5),
            // API servers keep connections for the next review.
            head: Duration::from_secs(120),
            // They send at once what they have in memory.
            body: Duration::from_secs(5),
            // They wait ten seconds for a webhook unless told otherwise, and thirty at most.
            answer: Duration::from_secs(10),
        }
    }
}

/// Why a review gets no answer.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error(
        "the review is larger than {0} bytes; make the resource smaller, or convert fewer at once"
    )]
    TooLarge(usize),
    #[error("the review broke off; send all of it")]
    BrokenOff,
    #[error("the review did not arrive within {0:?}; look at the network before the operator")]
    NotArrived(Duration),
    #[error("the review cannot be read: {0}; send a ConversionReview")]
    Unreadable(#[from] serde_json::Error),
    #[error("the review took longer than {0:?}; look at the load of the operator")]
    TooSlow(Duration),
    #[error("the review failed; look at the operator's log")]
    Failed(#[from] JoinError),
}

/// Answers until `shutdown` is done and the requests under way are finished.
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
        ending.graceful_shutdown(Some(GRACE));
    });
    let acceptor = RustlsAcceptor::new(tls)
        .handshake_timeout(limits.handshake)
        // An answer is one small packet, and somebody waits for it.
        .acceptor(NoDelayAcceptor::new());
    let mut server = axum_server::from_tcp(listener)?
        .acceptor(acceptor)
        .handle(handle);
    let mut http = server.http_builder().http1();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head);
    let served = server
        .serve(router(context, limits).into_make_service())
        .await;
    watcher.abort();
    served
}

/// Runs `work` on a review: here when the review is small, because another thread would take longer to
/// wake than that takes.
pub(crate) async fn compute<T: Send + 'static>(
    review: Bytes,
    work: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, JoinError> {
    if review.len() <= QUICK_BYTES {
        return Ok(work(&review));
    }
    spawn_blocking(move || work(&review)).await
}

fn router(context: Context, limits: Limits) -> Router {
    let convert = move |body| convert(body, limits);
    let validate = move |State(context), body| validate(context, body, limits);
    Router::new()
        .route(CONVERSION_PATH, post(convert))
        .route(VALIDATION_PATH, post(validate))
        .route("/healthz", get(async || "ok"))
        .with_state(context)
}

async fn convert(body: Body, limits: Limits) -> Result<Response, Unanswered> {
    let body = whole(body, limits.conversion_bytes, limits.body).await?;
    let answer = compute(body, |body| {
        let review: ConversionReview = serde_json::from_slice(body)?;
        serde_json::to_vec(&conversion::answer(review))
    });
    let text = in_time(limits.answer, answer).await??;
    Ok(([("content-type", "application/json")], text).into_response())
}

async fn validate(
    context: Context,
    body: Body,
    limits: Limits,
) -> Result<Json<serde_json::Value>, Unanswered> {
    let body = whole(body, limits.admission_bytes, limits.body).await?;
    let answer = admission::answer(&context, body);
    Ok(Json(in_time(limits.answer, answer).await?))
}

/// The whole review. Of one that is too large nothing is kept, but it is read to its end: a client that
/// is still sending would not hear why it is refused.
async fn whole(body: Body, most: usize, limit: Duration) -> Result<Bytes, Unanswered> {
    let read = async {
        let mut chunks = body.into_data_stream();
        let (mut review, mut size) = (Vec::new(), 0);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Unanswered::BrokenOff)?;
            size += chunk.len();
            if size <= most {
                review.extend_from_slice(&chunk);
            } else {
                review = Vec::new();
            }
        }
        if size > most {
            return Err(Unanswered::TooLarge(most));
        }
        Ok(review.into())
    };
    let arrived = timeout(limit, read).await;
    arrived.unwrap_or(Err(Unanswered::NotArrived(limit)))
}

async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, JoinError>>,
) -> Result<T, Unanswered> {
    let answered = timeout(limit, answer).await;
    Ok(answered.map_err(|_| Unanswered::TooSlow(limit))??)
}

impl IntoResponse for Unanswered {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BrokenOff | Self::Unreadable(_) => StatusCode::BAD_REQUEST,
            Self::NotArrived(_) => StatusCode::REQUEST_TIMEOUT,
            Self::TooSlow(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(error) => {
                tracing::error!(%error, "a webhook request failed");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        (status, self.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests;
