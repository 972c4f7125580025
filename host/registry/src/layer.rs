//! Finds a file in an image layer, in one pass, without writing anything anywhere.
//!
//! In: the bytes of a layer as they arrive (gzip, zstd or plain tar, told by their first bytes). Out: the
//! content of one file. Layers come from strangers: names are compared, never opened; unpacked size,
//! file size and header size are capped; what a well-made layer does not hold is an error.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};

use crate::digest::Digest;

mod pipe;
mod unpack;

pub(crate) use pipe::scan_blob;

/// The most that is kept of small files in case a hard link turns up that points to one of them.
const KEPT_BYTES: u64 = 8 << 20;
/// Long names and pax records are a few hundred bytes; nobody needs more than this.
const MAX_HEADER_BYTES: u64 = 256 << 10;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The content of the file at this path.
    Path(LayerPath),
    /// The path of a file with this content.
    Content(Digest),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    File {
        path: LayerPath,
        content: Vec<u8>,
    },
    /// The path is a hard link whose target passed by too early to be kept: look again for this.
    Elsewhere(LayerPath),
    Nothing,
}

/// How much is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) unpacked_bytes: u64,
    pub(crate) file_bytes: u64,
}

/// Why a layer could not be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The compressed or archived data is damaged or ends early.
    #[error("the layer cannot be unpacked: {0}")]
    Damaged(String),
    /// It unpacks to more than is accepted.
    #[error(
        "the layer unpacks to more than {0} bytes; put the configuration into a layer of its own"
    )]
    UnpacksTooLarge(u64),
    /// The file is there and too large.
    #[error("{path:?} in the layer is larger than {limit} bytes")]
    FileTooLarge {
        /// Which file.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// Something else than a file stands there.
    #[error("{path:?} in the layer is {kind}; name the file itself")]
    NotAFile {
        /// Which entry.
        path: String,
        /// What it is.
        kind: String,
    },
}

/// A path inside a layer: no root, no `.` or `..`, no empty parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LayerPath(String);

impl LayerPath {
    /// `/etc/x`, `./etc/x` and `etc/x` are one path; a path that climbs is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        let is_clean = !parts.is_empty() && !parts.contains(&"..") && !text.contains('\0');
        is_clean.then(|| Self(parts.join("/")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads the whole layer. The last entry for a path counts, as it does when a layer is unpacked.
pub(crate) fn scan(reader: impl Read, wanted: &Wanted, caps: Caps) -> Result<Found, Error> {
    let reader = unpack::decompress(BufReader::with_capacity(64 << 10, reader))?;
    let reader = Counted {
        inner: reader,
        left: caps.unpacked_bytes,
        overrun: false,
    };
    let mut archive = tar::Archive::new(reader);
    let result = walk(&mut archive, wanted, caps);
    let mut reader = archive.into_inner();
    let end = result.and_then(|found| {
        // What follows the archive's end mark must unpack too, or the layer is cut off.
        io::copy(&mut reader, &mut io::sink()).map_err(damaged)?;
        Ok(found)
    });
    match reader.overrun {
        true => Err(Error::UnpacksTooLarge(caps.unpacked_bytes)),
        false => end,
    }
}

fn walk<R: Read>(
    archive: &mut tar::Archive<R>,
    wanted: &Wanted,
    caps: Caps,
) -> Result<Found, Error> {
    let mut kept = Kept::default();
    let mut found = Found::Nothing;
    let mut problem = None;
    let mut long = LongNames::default();
    // Raw entries: the library reads long names of any size into memory, we do not.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        if long.take_in(kind, &mut entry)? {
            continue;
        }
        let names = std::mem::take(&mut long);
        let path = names.path.unwrap_or_else(|| lossy(&entry.path_bytes()));
        let link = names
            .link
            .or_else(|| entry.link_name_bytes().map(|name| lossy(&name)));
        let size = entry.size();
        if names.size.is_some_and(|other| other != size) {
            return Err(Error::Damaged(format!("two sizes for {path:?}")));
        }
        let Some(path) = LayerPath::parse(&path) else {
            continue;
        };
        let is_wanted = *wanted == Wanted::Path(path.clone());
        match kind {
            tar::EntryType::Regular | tar::EntryType::Continuous if size > caps.file_bytes => {
                // Other files may be as large as they like.
                let limit = caps.file_bytes;
                let path = path.0;
                problem = is_wanted
                    .then_some(Error::FileTooLarge { path, limit })
                    .or(problem);
            }
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                let mut content = Vec::with_capacity(size as usize);
                entry.read_to_end(&mut content).map_err(damaged)?;
                let matches = match wanted {
                    Wanted::Path(_) => is_wanted,
                    Wanted::Content(digest) => Digest::of(&content) == *digest,
                };
                if matches {
                    problem = None;
                    found = Found::File { path, content };
                } else if let Wanted::Path(_) = wanted {
                    kept.add(path, content);
                }
            }
            tar::EntryType::Link if is_wanted => {
                problem = None;
                found = match link.as_deref().and_then(LayerPath::parse) {
                    Some(target) => match kept.files.get(&target) {
                        Some(content) => Found::File {
                            path,
                            content: content.clone(),
                        },
                        None => Found::Elsewhere(target),
                    },
                    None => return Err(Error::Damaged("a hard link without a target".into())),
                };
            }
            tar::EntryType::GNUSparse => {
                return Err(Error::Damaged(
                    "it holds sparse files, which are not supported".into(),
                ));
            }
            other if is_wanted => {
                let kind = match (other, link) {
                    (tar::EntryType::Symlink, Some(to)) => format!("a symbolic link to {to:?}"),
                    (tar::EntryType::Directory, _) => "a directory".to_owned(),
                    _ => "not a regular file".to_owned(),
                };
                problem = Some(Error::NotAFile { path: path.0, kind });
            }
            _ => {}
        }
    }
    problem.map_or(Ok(found), Err)
}

