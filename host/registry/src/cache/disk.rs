//! A bounded cache on disk for manifests, blobs and files of layers.
//!
//! All access goes through one directory handle (`cap_std`), so no path can leave the directory.
//! A verified blob is written to a temporary file and renamed to its digest. It is hashed again on
//! every read and deleted if it does not match. A file of a layer is stored under its layer and path,
//! with its own digest as a prefix of the content.
//!
//! Every entry belongs to a scope, normally a repository, and is found in that scope only. Otherwise
//! a tenant who knows a digest could read it from the cache through a registry of their own.

use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use cap_std::time::SystemTime;

use crate::digest::Digest;

/// The cache. Without a directory it stores nothing.
#[derive(Clone)]
pub(crate) struct DiskCache {
    dir: Option<Arc<Dir>>,
    capacity: u64,
}

/// The directories inside the cache directory.
const BLOBS: &str = "blobs";
const FILES: &str = "files";
const PARTS: &str = "parts";

/// The age at which a temporary file is deleted. A file is written within moments: an older one
/// belongs to an interrupted run, a younger one may belong to another process.
const PART_AGE: Duration = Duration::from_secs(3600);

impl DiskCache {
    /// Creates the directories and deletes temporary files of interrupted runs.
    pub(crate) fn open(dir: Option<Arc<Dir>>, capacity: u64) -> std::io::Result<Self> {
        if let Some(dir) = &dir {
            for name in [BLOBS, FILES, PARTS] {
                dir.create_dir_all(name)?;
            }
            for entry in dir.read_dir(PARTS)? {
                let entry = entry?;
                let age = entry
                    .metadata()?
                    .modified()?
                    .into_std()
                    .elapsed()
                    .unwrap_or_default();
                if age > PART_AGE {
                    remove(
                        dir,
                        &format!("{PARTS}/{}", entry.file_name().to_string_lossy()),
                    )?;
                }
            }
        }
        Ok(Self { dir, capacity })
    }

    /// The bytes of all entries; 0 if they cannot be counted.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.dir.as_ref().and_then(|dir| files(dir).ok());
        let sizes = files.iter().flatten().map(|(_, size, _)| size);
        sizes.sum()
    }

    /// Reads a blob and verifies its digest.
    pub(crate) async fn blob(&self, scope: &str, digest: &Digest) -> Option<Vec<u8>> {
        let path = blob_name(scope, digest);
        let digest = digest.clone();
        self.run(move |dir| {
            let bytes = read(dir, &path)?;
            if Digest::of(&bytes) == digest {
                return Some(bytes);
            }
            discard(dir, &path);
            None
        })
        .await
    }

    /// Stores a blob whose digest was verified.
    pub(crate) async fn put_blob(&self, scope: &str, digest: &Digest, bytes: &[u8]) {
        self.put(blob_name(scope, digest), bytes.to_vec()).await;
    }

    /// Reads a file of a layer and verifies its digest.
    pub(crate) async fn file(&self, scope: &str, layer: &Digest, path: &str) -> Option<Vec<u8>> {
        let name = file_name(scope, layer, path);
        self.run(move |dir| {
            let mut bytes = read(dir, &name)?;
            let is_valid =
                bytes.len() >= 64 && Digest::of(&bytes[64..]).hex().as_bytes() == &bytes[..64];
            if !is_valid {
                discard(dir, &name);
                return None;
            }
            Some(bytes.split_off(64))
        })
        .await
    }

    /// Stores a file of a layer whose digest was verified.
    pub(crate) async fn put_file(&self, scope: &str, layer: &Digest, path: &str, bytes: &[u8]) {
        let mut content = Digest::of(bytes).hex().as_bytes().to_vec();
        content.extend_from_slice(bytes);
        self.put(file_name(scope, layer, path), content).await;
    }

    /// Writes an entry. A failure, for example a full disk, is only logged: the next read fetches.
    async fn put(&self, path: String, bytes: Vec<u8>) {
        let capacity = self.capacity;
        let written = self
            .run(move |dir| Some(write(dir, &path, &bytes, capacity)))
            .await;
        if let Some(Err(error)) = written {
            tracing::warn!(%error, "failed to write to the registry cache");
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Dir) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let dir = Arc::clone(self.dir.as_ref()?);
        llsd_blocking::FILES
            .run(move || work(&dir))
            .await
            .ok()
            .flatten()
    }
}

fn blob_name(scope: &str, digest: &Digest) -> String {
    let scope = Digest::of(scope.as_bytes());
    format!("{BLOBS}/{}-{}", &scope.hex()[..16], digest.hex())
}

fn file_name(scope: &str, layer: &Digest, path: &str) -> String {
    let name = Digest::of(format!("{scope}\n{layer}\n{path}").as_bytes());
    format!("{FILES}/{}", name.hex())
}

