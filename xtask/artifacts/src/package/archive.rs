//! Writes reproducible `.tar.gz` archives: their bytes depend on the entries only.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// An entry of an archive.
pub enum Entry {
    /// A file.
    File {
        /// Its content.
        content: Vec<u8>,
        /// Whether it is executable.
        is_executable: bool,
    },
    /// A symbolic link to a file in the same directory.
    Link(String),
}

impl Entry {
    /// A file that is not executable.
    pub fn file(content: &[u8]) -> Self {
        Self::File {
            content: content.to_vec(),
            is_executable: false,
        }
    }

    /// An executable file.
    pub fn executable(content: Vec<u8>) -> Self {
        Self::File {
            content,
            is_executable: true,
        }
    }
}

/// The entries below a top directory.
pub fn below(name: &str, entries: BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    let place = |(path, entry)| (format!("{name}/{path}"), entry);
    entries.into_iter().map(place).collect()
}

/// Writes an archive with the entries, sorted by path.
pub fn write(entries: &BTreeMap<String, Entry>) -> anyhow::Result<Vec<u8>> {
    // A gzip header without file name and time.
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::default());
    let mut tar = Builder::new(gzip);
    for (path, entry) in entries {
        let mut header = Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        match entry {
            Entry::File {
                content,
                is_executable,
            } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(if *is_executable { 0o755 } else { 0o644 });
                header.set_size(content.len() as u64);
                tar.append_data(&mut header, path, content.as_slice())?;
            }
            Entry::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                tar.append_link(&mut header, path, target)?;
            }
        }
    }
    let mut gzip = tar.into_inner()?;
    gzip.flush()?;
    Ok(gzip.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_entries_give_equal_bytes_that_can_be_unpacked() {
        let entries = || {
            BTreeMap::from([
                ("a/llsd".to_owned(), Entry::executable(b"program".to_vec())),
                ("a/kubectl-llsd".to_owned(), Entry::Link("llsd".to_owned())),
                ("a/LICENSE".to_owned(), Entry::file(b"text")),
            ])
        };
        let bytes = write(&entries()).unwrap();
        assert_eq!(bytes, write(&entries()).unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let seen: Vec<(String, u32)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                (path, entry.header().mode().unwrap())
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("a/LICENSE".to_owned(), 0o644),
                ("a/kubectl-llsd".to_owned(), 0o777),
                ("a/llsd".to_owned(), 0o755),
            ]
        );
    }
}