/// Small files that passed by, for hard links that come after them.
#[derive(Default)]
struct Kept {
    files: HashMap<LayerPath, Vec<u8>>,
    bytes: u64,
}

impl Kept {
    fn add(&mut self, path: LayerPath, content: Vec<u8>) {
        let size = content.len() as u64;
        if self.bytes + size <= KEPT_BYTES {
            self.bytes += size;
            self.files.insert(path, content);
        }
    }
}

/// Names and sizes that an entry of its own announces for the next one (GNU and pax).
#[derive(Default)]
struct LongNames {
    path: Option<String>,
    link: Option<String>,
    size: Option<u64>,
}

impl LongNames {
    /// Reads an entry that only speaks about the next; true when it was one.
    fn take_in(&mut self, kind: tar::EntryType, entry: &mut impl Read) -> Result<bool, Error> {
        let mut read = || {
            let mut bytes = Vec::new();
            entry
                .take(MAX_HEADER_BYTES + 1)
                .read_to_end(&mut bytes)
                .map_err(damaged)?;
            match bytes.len() as u64 > MAX_HEADER_BYTES {
                true => Err(Error::Damaged(
                    "a name longer than any file system's".to_owned(),
                )),
                false => Ok(bytes),
            }
        };
        match kind {
            tar::EntryType::GNULongName => self.path = Some(trimmed(&read()?)),
            tar::EntryType::GNULongLink => self.link = Some(trimmed(&read()?)),
            tar::EntryType::XGlobalHeader => {}
            tar::EntryType::XHeader => {
                for record in tar::PaxExtensions::new(&read()?) {
                    let record = record.map_err(damaged)?;
                    let value = lossy(record.value_bytes());
                    match record.key_bytes() {
                        b"path" => self.path = Some(value),
                        b"linkpath" => self.link = Some(value),
                        b"size" => self.size = Some(value.parse().map_err(damaged)?),
                        _ => {}
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn trimmed(bytes: &[u8]) -> String {
    lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Damaged(error.to_string())
}

/// Stops reading when a layer has unpacked to more than its cap.
struct Counted<R> {
    inner: R,
    left: u64,
    overrun: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(count)
            }
            None => {
                self.overrun = true;
                Err(io::Error::other("too large"))
            }
        }
    }
}

/// Whether a buffered reader has nothing left.
fn at_end(reader: &mut impl BufRead) -> io::Result<bool> {
    Ok(reader.fill_buf()?.is_empty())
}

#[cfg(test)]
mod tests;
