//! Reads a blob from a response and verifies it.

use bytes::Bytes;
use reqwest::Response;

use super::Session;
use crate::digest::Hasher;
use crate::error::Error;
use crate::manifest::Descriptor;
use crate::transport::next_chunk;

/// A blob that is being received. Its bytes are counted and hashed.
pub(crate) struct BlobReader<'a> {
    pub(super) session: &'a Session,
    pub(super) response: Response,
    /// `None` after the end was reached and verified.
    pub(super) hasher: Option<Hasher>,
    pub(super) descriptor: Descriptor,
    pub(super) at: String,
}

impl BlobReader<'_> {
    /// The next chunk. `None` only after the length and the digest were verified.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(mut hasher) = self.hasher.take() else {
            return Ok(None);
        };
        let timeouts = self.session.transport.timeouts;
        let chunk = next_chunk(&mut self.response, &self.at, hasher.count(), timeouts).await?;
        let expected = self.descriptor.size;
        let wrong_length = |found| {
            Err(Error::WrongLength {
                at: self.at.clone(),
                expected,
                found,
            })
        };
        match chunk {
            Some(bytes) => {
                hasher.update(&bytes);
                if hasher.count() > expected {
                    return wrong_length(hasher.count());
                }
                let transport = &self.session.transport;
                transport.report(&self.at, hasher.count(), expected);
                self.hasher = Some(hasher);
                Ok(Some(bytes))
            }
            None if hasher.count() != expected => wrong_length(hasher.count()),
            None => match hasher.finish() {
                found if found == self.descriptor.digest => Ok(None),
                found => Err(Error::DigestMismatch {
                    at: self.at.clone(),
                    found,
                }),
            },
        }
    }
}
