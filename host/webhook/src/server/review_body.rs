//! Reads request bodies within a size, a time, and a share of the memory for large ones.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::RequestError;
use crate::limits::Limits;

/// The unit in which the memory of large bodies is counted.
const BLOCK: usize = 64 << 10;

/// Reads bodies. All requests share the memory for large ones.
#[derive(Clone)]
pub(super) struct BodyReader {
    blocks: Arc<Semaphore>,
    limits: Limits,
}

/// A body, and its share of the memory, which is free again when it is dropped.
pub(super) struct ReviewBody {
    pub(super) bytes: Bytes,
    pub(super) share: Option<OwnedSemaphorePermit>,
}

impl BodyReader {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            blocks: Arc::new(Semaphore::new(limits.large_bytes / BLOCK)),
            limits,
        }
    }

    /// Reads a body of at most `max` bytes. A body that is too large is discarded, but read to the end,
    /// because a client that is still sending would not receive the error.
    pub(super) async fn read(&self, body: Body, max: usize) -> Result<ReviewBody, RequestError> {
        let limit = self.limits.body;
        let result = timeout(limit, self.read_all(body, max)).await;
        result.unwrap_or(Err(RequestError::BodyTimeout(limit)))
    }

    async fn read_all(&self, body: Body, max: usize) -> Result<ReviewBody, RequestError> {
        let mut chunks = body.into_data_stream();
        let (mut review, mut size) = (Vec::new(), 0);
        let mut share = None;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| RequestError::Incomplete)?;
            size += chunk.len();
            if size <= max {
                self.reserve(&mut share, size).await?;
                review.extend_from_slice(&chunk);
            } else {
                (review, share) = (Vec::new(), None);
            }
        }
        if size > max {
            return Err(RequestError::TooLarge(max));
        }
        Ok(ReviewBody {
            bytes: review.into(),
            share,
        })
    }

    /// Waits until there is memory for a body of this size.
    async fn reserve(
        &self,
        share: &mut Option<OwnedSemaphorePermit>,
        size: usize,
    ) -> Result<(), RequestError> {
        if size <= self.limits.small_bytes {
            return Ok(());
        }
        let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = size.div_ceil(BLOCK).saturating_sub(held);
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        if missing == 0 {
            return Ok(());
        }
        // The semaphore is never closed.
        let permit = self.blocks.clone().acquire_many_owned(missing).await;
        let permit = permit.map_err(|_| RequestError::Incomplete)?;
        match share {
            Some(share) => share.merge(permit),
            None => *share = Some(permit),
        }
        Ok(())
    }
}
