//! The shared libraries of a program of this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// The libraries that a program or a shared library is linked to, and the dynamic linker. Empty if it is
/// static.
pub(super) fn of_program(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("failed to run ldd")?;
    // For a static program ldd fails and prints no library.
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// The path of a library inside an image: the same as on this machine, without the leading slash.
pub(super) fn path_in_image(library: &Path) -> String {
    let path = library.to_string_lossy();
    path.trim_start_matches('/').to_owned()
}

/// A program on PATH.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // A user's PATH may lack the folders of system programs.
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(name));
    candidates.find(|candidate| candidate.is_file())
}

/// Reads lines such as `libc.so.6 => /lib/libc.so.6 (0x1)` and `/lib64/ld-linux.so.2 (0x1)`.
fn parse(output: &str) -> BTreeSet<PathBuf> {
    let path_of = |line: &str| {
        let line = line.trim();
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split_once(" (").map_or(path, |(path, _)| path);
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    output.lines().filter_map(path_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_the_output_of_ldd() {
        let output = "\tlinux-vdso.so.1 (0x7ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f1)\n\
                      \tlibmissing.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x7f2)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(parse(output), expected.map(PathBuf::from).into());
        assert_eq!(parse("\tstatically linked\n"), BTreeSet::new());
    }
}
