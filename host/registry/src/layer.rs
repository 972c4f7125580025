//! Finds a file in an image layer, in one pass over the stream, without writing to disk.
//!
//! In: the bytes of a layer as they arrive: gzip, zstd or plain tar, detected by the first bytes. Out:
//! the content of one file. Layers are untrusted input: names are only compared, never opened; the
//! uncompressed size, the file size and the header size are limited; an invalid archive is an error.

use std::io::{self, BufRead, BufReader, Read};

use crate::digest::Digest;

mod archive;
mod decompress;
mod path;
mod permits;
mod server_package;
mod stream;

pub(crate) use path::LayerPath;
pub(crate) use permits::{ScanPermit, ScanPermits};
pub(crate) use server_package::version_of;
pub(crate) use stream::scan_blob;

/// The file to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileQuery {
    /// The file at this path.
    Path(LayerPath),
    /// A file with this content.
    Content(Digest),
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    File {
        path: LayerPath,
        content: Vec<u8>,
        /// The folder that records the server package in the same layer, if there is exactly one.
        server_package: Option<String>,
    },
    /// The path is a hard link to this target, whose content was not retained. Search again for the
    /// target.
    HardLink(LayerPath),
    Nothing,
}

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLimits {
    /// The uncompressed size of the layer.
    pub(crate) unpacked_bytes: u64,
    /// The size of the file.
    pub(crate) file_bytes: u64,
}

/// Why a layer cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The compressed data or the archive is damaged or incomplete.
    #[error("failed to unpack the layer: {0}")]
    Damaged(String),
    /// The uncompressed layer is larger than the limit.
    #[error(
        "the layer unpacks to more than {0} bytes; put the configuration into a layer of its own"
    )]
    UnpacksTooLarge(u64),
    /// The file is larger than the limit.
    #[error("file {path:?} in the layer is larger than {limit} bytes; make it smaller")]
    FileTooLarge {
        /// The path.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// The path is not a regular file.
    #[error("{path:?} in the layer is {kind}; use the path of a regular file")]
    NotAFile {
        /// The path.
        path: String,
        /// What it is instead.
        kind: String,
    },
}

/// Searches a layer. Reads it to the end, because the last entry for a path counts, as it does when a
/// container runtime unpacks the layer.
pub(crate) fn scan(
    reader: impl Read,
    query: &FileQuery,
    limits: ScanLimits,
) -> Result<Found, Error> {
    let reader = decompress::decompress(BufReader::with_capacity(64 << 10, reader))?;
    let reader = LimitedReader {
        inner: reader,
        left: limits.unpacked_bytes,
        limit_exceeded: false,
    };
    let mut archive = tar::Archive::new(reader);
    let result = archive::search(&mut archive, query, limits);
    let mut reader = archive.into_inner();
    let result = result.and_then(|found| {
        // Read what follows the end marker of the archive too: it may be truncated, or a bomb.
        io::copy(&mut reader, &mut io::sink()).map_err(damaged)?;
        Ok(found)
    });
    match reader.limit_exceeded {
        true => Err(Error::UnpacksTooLarge(limits.unpacked_bytes)),
        false => result,
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Damaged(crate::error::shortened(error.to_string()))
}

/// A reader that fails after `left` bytes, and records that it did.
struct LimitedReader<R> {
    inner: R,
    left: u64,
    limit_exceeded: bool,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(count)
            }
            None => {
                self.limit_exceeded = true;
                Err(io::Error::other("too large"))
            }
        }
    }
}

/// Whether a buffered reader is at its end.
fn at_end(reader: &mut impl BufRead) -> io::Result<bool> {
    Ok(reader.fill_buf()?.is_empty())
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
