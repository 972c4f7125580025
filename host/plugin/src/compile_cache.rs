//! Machine code kept between runs.
//!
//! Altered machine code is anybody's code, so an entry counts only with a MAC made by our key over
//! its name and its bytes, checked on what was read into memory. Anything else in the directory
//! (torn, altered, copied from elsewhere, made by another version) is a miss, and is replaced. All
//! access goes through one directory handle; no path leads out of it.

use std::hash::{Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirEntry, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use llsd_adapter_sdk::documents::Description;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;

use crate::inspect::World;

/// Changes when the load rules do, so that what passed older rules is looked at again.
const RULES: &str = "llsd plugin load rules 1";

/// Bytes of a MAC and of the key.
const MAC: usize = 32;

/// The file that holds the key of a directory of its own.
const KEY_FILE: &str = "key";

/// How files begin that are not whole yet.
const DRAFT: &str = "draft-";

/// After this long a draft has lost whoever wrote it.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// How entries end.
const SUFFIX: &str = ".code";

/// Bytes of all entries together; the oldest leave first.
const CAPACITY: u64 = 256 << 20;

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The directory cannot be used.
    #[error("could not use {path} as the compile cache; check that it is a directory of yours")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else owns it or can write there.
    #[error(
        "{path} {problem}, so its machine code cannot be trusted; use a directory of yours with mode 0700"
    )]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The key cannot be read or made.
    #[error("could not read or make the key of the compile cache; remove the file `key` in it")]
    Key(#[source] io::Error),
}

/// A directory of machine code that only we can have written.
#[derive(Debug)]
pub struct CompileCache {
    directory: Dir,
    key: [u8; MAC],
}

/// What is known about a component that passed the load rules, and its machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) world: World,
    pub(crate) description: Description,
    pub(crate) code: Vec<u8>,
}

/// What follows the machine code in a file; after it come its length and the MAC.
#[derive(Serialize, Deserialize)]
struct Trailer {
    is_schema_adapter: bool,
    description: Description,
}

impl CompileCache {
    /// Takes a directory and a key from elsewhere, for example from a Secret.
    pub fn new(directory: Dir, key: [u8; MAC]) -> Self {
        Self { directory, key }
    }

    /// Opens or makes a directory (mode 0700) with a key of its own (mode 0600) in it.
    ///
    /// The key keeps out whoever can write files there but not read them, and accidents; the mode of
    /// the directory keeps out everybody else.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        let failed = |source| CacheError::Directory {
            path: path.to_owned(),
            source,
        };
        let parent = path.parent().unwrap_or(Path::new("/"));
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        Dir::create_ambient_dir_all(parent, ambient_authority()).map_err(failed)?;
        let parent = Dir::open_ambient_dir(parent, ambient_authority()).map_err(failed)?;
        match parent.create_dir_with(name, &private_directory()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let directory = parent.open_dir(name).map_err(failed)?;
        let metadata = directory.dir_metadata().map_err(failed)?;
        let me = rustix::process::geteuid().as_raw();
        if let Some(problem) = distrust(metadata.uid(), metadata.mode(), 0o022, me) {
            return Err(CacheError::Untrusted {
                path: path.to_owned(),
                problem,
            });
        }
        let key = key(&directory).map_err(CacheError::Key)?;
        Ok(Self { directory, key })
    }

    /// The machine code of a component, if we put it there.
    pub(crate) fn find(&self, engine: &Engine, digest: &str) -> Option<Entry> {
        let name = entry_name(engine, digest);
        let mut bytes = Vec::new();
        let file = self.directory.open(&name).ok()?;
        file.take(CAPACITY).read_to_end(&mut bytes).ok()?;
        let (body, tag) = bytes.split_last_chunk::<MAC>()?;
        if self.mac(&name, body).verify_slice(tag).is_err() {
            tracing::warn!(
                entry = name,
                "the compile cache holds an entry that is not ours; compiling again"
            );
            return None;
        }
        let (body, length) = body.split_last_chunk::<4>()?;
        let end = body
            .len()
            .checked_sub(u32::from_le_bytes(*length) as usize)?;
        let Trailer {
            is_schema_adapter,
            description,
        } = serde_json::from_slice(&body[end..]).ok()?;
        let world = match is_schema_adapter {
            true => World::SchemaAdapter,
            false => World::ProviderPack,
        };
        // The trailer is cut off, so that megabytes need not be moved.
        bytes.truncate(end);
        Some(Entry {
            world,
            description,
            code: bytes,
        })
    }

    /// Puts machine code there, replacing what is in its place.
    pub(crate) fn keep(&self, engine: &Engine, digest: &str, entry: Entry) -> io::Result<()> {
        let name = entry_name(engine, digest);
        let Entry {
            world,
            description,
            code: mut body,
        } = entry;
        let trailer = serde_json::to_vec(&Trailer {
            is_schema_adapter: world == World::SchemaAdapter,
            description,
        })?;
        let length = u32::try_from(trailer.len()).map_err(io::Error::other)?;
        body.extend_from_slice(&trailer);
        body.extend_from_slice(&length.to_le_bytes());
        let tag = self.mac(&name, &body).finalize().into_bytes();
        let draft = draft(&self.directory, &[&body, &tag])?;
        let moved = self.directory.rename(&draft, &self.directory, &name);
        if moved.is_err() {
            let _ = self.directory.remove_file(&draft);
        }
        moved.and_then(|()| self.make_room())
    }

    fn mac(&self, name: &str, body: &[u8]) -> Hmac<Sha256> {
        // HMAC fills a key up to a block with zeros; a whole block cannot have a wrong length.
        let mut block = [0; 64];
        block[..MAC].copy_from_slice(&self.key);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        // The name says which component the code was made from, so that entries cannot be swapped.
        mac.update(name.as_bytes());
        mac.update(&[0]);
        mac.update(body);
        mac
    }

    /// Removes the oldest entries beyond the capacity, and drafts that nobody finished.
    fn make_room(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in self.directory.entries()? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.ends_with(SUFFIX) {
                let metadata = entry.metadata()?;
                entries.push((metadata.mtime(), metadata.len(), name));
            } else if name.starts_with(DRAFT) && is_abandoned(&entry) {
                // Another process may have been quicker.
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

fn is_abandoned(draft: &DirEntry) -> bool {
    let modified = draft.metadata().and_then(|metadata| metadata.modified());
    let age = modified.map(|at| SystemTime::now().duration_since(at.into_std()));
    matches!(age, Ok(Ok(age)) if age > ABANDONED)
}

/// The file name of a component's machine code for this engine.
fn entry_name(engine: &Engine, digest: &str) -> String {
    let mut hasher = Fingerprint(Sha256::new());
    RULES.hash(&mut hasher);
    // Covers wasmtime's version, the target and every setting that machine code depends on.
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let engine = HEXLOWER.encode(&hasher.0.finalize()[..16]);
    format!("{}-{engine}{SUFFIX}", digest.trim_start_matches("sha256:"))
}

/// Lets `Hash` write into a digest that is the same in every process.
struct Fingerprint(Sha256);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        // Nobody asks: the whole digest is taken instead.
        0
    }
}

