//! The directory of the compile cache: its permissions, its key and its temporary files.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::{
    Dir, DirBuilder, DirBuilderExt as _, DirEntry, MetadataExt as _, OpenOptions,
    OpenOptionsExt as _,
};
use data_encoding::HEXLOWER;

use super::CacheError;

/// Size of the key in bytes.
pub(super) const KEY_BYTES: usize = 32;

/// The file that contains the key.
const KEY_FILE: &str = "key";

/// Prefix of the names of temporary files.
const TEMPORARY: &str = "draft-";

/// The age at which the writer of a temporary file has certainly died.
pub(super) const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

/// Permission bits that let other users write.
const OTHERS_WRITE: u32 = 0o022;

/// Permission bits that let other users do anything.
const OTHERS_ANY: u32 = 0o077;

/// Opens the directory, or creates it with mode 0700. Fails if another user can write to it.
pub(super) fn open(path: &Path) -> Result<Dir, CacheError> {
    let failed = |source| CacheError::Directory {
        path: path.to_owned(),
        source,
    };
    let directory = open_or_create(path).map_err(failed)?;
    let metadata = directory.dir_metadata().map_err(failed)?;
    match untrusted(metadata.uid(), metadata.mode(), OTHERS_WRITE, user()) {
        Some(problem) => Err(CacheError::Untrusted {
            path: path.to_owned(),
            problem,
        }),
        None => Ok(directory),
    }
}

fn open_or_create(path: &Path) -> io::Result<Dir> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Dir::create_ambient_dir_all(parent, ambient_authority())?;
    let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
    match parent.create_dir_with(name, DirBuilder::new().mode(0o700)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => parent.open_dir(name),
    }
}

/// Reads the key, or creates one.
///
/// A new key is written completely before it is linked to its name. Two processes that start at the
/// same time agree on the first one, and neither reads a partial key.
pub(super) fn key(directory: &Dir) -> io::Result<[u8; KEY_BYTES]> {
    if let Some(key) = read_key(directory)? {
        return Ok(key);
    }
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let temporary = write_temporary(directory, &[&key])?;
    let linked = directory.hard_link(&temporary, directory, KEY_FILE);
    directory.remove_file(&temporary)?;
    match linked {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            read_key(directory)?.ok_or_else(|| io::ErrorKind::NotFound.into())
        }
        Err(error) => Err(error),
    }
}

fn read_key(directory: &Dir) -> io::Result<Option<[u8; KEY_BYTES]>> {
    let mut file = match directory.open(KEY_FILE) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if let Some(problem) = untrusted(metadata.uid(), metadata.mode(), OTHERS_ANY, user()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key)?;
    Ok(Some(key))
}

/// Writes a file with a random name that only this user can read, and returns the name.
pub(super) fn write_temporary(directory: &Dir, parts: &[&[u8]]) -> io::Result<String> {
    let mut random = [0; 12];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let name = format!("{TEMPORARY}{}", HEXLOWER.encode(&random));
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

/// Whether a file is a temporary file whose writer has died.
pub(super) fn is_abandoned(name: &str, file: &DirEntry) -> bool {
    if !name.starts_with(TEMPORARY) {
        return false;
    }
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    let age = modified.map(|at| SystemTime::now().duration_since(at.into_std()));
    matches!(age, Ok(Ok(age)) if age > ABANDONED_AFTER)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Why a file cannot be trusted: another user owns it, or its mode has forbidden bits. The check is
/// needed because a privileged process can open files of any user.
fn untrusted(owner: u32, mode: u32, forbidden: u32, user: u32) -> Option<String> {
    if owner != user {
        return Some(format!("belongs to user {owner}"));
    }
    let mode = mode & 0o777;
    (mode & forbidden != 0).then(|| format!("is accessible to other users (mode {mode:o})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_others_own_or_can_modify_are_not_trusted() {
        assert_eq!(untrusted(7, 0o40700, OTHERS_WRITE, 7), None);
        assert_eq!(untrusted(7, 0o40755, OTHERS_WRITE, 7), None);
        assert_eq!(
            untrusted(7, 0o40770, OTHERS_WRITE, 7).unwrap(),
            "is accessible to other users (mode 770)"
        );
        assert_eq!(
            untrusted(7, 0o40700, OTHERS_WRITE, 0).unwrap(),
            "belongs to user 7"
        );
    }
}
