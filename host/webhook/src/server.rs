//! The HTTPS server: bounded bodies, bounded time, and nothing that runs on the threads of others.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use kube::Client;
use kube::core::conversion::ConversionReview;
use llsd_api::{CONVERSION_PATH, VALIDATION_PATH};
use tokio::sync::watch;

use crate::admission::{self, Review};
use crate::base::{self, Images};
use crate::conversion;
use crate::preview::{Knowledge, Preview, preview};
use crate::references::survey;

/// Two copies of the largest object that etcd takes, and room.
const ADMISSION_BYTES: usize = 8 << 20;
/// A list is converted in one review: 500 resources of more than 100 KiB each.
const CONVERSION_BYTES: usize = 64 << 20;
/// What is converted within a fraction of a millisecond.
const QUICK_BYTES: usize = 64 << 10;
/// The API server waits ten seconds for a webhook unless it is told otherwise, and thirty at most.
const PATIENCE: Duration = Duration::from_secs(10);
/// A client that does not even begin to speak.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// What requests under way may still take when the process ends.
const GRACE: Duration = Duration::from_secs(5);

/// What every request may use.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) images: Arc<dyn Images>,
    pub(crate) knowledge: watch::Receiver<Arc<Knowledge>>,
}

/// Answers until `shutdown` is done and the requests under way are finished.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: RustlsConfig,
    context: Context,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let handle = Handle::<SocketAddr>::new();
    let ending = handle.clone();
    let watcher = tokio::spawn(async move {
        shutdown.await;
        ending.graceful_shutdown(Some(GRACE));
    });
    let acceptor = RustlsAcceptor::new(tls).handshake_timeout(HANDSHAKE);
    let served = axum_server::from_tcp(listener)?
        .acceptor(acceptor)
        .handle(handle)
        .serve(router(context).into_make_service())
        .await;
    watcher.abort();
    served
}

fn router(context: Context) -> Router {
    let convert = post(convert).layer(DefaultBodyLimit::max(CONVERSION_BYTES));
    let validate = post(validate).layer(DefaultBodyLimit::max(ADMISSION_BYTES));
    Router::new()
        .route(CONVERSION_PATH, convert)
        .route(VALIDATION_PATH, validate)
        .route("/healthz", get(async || "ok"))
        .with_state(context)
}

async fn convert(body: Bytes) -> Response {
    let is_quick = body.len() <= QUICK_BYTES;
    let work = move || {
        let review: ConversionReview = serde_json::from_slice(&body)?;
        serde_json::to_vec(&conversion::answer(review))
    };
    // Most reviews hold one resource: another thread would take longer to wake than that takes.
    let answered = if is_quick {
        Ok(Ok(work()))
    } else {
        tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(work)).await
    };
    match answered {
        Ok(Ok(Ok(answer))) => json_text(answer),
        Ok(Ok(Err(error))) => {
            let message = format!("the review cannot be read: {error}; send a ConversionReview");
            (StatusCode::BAD_REQUEST, message).into_response()
        }
        Ok(Err(panicked)) => failed(&panicked.to_string()),
        Err(_) => too_slow(),
    }
}

async fn validate(State(context): State<Context>, body: Bytes) -> Response {
    match tokio::time::timeout(PATIENCE, decide(context, body)).await {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(panicked)) => failed(&panicked.to_string()),
        Err(_) => too_slow(),
    }
}

/// The answer to an admission review.
async fn decide(
    context: Context,
    body: Bytes,
) -> Result<serde_json::Value, tokio::task::JoinError> {
    let examined = tokio::task::spawn_blocking(move || {
        let review = serde_json::from_slice::<Review>(&body).map_err(|error| error.to_string())?;
        let request = review.request.ok_or("it holds no request")?;
        let examined = match request.is_write() {
            true => admission::examine(&request),
            false => Ok(admission::Decision::default()),
        };
        Ok::<_, String>((request, examined))
    });
    let (request, examined) = match examined.await? {
        Ok(examined) => examined,
        Err(reason) => return Ok(admission::unreadable(&reason)),
    };
    let candidate = match examined {
        Ok(decision) => return Ok(decision.into_review(&request)),
        Err(candidate) => *candidate,
    };
    let admission::Candidate {
        checked,
        namespace,
        mut decision,
    } = candidate;
    let knowledge = context.knowledge.borrow().clone();
    let Context { client, images, .. } = &context;
    let (notices, base) = tokio::join!(
        survey(client, &namespace, &checked),
        base::find(client, images, &knowledge, &namespace, &checked),
    );
    notices.into_iter().for_each(|one| decision.warn(one));
    let base = base.unwrap_or_else(|notice| {
        decision.warn(notice);
        None
    });
    let said = tokio::task::spawn_blocking(move || preview(&knowledge, &checked, base)).await?;
    match said {
        Preview::Said(found) => found.into_iter().for_each(|one| decision.heed(one)),
        Preview::Unknown(rejection) => decision.refuse(rejection),
        Preview::Silent => {}
    }
    Ok(decision.into_review(&request))
}

fn json_text(text: Vec<u8>) -> Response {
    ([("content-type", "application/json")], text).into_response()
}

fn failed(reason: &str) -> Response {
    tracing::error!(reason, "a webhook request failed");
    (
        StatusCode::INTERNAL_SERVER_ERROR,
        "the review failed; look at the operator's log",
    )
        .into_response()
}

fn too_slow() -> Response {
    let message =
        format!("the review took longer than {PATIENCE:?}; look at the load of the operator");
    (StatusCode::GATEWAY_TIMEOUT, message).into_response()
}