/// Reads the key, or makes one.
///
/// A new key is written whole before it gets its name, so that two processes that start together
/// agree on the first one and never read half of it.
fn key(directory: &Dir) -> io::Result<[u8; MAC]> {
    if let Some(key) = read_key(directory)? {
        return Ok(key);
    }
    let mut key = [0; MAC];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let draft = draft(directory, &[&key])?;
    let linked = directory.hard_link(&draft, directory, KEY_FILE);
    directory.remove_file(&draft)?;
    match linked {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            read_key(directory)?.ok_or_else(|| io::ErrorKind::NotFound.into())
        }
        Err(error) => Err(error),
    }
}

fn read_key(directory: &Dir) -> io::Result<Option<[u8; MAC]>> {
    let mut file = match directory.open(KEY_FILE) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let me = rustix::process::geteuid().as_raw();
    if let Some(problem) = distrust(metadata.uid(), metadata.mode(), 0o077, me) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let mut key = [0; MAC];
    file.read_exact(&mut key)?;
    Ok(Some(key))
}

/// Why something that `owner` has and that carries `mode` is not ours alone: a privileged process
/// can open what anybody made.
fn distrust(owner: u32, mode: u32, forbidden: u32, me: u32) -> Option<String> {
    if owner != me {
        return Some(format!("belongs to user {owner}"));
    }
    let mode = mode & 0o777;
    (mode & forbidden != 0).then(|| format!("is open to others (mode {mode:o})"))
}

/// Writes a new file that only we can read, under a name that nobody has.
fn draft(directory: &Dir, parts: &[&[u8]]) -> io::Result<String> {
    let mut random = [0; 12];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let name = format!("{DRAFT}{}", HEXLOWER.encode(&random));
    let mut file = directory.open_with(
        &name,
        OpenOptions::new().write(true).create_new(true).mode(0o600),
    )?;
    let written = parts.iter().try_for_each(|part| file.write_all(part));
    if written.is_err() {
        let _ = directory.remove_file(&name);
    }
    written.map(|()| name)
}

fn private_directory() -> DirBuilder {
    use cap_std::fs::DirBuilderExt as _;
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_own_or_can_change_is_distrusted() {
        assert_eq!(distrust(7, 0o40700, 0o022, 7), None);
        assert_eq!(distrust(7, 0o40755, 0o022, 7), None);
        assert_eq!(
            distrust(7, 0o40770, 0o022, 7).unwrap(),
            "is open to others (mode 770)"
        );
        assert_eq!(distrust(7, 0o40700, 0o022, 0).unwrap(), "belongs to user 7");
    }

    #[test]
    fn drafts_that_nobody_finished_are_removed_and_young_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("code");
        let cache = CompileCache::open(&path).unwrap();
        let old = draft(&cache.directory, &[b"half"]).unwrap();
        let young = draft(&cache.directory, &[b"half"]).unwrap();
        let two_hours_ago = SystemTime::now() - 2 * ABANDONED;
        let file = std::fs::File::options().write(true).open(path.join(&old));
        file.unwrap().set_modified(two_hours_ago).unwrap();
        cache.make_room().unwrap();
        assert!(!path.join(old).exists());
        assert!(path.join(young).exists());
    }
}
