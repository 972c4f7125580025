//! Stores machine code between runs.
//!
//! Modified machine code could do anything, so each entry contains its name and has a MAC. The MAC is
//! verified after the bytes were read into memory. Any other file in the directory (partial, modified,
//! renamed, copied from elsewhere, written by another version) is a cache miss and is replaced. All access
//! uses one directory handle, so no path can lead out of the directory.
//!
//! The MAC is that of ChaCha20-Poly1305 without a plaintext. Megabytes stand between a start and a ready
//! plugin, and it is computed several times faster than an HMAC.

mod directory;

use std::hash::{Hash, Hasher};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, MetadataExt as _};
use data_encoding::HEXLOWER;
use llsd_adapter_sdk::documents::Description;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{self, SHA256};
use ring::error::Unspecified;
use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use crate::inspect::World;
use directory::KEY_BYTES;

/// Changes when the load rules or the format of entries do, so that cached components are checked again.
const RULES_VERSION: &str = "llsd plugin load rules 2";

/// Size of a MAC in bytes.
const MAC_BYTES: usize = 16;

/// Suffix of an entry's file name.
const SUFFIX: &str = ".code";

/// Maximum size of all entries together, in bytes. The oldest are deleted first.
const CAPACITY: u64 = 256 << 20;

/// Why the compile cache could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The directory cannot be opened or created.
    #[error(
        "failed to open the compile cache directory {path}; check that it is a directory and belongs to you"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another user owns the directory or can write to it.
    #[error(
        "the compile cache directory {path} {problem}, so its machine code cannot be trusted; use a directory that belongs to you and has mode 0700"
    )]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// Its owner or mode.
        problem: String,
    },
    /// The key file cannot be read or created.
    #[error(
        "failed to read or create the file `key` of the compile cache; delete it, so that a new one is created"
    )]
    Key(#[source] io::Error),
}

/// A directory of machine code, authenticated with a key.
#[derive(Debug)]
pub struct CompileCache {
    directory: Dir,
    key: [u8; KEY_BYTES],
}

/// The machine code of a component that satisfies the load rules, and what loading found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) world: World,
    pub(crate) description: Description,
    pub(crate) code: Vec<u8>,
}

/// Follows the machine code in a file. After it come its length, the nonce and the MAC.
#[derive(Serialize, Deserialize)]
struct Trailer {
    /// Of the file, so that entries cannot be swapped.
    name: String,
    is_schema_adapter: bool,
    description: Description,
}

impl CompileCache {
    /// Uses an open directory and a key from elsewhere, for example from a Secret.
    pub fn new(directory: Dir, key: [u8; KEY_BYTES]) -> Self {
        Self { directory, key }
    }

