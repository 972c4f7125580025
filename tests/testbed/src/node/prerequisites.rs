//! What a node needs from this machine.

use std::process::Command;

use super::{config, images, libraries};

/// The programs of the system, each with its Debian package.
const PROGRAMS: [(&str, &str); 9] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
];

/// Why no node can run here, in one sentence with the fix. `None` if one can.
pub fn unavailable() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a real node needs root; run this as root".to_owned());
    }
    for (program, package) in PROGRAMS {
        if libraries::find_program(program).is_none() {
            return Some(format!(
                "a real node needs {program}, which was not found; install the package {package}"
            ));
        }
    }
    if config::cni_folder().is_none() {
        let fix = "install the package containernetworking-plugins";
        return Some(format!(
            "a real node needs the CNI plugins, which were not found; {fix}"
        ));
    }
    if let Err(error) = images::busybox() {
        return Some(format!("a real node needs a static busybox: {error}"));
    }
    namespaces_problem()
}

/// Containers often forbid new namespaces, also to root.
fn namespaces_problem() -> Option<String> {
    let unshare = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--mount-proc"])
        .args(["mount", "-t", "tmpfs", "tmpfs", "/run"])
        .output();
    match unshare {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "a real node needs namespaces, which this machine refuses ({}); run this outside of a container",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Some(format!("a real node needs unshare, which failed: {error}")),
    }
}
