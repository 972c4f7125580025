//! The HTTP server of the page: loopback only, and bounded in size, time and threads.
//!
//! An answer is a stream of JSON lines. When the page does not want it any more, it closes the
//! connection, and the work ends before the next call of a plugin.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use llsd_blocking::Pool;
use llsd_render::adapter::Adapter;
use llsd_webhook::{ADMISSION_BYTES, BODY_TIME, RESPONSE_TIME};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::assets::{ASSETS, SAMPLES};
use super::document::{Part, Question};
use super::exploration::Explorer;
use super::guard::{self, Refusal};
use super::plugins::PluginSet;
use super::{cluster, report};
use crate::generation::{BaseOptions, LoadedBase};

/// Threads that answer. One that waits for a slow plugin leaves the others to newer questions.
const THREADS: usize = 4;
static ANSWERS: Pool = Pool::new(THREADS);

/// Questions that wait for a thread.
const WAITING: Duration = RESPONSE_TIME;

/// How long a page waits for a change of the plugins before it asks again.
const LONG_POLL: Duration = Duration::from_secs(25);

/// What requests use.
pub(super) struct Page {
    pub(super) port: u16,
    /// What a request for files and resources of the user must know.
    pub(super) token: String,
    /// The text of `--filename`.
    pub(super) opened: Option<String>,
    /// The client of `--cluster`.
    pub(super) cluster: Option<kube::Client>,
    pub(super) plugins: watch::Receiver<Arc<PluginSet>>,
    pub(super) base: Option<LoadedBase>,
    pub(super) options: Arc<BaseOptions>,
}

/// Why a request fails with an HTTP error.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the request body is larger than {ADMISSION_BYTES} bytes; make the resource smaller")]
    TooLarge,
    #[error("the request body ended early")]
    Incomplete,
    #[error("the request body did not arrive within {BODY_TIME:?}")]
    BodyTimeout,
    #[error("invalid question: {0}")]
    InvalidQuestion(#[from] serde_json::Error),
    #[error("{0} answers are being made; wait for one of them")]
    Busy(usize),
    #[error(
        "the answer was not complete after {RESPONSE_TIME:?}; a plugin is slow, or this machine is busy"
    )]
    Slow,
    #[error("{0:#}")]
    Cluster(anyhow::Error),
    #[error("{0:#}")]
    Plan(anyhow::Error),
    #[error("not found; the page is at /")]
    NotFound,
}

/// Serves requests until the future is dropped.
pub(super) async fn serve(listener: TcpListener, page: Page) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    axum::serve(listener, router(Arc::new(page))).await
}

fn router(page: Arc<Page>) -> Router {
    let mut router = Router::new();
    for asset in &ASSETS {
        let response = ([(header::CONTENT_TYPE, asset.media_type)], asset.text);
        router = router.route(asset.path, get(async move || response));
    }
    router
        .route("/api/start", get(start))
        .route("/api/answer", post(answer))
        .route("/api/report", post(report))
        .route("/api/plan", post(plan))
        .route("/api/plugins", get(plugins))
        .route("/api/opened", get(opened))
        .route("/api/cluster", get(names))
        .route("/api/cluster/{name}", get(resource))
        .fallback(async || RequestError::NotFound)
        .layer(middleware::from_fn_with_state(page.clone(), protect))
        .with_state(page)
}

/// Refuses requests of other pages, and tells the browser what the page may do.
async fn protect(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let checked = guard::check(
        request.method(),
        request.uri().path(),
        request.headers(),
        page.port,
    );
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => RequestError::from(refusal).into_response(),
    };
    response.headers_mut().extend(guard::response_headers());
    response
}

/// What the page needs to start.
async fn start(State(page): State<Arc<Page>>) -> Response {
    let set = page.plugins.borrow().clone();
    json_response(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "samples": SAMPLES,
        "hasFile": page.opened.is_some(),
        "hasCluster": page.cluster.is_some(),
        "plugins": described(&set),
    }))
}

/// The plugins of `--plugin`, as the page shows them.
fn described(set: &PluginSet) -> serde_json::Value {
    let given = set.plugins.iter().take(set.given);
    let names = given.map(|plugin| {
        let description = plugin.description();
        format!("{} {}", description.name, description.version)
    });
    json!({
        "version": set.version,
        "given": names.map(|name| llsd_api::escape_line(&name).into_owned()).collect::<Vec<_>>(),
        "problem": set.problem,
    })
}

/// The version of the plugins that the page knows.
#[derive(Deserialize)]
struct Known {
    known: u64,
}

/// Responds when the plugins change, or after a while.
async fn plugins(State(page): State<Arc<Page>>, Query(Known { known }): Query<Known>) -> Response {
    let mut sets = page.plugins.clone();
    // An error is the end of the wait, and an end of the server: the page gets what there is.
    let _ = timeout(LONG_POLL, sets.wait_for(|set| set.version != known)).await;
    let set = sets.borrow().clone();
    json_response(&described(&set))
}

/// Streams the parts of an answer.
async fn answer(State(page): State<Arc<Page>>, body: Body) -> Result<Response, RequestError> {
    let parts = explore(page, read_question(body).await?).await?;
    let lines = futures::stream::unfold(parts, |mut parts| async {
        let part = parts.recv().await?;
        let mut line = serde_json::to_vec(&part).unwrap_or_default();
        line.push(b'\n');
        Some((Ok::<_, Infallible>(Bytes::from(line)), parts))
    });
    let media_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((media_type, Body::from_stream(lines)).into_response())
}

