//! Writing to a registry: blobs first, then the manifest that names them.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::LOCATION;

use super::{Access, Session};
use crate::digest::Digest;
use crate::error::Error;
use crate::transport::Call;

impl Session {
    /// Puts a blob into a repository, unless it is there already.
    pub(crate) async fn put_blob(&self, repository: &str, bytes: Bytes) -> Result<Digest, Error> {
        let digest = Digest::of(&bytes);
        let at = self.at(repository, &digest.to_string());
        let url = self.url(&at, &[repository, "blobs", &digest.to_string()])?;
        let there = Call::get(url, &at).method(Method::HEAD);
        match self.request(repository, Access::Push, &there).await {
            Ok(_) => return Ok(digest),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let start = self.url(&at, &[repository, "blobs", "uploads/"])?;
        let begin = Call::get(start.clone(), &at).method(Method::POST);
        let begun = self.request(repository, Access::Push, &begin).await?;
        let location = begun
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let target = location.and_then(|text| start.join(text).ok());
        let mut target = target.ok_or_else(|| Error::BadAnswer {
            at: at.clone(),
            problem: "an upload without an address".to_owned(),
        })?;
        // Our authorization follows the address only to the registry itself.
        if target.origin() != start.origin() {
            return Err(Error::BadAnswer {
                at,
                problem: "an upload address on another host".to_owned(),
            });
        }
        target
            .query_pairs_mut()
            .append_pair("digest", &digest.to_string());
        let upload = Call::get(target, &at)
            .method(Method::PUT)
            .body("application/octet-stream", bytes);
        self.request(repository, Access::Push, &upload).await?;
        Ok(digest)
    }

    /// Puts a manifest under a tag or its digest.
    pub(crate) async fn put_manifest(
        &self,
        repository: &str,
        selector: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Digest, Error> {
        let digest = Digest::of(&bytes);
        let at = self.at(repository, selector);
        let url = self.url(&at, &[repository, "manifests", selector])?;
        let call = Call::get(url, &at)
            .method(Method::PUT)
            .body(media_type, bytes.into());
        self.request(repository, Access::Push, &call).await?;
        Ok(digest)
    }
}
