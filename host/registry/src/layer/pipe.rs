//! Brings a blob from the network to [`scan`], which reads blockingly, while it is still arriving.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use tokio::sync::mpsc;

use super::{Caps, Error as LayerError, Found, Wanted, scan};
use crate::error::Error;
use crate::session::Blob;

/// Chunks in flight between the network and the reader; each is one network read.
const CHUNKS: usize = 16;

/// Searches a blob while it arrives. The answer counts only once the whole blob had the right digest,
/// and a wrong digest is reported before anything that the wrong bytes may have looked like.
pub(crate) async fn scan_blob(
    mut blob: Blob<'_>,
    wanted: &Wanted,
    caps: Caps,
) -> Result<Result<Found, LayerError>, Error> {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let wanted = wanted.clone();
    let reader = ChunkReader {
        receiver,
        current: Bytes::new(),
    };
    let scanning = tokio::task::spawn_blocking(move || scan(reader, &wanted, caps));
    let mut sender = Some(sender);
    while let Some(chunk) = blob.next().await? {
        if let Some(open) = &sender
            && open.send(chunk).await.is_err()
        {
            // The reader has seen enough; the rest is only hashed.
            sender = None;
        }
    }
    drop(sender);
    match scanning.await {
        Ok(found) => Ok(found),
        Err(_) => Ok(Err(LayerError::Damaged("it cannot be read".to_owned()))),
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
