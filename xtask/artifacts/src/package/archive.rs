//! A gzipped tar whose bytes depend on its content alone.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// One thing in an archive.
pub enum Entry {
    /// Bytes, and whether they can be run.
    File {
        /// What it holds.
        content: Vec<u8>,
        /// Whether it is a program.
        is_program: bool,
    },
    /// A symbolic link to a neighbour.
    Link(String),
}

impl Entry {
    /// A file to read.
    pub fn file(content: &[u8]) -> Self {
        Self::File {
            content: content.to_vec(),
            is_program: false,
        }
    }

    /// A file to run.
    pub fn program(content: Vec<u8>) -> Self {
        Self::File {
            content,
            is_program: true,
        }
    }
}

/// The archive of `entries`, in the order of their paths.
pub fn write(entries: &BTreeMap<String, Entry>) -> anyhow::Result<Vec<u8>> {
    // A header without name and time.
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
                is_program,
            } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(if *is_program { 0o755 } else { 0o644 });
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
    fn the_same_content_gives_the_same_bytes_and_comes_out_again() {
        let entries = || {
            BTreeMap::from([
                ("a/llsd".to_owned(), Entry::program(b"program".to_vec())),
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
