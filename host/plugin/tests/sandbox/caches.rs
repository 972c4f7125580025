//! The compile cache: hits, misses, and entries that it must not trust.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use llsd_plugin::{CacheError, CompileCache, Compiler, Host, HostConfig, Origin, Plugin};
use llsd_render::digest;

use crate::guests::{Guest, expand};

fn host(cache: CompileCache) -> Host {
    Host::new(HostConfig {
        compile_cache: Some(cache),
        compiler: Compiler::Program("/nowhere".into()),
        ..HostConfig::default()
    })
    .unwrap()
}

fn load(directory: &Path) -> Plugin {
    host(CompileCache::open(directory).unwrap())
        .load(&Guest::default().build(), Origin::BuiltIn)
        .unwrap()
}

/// Loads with a compiler that does not exist, so that only the cache can succeed.
fn load_from_cache_only(directory: &Path) -> bool {
    host(CompileCache::open(directory).unwrap())
        .load(&Guest::default().build(), Origin::External)
        .is_ok()
}

fn entry(directory: &Path) -> PathBuf {
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut entries: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|e| e == "code"))
        .collect();
    assert_eq!(entries.len(), 1);
    entries.remove(0)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_component_is_compiled_once() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("deep/cache");
    assert!(!load_from_cache_only(&directory));
    let compiled = load(&directory);
    let written = std::fs::metadata(entry(&directory))
        .unwrap()
        .modified()
        .unwrap();
    assert!(load_from_cache_only(&directory));
    let cached = load(&directory);
    assert_eq!(
        std::fs::metadata(entry(&directory))
            .unwrap()
            .modified()
            .unwrap(),
        written
    );
    let (one, other) = (
        compiled.call(&expand("a")).unwrap(),
        cached.call(&expand("a")).unwrap(),
    );
    assert_eq!((one.output, one.fuel), (other.output, other.fuel));
}

#[test]
fn directory_key_and_entries_are_private_to_their_owner() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("cache");
    load(&directory);
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("key")), 0o600);
    assert_eq!(mode(&entry(&directory)), 0o600);
}

#[test]
fn a_modified_or_partial_entry_is_a_miss_and_is_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("cache");
    load(&directory);
    let path = entry(&directory);
    let good = std::fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let middle = good.len() / 2;
    for bad in [
        flipped(0),
        flipped(40),
        flipped(middle),
        good[..middle].to_vec(),
        good[..10].to_vec(),
        vec![],
    ] {
        std::fs::write(&path, &bad).unwrap();
        assert!(!load_from_cache_only(&directory));
        load(&directory);
        assert!(load_from_cache_only(&directory));
    }
}

#[test]
fn an_entry_under_another_name_is_a_miss() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("cache");
    load(&directory);
    let path = entry(&directory);
    let another = Guest {
        pages: 3,
        ..Guest::default()
    }
    .build();
    let of_this = digest::of(Guest::default().build()).replace("sha256:", "");
    let of_another = digest::of(&another).replace("sha256:", "");
    let swapped = path
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .replace(&of_this, &of_another);
    std::fs::copy(&path, directory.join(swapped)).unwrap();
    let host = host(CompileCache::open(&directory).unwrap());
    assert!(host.load(&another, Origin::External).is_err());
}

#[test]
fn entries_written_with_another_key_are_misses() {
    let scratch = tempfile::tempdir().unwrap();
    let open = |key: u8| {
        let directory = Dir::open_ambient_dir(scratch.path(), ambient_authority()).unwrap();
        host(CompileCache::new(directory, [key; 32]))
    };
    let bytes = Guest::default().build();
    open(1).load(&bytes, Origin::BuiltIn).unwrap();
    assert!(open(1).load(&bytes, Origin::External).is_ok());
    assert!(open(2).load(&bytes, Origin::External).is_err());
}

#[test]
fn a_directory_that_others_can_write_to_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = CompileCache::open(scratch.path()).unwrap_err();
    assert!(error.to_string().contains("mode 777"), "{error}");
}

#[test]
fn a_key_that_others_can_read_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("cache");
    CompileCache::open(&directory).unwrap();
    std::fs::set_permissions(
        directory.join("key"),
        std::fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    assert!(matches!(
        CompileCache::open(&directory).unwrap_err(),
        CacheError::Key(_)
    ));
}

#[test]
fn a_symbolic_link_out_of_the_directory_is_not_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("cache");
    load(&directory);
    let path = entry(&directory);
    let outside = scratch.path().join("outside");
    std::fs::rename(&path, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    assert!(!load_from_cache_only(&directory));
    let before = std::fs::read(&outside).unwrap();
    load(&directory);
    assert_eq!(std::fs::read(&outside).unwrap(), before);
}

#[test]
fn a_full_cache_evicts_its_oldest_entries() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("cache");
    CompileCache::open(&directory).unwrap();
    let old = directory.join("old.code");
    // A sparse file as large as the capacity, which takes no space on disk.
    let file = std::fs::File::create(&old).unwrap();
    file.set_len(256 << 20).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    load(&directory);
    assert!(!old.exists());
    assert!(load_from_cache_only(&directory));
}