    /// Opens or creates a directory (mode 0700) that contains its own key (mode 0600).
    ///
    /// The mode of the directory excludes other users. The key protects against accidents, and
    /// against processes that can write files there but not read them.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        let directory = directory::open(path)?;
        let key = directory::key(&directory).map_err(CacheError::Key)?;
        Ok(Self { directory, key })
    }

    /// The machine code of a component, if the cache has it and its MAC is valid.
    pub(crate) fn get(&self, engine: &Engine, digest: &str) -> Option<Entry> {
        let name = entry_name(engine, digest);
        let file = self.directory.open(&name).ok()?;
        // Otherwise the buffer is copied each time it grows.
        let size = file.metadata().ok()?.len().min(CAPACITY);
        let mut bytes = Vec::with_capacity(usize::try_from(size).ok()? + 1);
        file.take(CAPACITY).read_to_end(&mut bytes).ok()?;
        let (rest, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
        let (body, nonce) = rest.split_last_chunk::<NONCE_LEN>()?;
        if self.verify(body, *nonce, *mac).is_err() {
            tracing::warn!(
                entry = name,
                "invalid MAC on an entry of the compile cache; compiling the component again"
            );
            return None;
        }
        let (body, length) = body.split_last_chunk::<4>()?;
        let end = body
            .len()
            .checked_sub(u32::from_le_bytes(*length) as usize)?;
        let trailer: Trailer = serde_json::from_slice(&body[end..]).ok()?;
        if trailer.name != name {
            tracing::warn!(
                entry = name,
                was = trailer.name,
                "an entry of the compile cache was renamed; compiling the component again"
            );
            return None;
        }
        let Trailer {
            is_schema_adapter,
            description,
            ..
        } = trailer;
        let world = match is_schema_adapter {
            true => World::SchemaAdapter,
            false => World::ProviderPack,
        };
        // Truncating the buffer avoids copying megabytes of machine code.
        bytes.truncate(end);
        Some(Entry {
            world,
            description,
            code: bytes,
        })
    }

    /// Writes an entry, replacing any file of the same name, and evicts old entries.
    pub(crate) fn insert(&self, engine: &Engine, digest: &str, entry: Entry) -> io::Result<()> {
        let name = entry_name(engine, digest);
        let Entry {
            world,
            description,
            code: mut body,
        } = entry;
        let trailer = serde_json::to_vec(&Trailer {
            name: name.clone(),
            is_schema_adapter: world == World::SchemaAdapter,
            description,
        })?;
        let length = u32::try_from(trailer.len()).map_err(io::Error::other)?;
        body.extend_from_slice(&trailer);
        body.extend_from_slice(&length.to_le_bytes());
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let mac = self.mac(&body, nonce);
        let mac = mac.map_err(|_| io::Error::other("failed to compute a MAC"))?;
        let temporary = directory::write_temporary(&self.directory, &[&body, &nonce, &mac])?;
        let renamed = self.directory.rename(&temporary, &self.directory, &name);
        if renamed.is_err() {
            let _ = self.directory.remove_file(&temporary);
        }
        renamed.and_then(|()| self.evict())
    }

    /// The MAC of `body`. A nonce must not be used twice.
    fn mac(&self, body: &[u8], nonce: [u8; NONCE_LEN]) -> Result<[u8; MAC_BYTES], Unspecified> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mac = self
            .cipher()?
            .seal_in_place_separate_tag(nonce, Aad::from(body), &mut [])?;
        mac.as_ref().try_into().map_err(|_| Unspecified)
    }

    fn verify(
        &self,
        body: &[u8],
        nonce: [u8; NONCE_LEN],
        mut mac: [u8; MAC_BYTES],
    ) -> Result<(), Unspecified> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.cipher()?
            .open_in_place(nonce, Aad::from(body), &mut mac)
            .map(drop)
    }

    fn cipher(&self) -> Result<LessSafeKey, Unspecified> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.key).map(LessSafeKey::new)
    }

    /// The bytes of all entries that can be read.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.directory.entries().into_iter().flatten().flatten();
        let entries = files.filter(|file| {
            let name = file.file_name();
            name.to_str().is_some_and(|name| name.ends_with(SUFFIX))
        });
        entries
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .sum()
    }

    /// Deletes the oldest entries beyond the capacity, and temporary files that were abandoned.
    fn evict(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for file in self.directory.entries()? {
            let file = file?;
            let Ok(name) = file.file_name().into_string() else {
                continue;
            };
            if name.ends_with(SUFFIX) {
                let metadata = file.metadata()?;
                entries.push((metadata.mtime(), metadata.len(), name));
            } else if directory::is_abandoned(&name, &file) {
                // Another process may have deleted it first.
                let _ = self.directory.remove_file(&name);
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        for (_, size, name) in entries {
            if total <= CAPACITY {
                break;
            }
            self.directory.remove_file(name)?;
            total -= size;
        }
        Ok(())
    }
}

/// The file name of a component's machine code for this engine.
fn entry_name(engine: &Engine, digest: &str) -> String {
    let mut hasher = StableHasher(digest::Context::new(&SHA256));
    RULES_VERSION.hash(&mut hasher);
    // Covers wasmtime's version, the target and every setting that affects machine code.
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let engine = HEXLOWER.encode(&hasher.0.finish().as_ref()[..16]);
    format!("{}-{engine}{SUFFIX}", digest.trim_start_matches("sha256:"))
}

/// Feeds `Hash` into SHA-256, whose result is the same in every process.
struct StableHasher(digest::Context);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        // Unused: `entry_name` takes the whole digest.
        0
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn abandoned_temporary_files_are_deleted_and_recent_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("code");
        let cache = CompileCache::open(&path).unwrap();
        let temporary = || directory::write_temporary(&cache.directory, &[b"half"]).unwrap();
        let (old, recent) = (temporary(), temporary());
        let two_hours_ago = SystemTime::now() - 2 * directory::ABANDONED_AFTER;
        let file = std::fs::File::options().write(true).open(path.join(&old));
        file.unwrap().set_modified(two_hours_ago).unwrap();
        cache.evict().unwrap();
        assert!(!path.join(old).exists());
        assert!(path.join(recent).exists());
    }
}
