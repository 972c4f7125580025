//! The layers of an image: tar archives, written in one pass.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use data_encoding::HEXLOWER;
use flate2::GzBuilder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::layout::Descriptor;

/// How a layer is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As a plain tar archive, which is written and unpacked fastest.
    None,
    /// With gzip, for registries.
    Gzip,
}

impl Compression {
    fn media_type(self) -> &'static str {
        match self {
            Self::None => "application/vnd.oci.image.layer.v1.tar",
            Self::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
        }
    }
}

/// A layer whose blob is in a layout.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Layer {
    pub(crate) descriptor: Descriptor,
    pub(crate) diff_id: String,
}

impl Layer {
    /// The digest of the uncompressed archive.
    pub fn diff_id(&self) -> &str {
        &self.diff_id
    }
}

/// Writes the entries of a layer.
pub struct LayerWriter<'a> {
    tar: Builder<&'a mut dyn Write>,
    mtime: u64,
}

impl LayerWriter<'_> {
    /// Adds a file with its mode, owned by root.
    pub fn file(&mut self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        let mut header = self.header(EntryType::Regular, mode);
        header.set_size(content.len() as u64);
        self.tar
            .append_data(&mut header, path, content)
            .with_context(|| format!("failed to add {path} to a layer"))
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, path: &str, mode: u32) -> Result<()> {
        let mut header = self.header(EntryType::Directory, mode);
        self.tar
            .append_data(
                &mut header,
                format!("{}/", path.trim_end_matches('/')),
                io::empty(),
            )
            .with_context(|| format!("failed to add {path} to a layer"))
    }

    /// Adds a symbolic link at `path` to `target`.
    pub fn link(&mut self, path: &str, target: &str) -> Result<()> {
        let mut header = self.header(EntryType::Symlink, 0o777);
        self.tar
            .append_link(&mut header, path, target)
            .with_context(|| format!("failed to add {path} to a layer"))
    }

    /// Adds a file of this machine at `path`. It keeps its time, which Python compares with that of its
    /// compiled files, and its executable bit.
    pub fn copy(&mut self, source: &Path, path: &str) -> Result<()> {
        let problem = || format!("failed to add {} to a layer", source.display());
        let mut file = File::open(source).with_context(problem)?;
        let metadata = file.metadata().with_context(problem)?;
        let mut header = Header::new_gnu();
        header.set_metadata(&metadata);
        header.set_uid(0);
        header.set_gid(0);
        let is_executable = header.mode().is_ok_and(|mode| mode & 0o100 != 0);
        header.set_mode(if is_executable { 0o755 } else { 0o644 });
        self.tar
            .append_data(&mut header, path, &mut file)
            .with_context(problem)
    }

    fn header(&self, kind: EntryType, mode: u32) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.mtime);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        header
    }
}

/// Writes a layer to `output` and returns its descriptor and diff id. `mtime` is the time of its
/// entries, in seconds since 1970.
pub(crate) fn write(
    output: &mut dyn Write,
    compression: Compression,
    mtime: u64,
    fill: impl FnOnce(&mut LayerWriter<'_>) -> Result<()>,
) -> Result<Layer> {
    let mut blob = Hashed::new(output);
    let diff_id = match compression {
        Compression::None => write_tar(&mut blob, mtime, fill)?,
        Compression::Gzip => {
            // A gzip header without file name and time.
            let gzip = GzBuilder::new().mtime(0);
            let mut encoder: GzEncoder<&mut Hashed<'_>> =
                gzip.write(&mut blob, flate2::Compression::default());
            let diff_id = write_tar(&mut encoder, mtime, fill)?;
            encoder.finish()?;
            diff_id
        }
    };
    let (digest, size) = blob.finish();
    Ok(Layer {
        descriptor: Descriptor::new(compression.media_type(), digest, size),
        diff_id,
    })
}

fn write_tar(
    output: &mut dyn Write,
    mtime: u64,
    fill: impl FnOnce(&mut LayerWriter<'_>) -> Result<()>,
) -> Result<String> {
    let mut hashed = Hashed::new(output);
    let mut writer = LayerWriter {
        tar: Builder::new(&mut hashed),
        mtime,
    };
    fill(&mut writer)?;
    writer.tar.finish()?;
    drop(writer);
    Ok(hashed.finish().0)
}

/// Counts and hashes what it passes on.
struct Hashed<'a> {
    output: &'a mut dyn Write,
    hash: Sha256,
    size: u64,
}

impl<'a> Hashed<'a> {
    fn new(output: &'a mut dyn Write) -> Self {
        Self {
            output,
            hash: Sha256::new(),
            size: 0,
        }
    }

    fn finish(self) -> (String, u64) {
        (digest_of_hash(&self.hash.finalize()), self.size)
    }
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

pub(crate) fn digest_of_hash(hash: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(hash))
}