/// Makes the report of an answer.
async fn report(State(page): State<Arc<Page>>, body: Body) -> Result<Response, RequestError> {
    let question = read_question(body).await?;
    let mut parts = explore(page, question.clone()).await?;
    let mut all = Vec::new();
    while let Some(part) = parts.recv().await {
        all.push(part);
    }
    // Not as HTML, so that no browser shows it with the rights of the page.
    let media_type = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((media_type, report::report(&question, &all)).into_response())
}

/// Makes the plan to move the resource to another release, as `llsd upgrade plan --html` writes it.
async fn plan(State(page): State<Arc<Page>>, body: Body) -> Result<Response, RequestError> {
    let question = read_question(body).await?;
    let planning = ANSWERS.run(move || make_plan(&page, &question));
    let planned = timeout(WAITING + RESPONSE_TIME, planning).await;
    let html = match planned {
        Ok(Ok(html)) => html?,
        _ => return Err(RequestError::Busy(THREADS)),
    };
    // Not as HTML, so that no browser shows it with the rights of the page.
    let media_type = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((media_type, html).into_response())
}

fn make_plan(page: &Page, question: &Question) -> Result<String, RequestError> {
    let begun = Instant::now();
    let is_late = || begun.elapsed() > RESPONSE_TIME;
    let set = page.plugins.borrow().clone();
    let plan = explorer(page, &set).plan(question, &is_late);
    match is_late() {
        true => Err(RequestError::Slow),
        false => plan.map_err(RequestError::Plan),
    }
}

fn explorer<'a>(page: &'a Page, set: &'a PluginSet) -> Explorer<'a> {
    Explorer {
        plugins: &set.plugins,
        given: set.given,
        base: page.base.as_ref(),
        options: &page.options,
    }
}

/// Starts an answer on a thread of its own. It ends when the receiver is dropped.
async fn explore(
    page: Arc<Page>,
    question: Question,
) -> Result<mpsc::UnboundedReceiver<Part>, RequestError> {
    let (started, has_started) = tokio::sync::oneshot::channel();
    // Without a bound: the size of an answer is limited by the limits of plugins.
    let (parts, receiver) = mpsc::unbounded_channel();
    tokio::spawn(ANSWERS.run(move || {
        // The page has left while the question waited.
        if started.send(()).is_ok() {
            make(&page, &question, &parts);
        }
    }));
    match timeout(WAITING, has_started).await {
        Ok(Ok(())) => Ok(receiver),
        _ => Err(RequestError::Busy(THREADS)),
    }
}

/// Makes an answer until it is complete, takes too long, or is not wanted any more.
fn make(page: &Page, question: &Question, parts: &mpsc::UnboundedSender<Part>) {
    let begun = Instant::now();
    let set = page.plugins.borrow().clone();
    let explorer = explorer(page, &set);
    let is_late = || begun.elapsed() > RESPONSE_TIME;
    let stop = || is_late() || parts.is_closed();
    // Sending fails if the page has left, which `stop` notices.
    explorer.answer(question, &stop, &mut |part| {
        let _ = parts.send(part);
    });
    let _ = parts.send(match is_late() {
        true => Part::Stopped {
            problem: RequestError::Slow.to_string(),
        },
        false => Part::End {
            millis: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        },
    });
}

/// The file that the user opened.
async fn opened(
    State(page): State<Arc<Page>>,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    guard::check_token(&headers, &page.token)?;
    let text = page.opened.as_ref().ok_or(RequestError::NotFound)?;
    Ok(json_response(&json!({ "text": text })))
}

/// The names of the resources in the cluster.
async fn names(
    State(page): State<Arc<Page>>,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    let client = client(&page, &headers)?;
    let names = cluster::names(client)
        .await
        .map_err(RequestError::Cluster)?;
    let namespace = client.default_namespace();
    Ok(json_response(
        &json!({ "namespace": namespace, "names": names }),
    ))
}

/// A resource of the cluster.
async fn resource(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    let client = client(&page, &headers)?;
    let text = cluster::text(client, &name)
        .await
        .map_err(RequestError::Cluster)?;
    Ok(json_response(&json!({ "text": text })))
}

fn client<'a>(page: &'a Page, headers: &HeaderMap) -> Result<&'a kube::Client, RequestError> {
    guard::check_token(headers, &page.token)?;
    page.cluster.as_ref().ok_or(RequestError::NotFound)
}

fn json_response(value: &serde_json::Value) -> Response {
    let media_type = [(header::CONTENT_TYPE, "application/json")];
    (media_type, value.to_string()).into_response()
}

async fn read_question(body: Body) -> Result<Question, RequestError> {
    let bytes = timeout(BODY_TIME, read_body(body)).await;
    let bytes = bytes.map_err(|_| RequestError::BodyTimeout)??;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Reads a body. One that is too large is discarded, but read to the end, because a client that is still
/// sending would not receive the error.
async fn read_body(body: Body) -> Result<Vec<u8>, RequestError> {
    let mut chunks = body.into_data_stream();
    let (mut all, mut size) = (Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| RequestError::Incomplete)?;
        size += chunk.len();
        match size <= ADMISSION_BYTES {
            true => all.extend_from_slice(&chunk),
            false => all = Vec::new(),
        }
    }
    match size <= ADMISSION_BYTES {
        true => Ok(all),
        false => Err(RequestError::TooLarge),
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Refused(refusal) => refusal.status(),
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete | Self::InvalidQuestion(_) => StatusCode::BAD_REQUEST,
            Self::Plan(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Slow => StatusCode::GATEWAY_TIMEOUT,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Cluster(_) => StatusCode::BAD_GATEWAY,
            Self::NotFound => StatusCode::NOT_FOUND,
        };
        (status, format!("{self}\n")).into_response()
    }
}
