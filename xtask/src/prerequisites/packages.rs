//! Installs packages of the distribution that a real node and a real browser need.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Missing;

/// A Debian package, with a file by which it is found. A name without a slash is searched on PATH.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    name: &'static str,
    files: &'static [&'static str],
}

/// What a real node needs besides its own programs.
pub const NODE: &[Package] = &[
    package("containerd", &["containerd"]),
    package("runc", &["runc"]),
    package(
        "containernetworking-plugins",
        &[
            "/usr/lib/cni/ptp",
            "/opt/cni/bin/ptp",
            "/usr/libexec/cni/ptp",
        ],
    ),
    package("iptables", &["iptables"]),
    package("iproute2", &["ip"]),
    package("busybox-static", &["busybox"]),
];

/// What all tests need: a real node, and a browser for the page of `llsd explore`.
pub const TESTS: &[Package] = &[
    NODE[0],
    NODE[1],
    NODE[2],
    NODE[3],
    NODE[4],
    NODE[5],
    package("chromium", &["chromium"]),
    package("chromium-driver", &[CHROMEDRIVER]),
];

/// The program that controls the browser.
pub const CHROMEDRIVER: &str = "chromedriver";

const fn package(name: &'static str, files: &'static [&'static str]) -> Package {
    Package { name, files }
}

impl Package {
    fn is_installed(&self) -> bool {
        self.files.iter().any(|file| {
            if file.contains('/') {
                return Path::new(file).is_file();
            }
            find_program(file).is_some()
        })
    }
}

/// The path of a program on PATH, or in the folders of the system's own programs.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(Into::into);
    let folders = std::env::split_paths(&path).chain(system);
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Installs the missing ones of `packages` with apt-get as root. Returns what is missing afterwards.
pub(super) fn install(packages: &[Package]) -> Option<Missing> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|package| !package.is_installed())
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return None;
    }
    let names = missing.join(" ");
    let fix =
        format!("install these packages (Debian: `apt-get install {names}`), or run this as root");
    if !rustix::process::geteuid().is_root() {
        return Some(Missing::new(format!("packages are missing: {names}"), fix));
    }
    eprintln!("==> installing {names} with apt-get");
    // The second attempt is for a machine whose package lists are old or absent.
    let mut failure = apt_get(&["install"], &missing);
    if failure.is_some() {
        failure = apt_get(&["update"], &[]).or_else(|| apt_get(&["install"], &missing));
    }
    failure.map(|reason| {
        let what = format!("apt-get failed to install {names}:\n    {reason}");
        Missing::new(what, fix)
    })
}

/// Runs apt-get, and returns its messages if it fails.
fn apt_get(task: &[&str], packages: &[&str]) -> Option<String> {
    let output = Command::new("apt-get")
        .args(task)
        .args(["--yes", "--quiet", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let messages = String::from_utf8_lossy(&output.stderr);
            Some(messages.trim().replace('\n', "\n    "))
        }
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_any_of_its_files() {
        assert!(package("sh", &["/no/such/file", "/bin/sh"]).is_installed());
        assert!(package("sh", &["sh"]).is_installed());
        assert!(!package("none", &["no-such-program"]).is_installed());
        assert_eq!(install(&[package("sh", &["sh"])]), None);
    }
}
