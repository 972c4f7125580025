//! A registry that answers as [`Image`] says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use llsd_registry::Digest;

use crate::Image;
use crate::image::Stored;

const DRIP: Duration = Duration::from_secs(1);

type Images = Arc<Mutex<HashMap<String, Image>>>;

/// A running registry, with plain HTTP on the loopback address.
pub struct HostileRegistry {
    address: SocketAddr,
    images: Images,
}

impl HostileRegistry {
    /// Starts an empty registry. It stops with the runtime.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let images = Images::default();
        let router = Router::new().fallback(respond).with_state(images.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, images }
    }

    /// `host:port`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Serves an image under every tag of a repository.
    pub fn put(&self, repository: &str, image: Image) {
        let mut images = self.images.lock().unwrap();
        images.insert(repository.to_owned(), image);
    }
}

async fn respond(State(images): State<Images>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches("/v2/").to_owned();
    let parts: Vec<&str> = path.rsplitn(3, '/').collect();
    let &[name, kind, repository] = parts.as_slice() else {
        return StatusCode::OK.into_response();
    };
    let image = images.lock().unwrap().get(repository).cloned();
    let is_head = request.method() == Method::HEAD;
    match (image, kind) {
        (None, _) => StatusCode::NOT_FOUND.into_response(),
        (Some(Image::Silent), _) => std::future::pending().await,
        (Some(Image::Dripping), _) if !is_head => slow(b"{".repeat(1 << 20)),
        (Some(Image::Endless), _) if !is_head => endless(),
        (Some(Image::Dripping | Image::Endless), _) => manifest(&Stored::with_base(""), is_head),
        (Some(Image::Stored(stored) | Image::DrippingLayer(stored)), "manifests") => {
            manifest(&stored, is_head)
        }
        (Some(Image::DrippingLayer(stored)), _) if stored.layer.as_deref() == Some(name) => {
            blob(&stored, name).map_or_else(not_found, slow)
        }
        (Some(Image::Stored(stored) | Image::DrippingLayer(stored)), _) => {
            blob(&stored, name).map_or_else(not_found, |bytes| bytes.into_response())
        }
    }
}

fn not_found() -> Response {
    StatusCode::NOT_FOUND.into_response()
}

fn blob(stored: &Stored, digest: &str) -> Option<Vec<u8>> {
    let found = stored.blobs.iter().find(|(name, _)| name == digest)?;
    Some(found.1.clone())
}

fn manifest(stored: &Stored, is_head: bool) -> Response {
    let headers = [
        (header::CONTENT_TYPE, stored.media_type.to_owned()),
        (
            header::HeaderName::from_static("docker-content-digest"),
            Digest::of(&stored.manifest).to_string(),
        ),
    ];
    let body = if is_head {
        Vec::new()
    } else {
        stored.manifest.clone()
    };
    (headers, body).into_response()
}

/// Sends one byte each second.
fn slow(bytes: Vec<u8>) -> Response {
    let drops = stream::iter(bytes).then(|byte| async move {
        tokio::time::sleep(DRIP).await;
        Ok::<_, std::io::Error>(Bytes::from(vec![byte]))
    });
    Body::from_stream(drops).into_response()
}

fn endless() -> Response {
    let chunk = Bytes::from(vec![b' '; 1 << 16]);
    let chunks = stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
    Body::from_stream(chunks).into_response()
}
