//! Writes whose response is only the metadata of the object.
//!
//! Otherwise the API server answers a write with the whole object, which the operator has just sent.

use axum::http::header::ACCEPT;
use axum::http::{HeaderValue, Request};
use kube::Client;
use kube::api::{DynamicObject, ObjectMeta};
use kube::core::request;

use crate::cache::ReceivedObject;

/// The metadata of an object as JSON.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Sends a write, and returns the metadata of the written object.
pub(super) async fn send(
    client: &Client,
    request: Result<Request<Vec<u8>>, request::Error>,
) -> Result<ObjectMeta, kube::Error> {
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(ACCEPT, METADATA);
    let ReceivedObject(DynamicObject { metadata, .. }) = client.request(request).await?;
    Ok(metadata)
}