fn read(dir: &Dir, path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    dir.open(path).ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn discard(dir: &Dir, path: &str) {
    tracing::warn!(path, "deleted a damaged file from the registry cache");
    // The next read ignores the file too, so a failure to delete it does no harm.
    let _ = dir.remove_file(path);
}

fn write(dir: &Dir, path: &str, bytes: &[u8], capacity: u64) -> std::io::Result<()> {
    evict(dir, bytes.len() as u64, capacity)?;
    let part = format!("{PARTS}/{:016x}", fastrand::u64(..));
    let written = (|| {
        let mut file = dir.create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        dir.rename(&part, dir, path)
    })();
    if written.is_err() {
        let _ = dir.remove_file(&part);
    }
    written
}

/// Deletes the oldest files until `incoming` bytes fit.
fn evict(dir: &Dir, incoming: u64, capacity: u64) -> std::io::Result<()> {
    let mut files = files(dir)?;
    let mut total: u64 = files.iter().map(|(_, size, _)| size).sum::<u64>() + incoming;
    files.sort();
    for (_, size, path) in files {
        if total <= capacity {
            break;
        }
        remove(dir, &path)?;
        total -= size;
    }
    Ok(())
}

/// The time of the last change, the size and the path of each file.
fn files(dir: &Dir) -> std::io::Result<Vec<(SystemTime, u64, String)>> {
    let mut files = Vec::new();
    for directory in [BLOBS, FILES] {
        for entry in dir.read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
            files.push((metadata.modified()?, metadata.len(), path));
        }
    }
    Ok(files)
}

/// Deletes a file. Another process may have deleted it already.
fn remove(dir: &Dir, path: &str) -> std::io::Result<()> {
    match dir.remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use cap_std::ambient_authority;

    use super::*;

    fn store(capacity: u64) -> (tempfile::TempDir, DiskCache) {
        let directory = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(directory.path(), ambient_authority()).unwrap();
        (
            directory,
            DiskCache::open(Some(Arc::new(dir)), capacity).unwrap(),
        )
    }

    #[tokio::test]
    async fn entries_are_found_and_damaged_ones_are_ignored() {
        let (directory, store) = store(1000);
        let (digest, layer) = (Digest::of(b"blob"), Digest::of(b"layer"));
        store.put_blob("r/a", &digest, b"blob").await;
        store.put_file("r/a", &layer, "etc/run.yaml", b"file").await;
        assert_eq!(
            store.blob("r/a", &digest).await.as_deref(),
            Some(&b"blob"[..])
        );
        assert_eq!(
            store.file("r/a", &layer, "etc/run.yaml").await.as_deref(),
            Some(&b"file"[..])
        );
        assert_eq!(store.file("r/a", &layer, "etc/other").await, None);

        // Another repository does not find it.
        assert_eq!(store.blob("r/b", &digest).await, None);
        assert_eq!(store.file("r/b", &layer, "etc/run.yaml").await, None);

        for kind in [BLOBS, FILES] {
            for entry in std::fs::read_dir(directory.path().join(kind)).unwrap() {
                let path = entry.unwrap().path();
                let mut bytes = std::fs::read(&path).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
        }
        assert_eq!(store.blob("r/a", &digest).await, None);
        assert_eq!(store.file("r/a", &layer, "etc/run.yaml").await, None);
        assert_eq!(
            std::fs::read_dir(directory.path().join(BLOBS))
                .unwrap()
                .count(),
            0
        );
    }

    #[tokio::test]
    async fn the_directory_stays_within_its_capacity() {
        let (directory, store) = store(250);
        for n in 0..10u8 {
            let bytes = [n; 100];
            store.put_blob("r/a", &Digest::of(&bytes), &bytes).await;
        }
        let blobs = std::fs::read_dir(directory.path().join(BLOBS)).unwrap();
        assert_eq!(blobs.count(), 2);
        let newest = [9u8; 100];
        assert!(store.blob("r/a", &Digest::of(&newest)).await.is_some());
    }

    #[tokio::test]
    async fn temporary_files_of_interrupted_writes_are_deleted_at_start() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(PARTS)).unwrap();
        let half = std::fs::File::create(directory.path().join(PARTS).join("half")).unwrap();
        half.set_modified(SystemTime::now() - 2 * PART_AGE).unwrap();
        std::fs::write(directory.path().join(PARTS).join("growing"), b"x").unwrap();
        let dir = Dir::open_ambient_dir(directory.path(), ambient_authority()).unwrap();
        DiskCache::open(Some(Arc::new(dir)), 100).unwrap();
        let left = std::fs::read_dir(directory.path().join(PARTS)).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(
            left,
            ["growing"],
            "a file that another process may be writing stays"
        );
    }
}
