//! A blob while it arrives.

use bytes::Bytes;
use reqwest::Response;

use super::Session;
use crate::digest::Hashing;
use crate::error::Error;
use crate::manifest::Descriptor;
use crate::transport::next_chunk;

/// A blob on its way in: counted and hashed as it passes.
pub(crate) struct Blob<'a> {
    pub(super) session: &'a Session,
    pub(super) response: Response,
    /// `None` once the end was reached and checked.
    pub(super) hashing: Option<Hashing>,
    pub(super) descriptor: Descriptor,
    pub(super) at: String,
}

impl Blob<'_> {
    /// The next piece. `None` comes only after length and digest were found right.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(mut hashing) = self.hashing.take() else {
            return Ok(None);
        };
        let timeouts = self.session.transport.timeouts;
        let chunk = next_chunk(&mut self.response, &self.at, hashing.count(), timeouts).await?;
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
                hashing.update(&bytes);
                if hashing.count() > expected {
                    return wrong_length(hashing.count());
                }
                self.hashing = Some(hashing);
                Ok(Some(bytes))
            }
            None if hashing.count() != expected => wrong_length(hashing.count()),
            None => match hashing.finish() {
                found if found == self.descriptor.digest => Ok(None),
                found => Err(Error::DigestMismatch {
                    at: self.at.clone(),
                    found,
                }),
            },
        }
    }
}
