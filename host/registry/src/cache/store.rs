//! Blobs on disk, inside one folder that this module cannot leave.
//!
//! A blob is written under its digest, complete and checked, by rename; it is hashed again whenever it
//! is read, and thrown away when it is not what its name says. Files taken out of layers are kept the
//! same way, with their own digest in front, since their name says where they came from.
//!
//! Everything belongs to a scope. What was read from one repository is not given out under the name of
//! another: whoever knows a digest could otherwise claim, from a registry of their own, to hold it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;

use crate::digest::Digest;

/// A bounded store of bytes. Without a folder it remembers nothing.
#[derive(Clone)]
pub(crate) struct Store {
    dir: Option<Arc<Dir>>,
    capacity: u64,
}

/// The three folders inside the cache folder.
const BLOBS: &str = "blobs";
const FILES: &str = "files";
const PARTS: &str = "parts";

/// A file is written within moments; what is older was left by an interrupted run. What is younger may
/// be another process at work in the same folder.
const PART_AGE: Duration = Duration::from_secs(3600);

impl Store {
    /// Prepares the folder and removes what an interrupted run left behind.
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

    /// A blob by digest, hashed again.
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

    /// Keeps a blob that was checked against its digest.
    pub(crate) async fn keep_blob(&self, scope: &str, digest: &Digest, bytes: &[u8]) {
        self.keep(blob_name(scope, digest), bytes.to_vec()).await;
    }

    /// A file out of a layer.
    pub(crate) async fn file(&self, scope: &str, layer: &Digest, path: &str) -> Option<Vec<u8>> {
        let name = file_name(scope, layer, path);
        self.run(move |dir| {
            let mut bytes = read(dir, &name)?;
            let right =
                bytes.len() >= 64 && Digest::of(&bytes[64..]).hex().as_bytes() == &bytes[..64];
            if !right {
                discard(dir, &name);
                return None;
            }
            Some(bytes.split_off(64))
        })
        .await
    }

    /// Keeps a file out of a layer that was checked against its digest.
    pub(crate) async fn keep_file(&self, scope: &str, layer: &Digest, path: &str, bytes: &[u8]) {
        let mut content = Digest::of(bytes).hex().as_bytes().to_vec();
        content.extend_from_slice(bytes);
        self.keep(file_name(scope, layer, path), content).await;
    }

    /// Writing is best effort: a full disk costs a fetch, not a reconciliation.
    async fn keep(&self, path: String, bytes: Vec<u8>) {
        let capacity = self.capacity;
        let kept = self
            .run(move |dir| Some(write(dir, &path, &bytes, capacity)))
            .await;
        if let Some(Err(error)) = kept {
            tracing::warn!(%error, "the registry cache could not be written");
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Dir) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let dir = Arc::clone(self.dir.as_ref()?);
        tokio::task::spawn_blocking(move || work(&dir))
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
    tracing::warn!(path, "a damaged file was removed from the registry cache");
    // Gone already is as good as removed.
    let _ = dir.remove_file(path);
}

fn write(dir: &Dir, path: &str, bytes: &[u8], capacity: u64) -> std::io::Result<()> {
    make_room(dir, bytes.len() as u64, capacity)?;
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

/// Removes the oldest files until `incoming` bytes fit.
fn make_room(dir: &Dir, incoming: u64, capacity: u64) -> std::io::Result<()> {
    let mut files = Vec::new();
    for folder in [BLOBS, FILES] {
        for entry in dir.read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            files.push((metadata.modified()?, metadata.len(), path));
        }
    }
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

/// Removes a file; another process may have been faster.
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

    fn store(capacity: u64) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, Store::open(Some(Arc::new(dir)), capacity).unwrap())
    }

    #[tokio::test]
    async fn what_was_kept_is_found_and_a_damaged_copy_is_not_believed() {
        let (folder, store) = store(1000);
        let (digest, layer) = (Digest::of(b"blob"), Digest::of(b"layer"));
        store.keep_blob("r/a", &digest, b"blob").await;
        store
            .keep_file("r/a", &layer, "etc/run.yaml", b"file")
            .await;
        assert_eq!(
            store.blob("r/a", &digest).await.as_deref(),
            Some(&b"blob"[..])
        );
        assert_eq!(
            store.file("r/a", &layer, "etc/run.yaml").await.as_deref(),
            Some(&b"file"[..])
        );
        assert_eq!(store.file("r/a", &layer, "etc/other").await, None);

        // Under another repository's name it is not there.
        assert_eq!(store.blob("r/b", &digest).await, None);
        assert_eq!(store.file("r/b", &layer, "etc/run.yaml").await, None);

        for kind in [BLOBS, FILES] {
            for entry in std::fs::read_dir(folder.path().join(kind)).unwrap() {
                let path = entry.unwrap().path();
                let mut bytes = std::fs::read(&path).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
        }
        assert_eq!(store.blob("r/a", &digest).await, None);
        assert_eq!(store.file("r/a", &layer, "etc/run.yaml").await, None);
        assert_eq!(
            std::fs::read_dir(folder.path().join(BLOBS))
                .unwrap()
                .count(),
            0
        );
    }

    #[tokio::test]
    async fn the_folder_stays_within_its_size() {
        let (folder, store) = store(250);
        for n in 0..10u8 {
            let bytes = [n; 100];
            store.keep_blob("r/a", &Digest::of(&bytes), &bytes).await;
        }
        let blobs = std::fs::read_dir(folder.path().join(BLOBS)).unwrap();
        assert_eq!(blobs.count(), 2);
        let newest = [9u8; 100];
        assert!(store.blob("r/a", &Digest::of(&newest)).await.is_some());
    }

    #[tokio::test]
    async fn leftovers_of_an_interrupted_write_are_cleared_at_start() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(PARTS)).unwrap();
        let half = std::fs::File::create(folder.path().join(PARTS).join("half")).unwrap();
        half.set_modified(SystemTime::now() - 2 * PART_AGE).unwrap();
        std::fs::write(folder.path().join(PARTS).join("growing"), b"x").unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        Store::open(Some(Arc::new(dir)), 100).unwrap();
        let left = std::fs::read_dir(folder.path().join(PARTS)).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(
            left,
            ["growing"],
            "what another process may be writing stays"
        );
    }
}
