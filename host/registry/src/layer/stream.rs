//! Passes a blob from the network to [`scan`], which reads blockingly, while the blob arrives.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use tokio::sync::mpsc;

use super::{Error as LayerError, FileQuery, Found, ScanLimits, ScanPermit, scan};
use crate::error::Error;
use crate::session::BlobReader;

/// Chunks that are buffered between the network and the reader. A chunk is one read from the network.
const BUFFERED_CHUNKS: usize = 4;

/// Searches a blob while it arrives. The result is returned only after the digest of the whole blob was
/// verified, so that a wrong digest takes precedence over any error in the wrong content.
pub(crate) async fn scan_blob(
    mut blob: BlobReader<'_>,
    query: &FileQuery,
    limits: ScanLimits,
    permit: Option<ScanPermit>,
) -> Result<Result<Found, LayerError>, Error> {
    let (sender, receiver) = mpsc::channel(BUFFERED_CHUNKS);
    let query = query.clone();
    let reader = ChunkReader {
        receiver,
        current: Bytes::new(),
    };
    let scanning = llsd_blocking::LAYERS.run(move || {
        // Released when the search ends, also if nobody waits for it any more.
        let _permit = permit;
        scan(reader, &query, limits)
    });
    let scanning = tokio::spawn(scanning);
    let mut sender = Some(sender);
    while let Some(chunk) = blob.next().await? {
        if let Some(open) = &sender
            && open.send(chunk).await.is_err()
        {
            // The reader has stopped. The rest is only hashed.
            sender = None;
        }
    }
    drop(sender);
    match scanning.await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(_)) | Err(_) => Ok(Err(LayerError::Damaged(
            "the search ended unexpectedly".to_owned(),
        ))),
    }
}

struct ChunkReader {
    receiver: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
        }
        let count = self.current.len().min(buffer.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
