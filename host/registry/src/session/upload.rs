//! Uploads: blobs first, then the manifest that refers to them.

use std::collections::BTreeMap;

use bytes::Bytes;
use reqwest::header::LOCATION;
use reqwest::{Method, Response};

use super::referrers::fallback_tag;
use super::{Access, Session};
use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, OCI_INDEX, OCI_MANIFEST};
use crate::transport::Request;

impl Session {
    /// Uploads a blob, unless the repository has it.
    pub(crate) async fn put_blob(&self, repository: &str, bytes: Bytes) -> Result<Digest, Error> {
        let digest = Digest::of(&bytes);
        let at = self.at(repository, &digest.to_string());
        let url = self.url(&at, &[repository, "blobs", &digest.to_string()])?;
        let exists = Request::get(url, &at).method(Method::HEAD);
        match self.send(repository, Access::Push, &exists).await {
            Ok(_) => return Ok(digest),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let start = self.url(&at, &[repository, "blobs", "uploads/"])?;
        let start_upload = Request::get(start.clone(), &at).method(Method::POST);
        let started = self.send(repository, Access::Push, &start_upload).await?;
        let location = started
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let target = location.and_then(|text| start.join(text).ok());
        let mut target = target.ok_or_else(|| Error::UnexpectedResponse {
            at: at.clone(),
            problem: "the upload has no valid Location header".to_owned(),
        })?;
        // The request carries our authorization, which only the registry itself may receive.
        if target.origin() != start.origin() {
            return Err(Error::UnexpectedResponse {
                at,
                problem: "the upload location is on another host".to_owned(),
            });
        }
        target
            .query_pairs_mut()
            .append_pair("digest", &digest.to_string());
        let total = bytes.len() as u64;
        let upload = Request::get(target, &at)
            .method(Method::PUT)
            .body("application/octet-stream", bytes);
        self.transport.report(&at, 0, total);
        self.send(repository, Access::Push, &upload).await?;
        self.transport.report(&at, total, total);
        Ok(digest)
    }

    /// Uploads a manifest with a tag or its digest.
    pub(crate) async fn put_manifest(
        &self,
        repository: &str,
        tag_or_digest: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Digest, Error> {
        let digest = Digest::of(&bytes);
        let body = (media_type, bytes);
        self.put(repository, tag_or_digest, body).await?;
        Ok(digest)
    }

    /// Uploads a manifest that refers to `subject`. A registry without the referrers API does not add it to
    /// the list of referrers, so it is added to the fallback tag.
    pub(crate) async fn put_referrer(
        &self,
        repository: &str,
        subject: &Digest,
        artifact_type: &str,
        bytes: Vec<u8>,
    ) -> Result<(), Error> {
        let referrer = Descriptor {
            media_type: OCI_MANIFEST.to_owned(),
            digest: Digest::of(&bytes),
            size: bytes.len() as u64,
            artifact_type: Some(artifact_type.to_owned()),
            annotations: BTreeMap::new(),
            platform: None,
        };
        let digest = referrer.digest.to_string();
        let put = self.put(repository, &digest, (OCI_MANIFEST, bytes)).await?;
        if put.headers().contains_key("oci-subject") {
            return Ok(());
        }
        let mut all = self.referrers_from_tag(repository, subject).await?;
        if all.iter().any(|one| one.digest == referrer.digest) {
            return Ok(());
        }
        all.push(referrer);
        let index = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": all,
        });
        let tag = fallback_tag(subject);
        let body = (OCI_INDEX, index.to_string().into_bytes());
        self.put(repository, &tag, body).await?;
        Ok(())
    }

    async fn put(
        &self,
        repository: &str,
        tag_or_digest: &str,
        (media_type, bytes): (&str, Vec<u8>),
    ) -> Result<Response, Error> {
        let at = self.at(repository, tag_or_digest);
        let url = self.url(&at, &[repository, "manifests", tag_or_digest])?;
        let request = Request::get(url, &at)
            .method(Method::PUT)
            .body(media_type, bytes.into());
        self.send(repository, Access::Push, &request).await
    }
}
