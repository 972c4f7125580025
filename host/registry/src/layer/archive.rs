//! Searches the entries of a tar archive.

use std::collections::HashMap;
use std::io::Read;

use tar::EntryType;

use super::server_package::ServerPackage;
use super::{Error, FileQuery, Found, LayerPath, ScanLimits, damaged};
use crate::digest::Digest;

/// The total size of small files that are retained as possible targets of later hard links, with their
/// paths. A link to a file that was not retained costs a second pass.
const MAX_LINK_TARGET_BYTES: usize = 4 << 20;
/// What an entry of a map costs besides its path and content: two strings and the map's own data.
const LINK_TARGET_OVERHEAD: usize = 128;
/// The size limit of a long name or a pax record. Real ones have a few hundred bytes.
const MAX_HEADER_BYTES: u64 = 256 << 10;
/// The total size of all long names and pax records of a layer. A layer with all of Python has 10 MB.
const MAX_HEADERS_BYTES: usize = 64 << 20;
/// The longest path that Linux can unpack.
const MAX_PATH_BYTES: usize = 4096;

/// Searches all entries. The last matching entry counts.
pub(super) fn search<R: Read>(
    archive: &mut tar::Archive<R>,
    query: &FileQuery,
    limits: ScanLimits,
) -> Result<Found, Error> {
    let mut search = Search {
        query,
        limits,
        result: Ok(Found::Nothing),
        link_targets: LinkTargets::default(),
        server_package: ServerPackage::default(),
    };
    let mut header = ExtendedHeader::default();
    // Raw entries: otherwise the library reads long names of any size into memory.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        if header.read_entry(kind, &mut entry)? {
            continue;
        }
        let ExtendedHeader {
            path, link, size, ..
        } = header.take();
        let path = path.unwrap_or_else(|| lossy(&entry.path_bytes()));
        let link = link.or_else(|| entry.link_name_bytes().map(|name| lossy(&name)));
        check_path_length(&path)?;
        check_path_length(link.as_deref().unwrap_or_default())?;
        if size.is_some_and(|other| other != entry.size()) {
            return Err(Error::Damaged(format!("two sizes for {path:?}")));
        }
        if let Some(path) = LayerPath::parse(&path) {
            search.visit(kind, path, link, entry.size(), &mut entry)?;
        }
    }
    let Search {
        mut result,
        server_package: package,
        ..
    } = search;
    if let Ok(Found::File { server_package, .. }) = &mut result {
        *server_package = package.into_folder();
    }
    result
}

/// The state of a search.
struct Search<'a> {
    query: &'a FileQuery,
    limits: ScanLimits,
    /// The result of the last entry that matched.
    result: Result<Found, Error>,
    link_targets: LinkTargets,
    server_package: ServerPackage,
}

impl Search<'_> {
    /// Examines one entry. An error means that the archive is invalid.
    fn visit(
        &mut self,
        kind: EntryType,
        path: LayerPath,
        link: Option<String>,
        size: u64,
        content: &mut impl Read,
    ) -> Result<(), Error> {
        self.server_package.visit(path.as_str());
        let is_queried = *self.query == FileQuery::Path(path.clone());
        match kind {
            EntryType::Regular | EntryType::Continuous if size <= self.limits.file_bytes => {
                self.visit_file(path, size, content)?;
            }
            // A larger file is an error only if it is the queried one.
            EntryType::Regular | EntryType::Continuous if is_queried => {
                let limit = self.limits.file_bytes;
                let path = path.into_string();
                self.result = Err(Error::FileTooLarge { path, limit });
            }
            EntryType::Link if is_queried => {
                let target = link.as_deref().and_then(LayerPath::parse);
                let target = target
                    .ok_or_else(|| Error::Damaged("a hard link has no valid target".into()))?;
                self.result = Ok(match self.link_targets.files.get(&target) {
                    Some(content) => Found::File {
                        path,
                        content: content.clone(),
                        server_package: None,
                    },
                    None => Found::HardLink(target),
                });
            }
            EntryType::GNUSparse => {
                return Err(Error::Damaged("sparse files are not supported".into()));
            }
            other if is_queried => {
                let kind = match (other, link) {
                    (EntryType::Symlink, Some(to)) => format!("a symbolic link to {to:?}"),
                    (EntryType::Directory, _) => "a directory".to_owned(),
                    _ => "not a regular file".to_owned(),
                };
                let path = path.into_string();
                self.result = Err(Error::NotAFile { path, kind });
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_file(
        &mut self,
        path: LayerPath,
        size: u64,
        reader: &mut impl Read,
    ) -> Result<(), Error> {
        let is_queried = match self.query {
            FileQuery::Path(queried) => *queried == path,
            FileQuery::Content(_) => true,
        };
        if !is_queried && !self.link_targets.has_room_for(&path, size) {
            return Ok(());
        }
        let mut content = Vec::with_capacity(size as usize);
        reader.read_to_end(&mut content).map_err(damaged)?;
        let is_match = match self.query {
            FileQuery::Path(_) => is_queried,
            FileQuery::Content(digest) => Digest::of(&content) == *digest,
        };
        if is_match {
            self.result = Ok(Found::File {
                path,
                content,
                server_package: None,
            });
        } else if let FileQuery::Path(_) = self.query {
            self.link_targets.add(path, content);
        }
        Ok(())
    }
}

/// Small files that were read, for hard links that follow them.
#[derive(Default)]
struct LinkTargets {
    files: HashMap<LayerPath, Vec<u8>>,
    /// The memory of the files: content, path and overhead. An empty file is not free.
    bytes: usize,
}

impl LinkTargets {
    fn has_room_for(&self, path: &LayerPath, size: u64) -> bool {
        let cost = LINK_TARGET_OVERHEAD + path.as_str().len();
        let used = (self.bytes + cost) as u64;
        used.saturating_add(size) <= MAX_LINK_TARGET_BYTES as u64
    }

    fn add(&mut self, path: LayerPath, content: Vec<u8>) {
        if self.has_room_for(&path, content.len() as u64) {
            self.bytes += LINK_TARGET_OVERHEAD + path.as_str().len() + content.len();
            self.files.insert(path, content);
        }
    }
}

/// Names and the size of the next entry, from GNU long name entries and pax headers.
#[derive(Default)]
struct ExtendedHeader {
    path: Option<String>,
    link: Option<String>,
    size: Option<u64>,
    /// The size of all headers so far.
    bytes: usize,
}

impl ExtendedHeader {
    /// The names and size for the current entry. The next entry starts without them.
    fn take(&mut self) -> Self {
        let bytes = self.bytes;
        std::mem::replace(
            self,
            Self {
                bytes,
                ..Self::default()
            },
        )
    }

    fn read_header(&mut self, entry: &mut impl Read) -> Result<Vec<u8>, Error> {
        let bytes = read_header(entry)?;
        self.bytes += bytes.len();
        match self.bytes > MAX_HEADERS_BYTES {
            true => Err(Error::Damaged(format!(
                "its names and pax headers have more than {MAX_HEADERS_BYTES} bytes; put the \
                 configuration into a layer of its own"
            ))),
            false => Ok(bytes),
        }
    }

    /// Reads an entry that describes the next one. `false` if the entry is not of that kind.
    fn read_entry(&mut self, kind: EntryType, entry: &mut impl Read) -> Result<bool, Error> {
        match kind {
            EntryType::GNULongName => self.path = Some(trimmed(&self.read_header(entry)?)),
            EntryType::GNULongLink => self.link = Some(trimmed(&self.read_header(entry)?)),
            EntryType::XGlobalHeader => {}
            EntryType::XHeader => {
                for record in tar::PaxExtensions::new(&self.read_header(entry)?) {
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

fn read_header(entry: &mut impl Read) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    entry
        .take(MAX_HEADER_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(damaged)?;
    match bytes.len() as u64 > MAX_HEADER_BYTES {
        true => Err(Error::Damaged(format!(
            "a name or pax header is longer than {MAX_HEADER_BYTES} bytes"
        ))),
        false => Ok(bytes),
    }
}

fn check_path_length(path: &str) -> Result<(), Error> {
    match path.len() > MAX_PATH_BYTES {
        true => Err(Error::Damaged(format!(
            "a path has more than {MAX_PATH_BYTES} bytes"
        ))),
        false => Ok(()),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The string before the first NUL byte.
fn trimmed(bytes: &[u8]) -> String {
    lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_files_with_long_paths_fill_the_budget_for_link_targets() {
        let mut targets = LinkTargets::default();
        for number in 0..20_000 {
            let path = format!("{}/{number}", "long/".repeat(200));
            targets.add(LayerPath::parse(&path).unwrap(), Vec::new());
        }
        let held: usize = targets.files.keys().map(|path| path.as_str().len()).sum();
        assert!(held > 0 && held <= MAX_LINK_TARGET_BYTES, "{held}");
        assert!(targets.bytes <= MAX_LINK_TARGET_BYTES);
        for number in 0..100_000 {
            targets.add(LayerPath::parse(&number.to_string()).unwrap(), Vec::new());
        }
        let overhead = targets.files.len() * LINK_TARGET_OVERHEAD;
        assert!(overhead <= MAX_LINK_TARGET_BYTES, "{}", targets.files.len());
    }
}
