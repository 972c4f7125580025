//! What a node could leave behind on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

/// Folders in which the programs of a node leave files by default.
const PATHS: [&str; 9] = [
    "/etc/cni",
    "/run/containerd",
    "/run/netns",
    "/run/cni",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
    "/usr/libexec/kubernetes",
];

/// Settings of the kernel that a kubelet, kube-proxy or the CNI plugins change.
const SETTINGS: [&str; 7] = [
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
];

/// Mounts, links, routes, rules, control groups, settings and files of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint(BTreeSet<String>);

impl Footprint {
    /// Takes stock of this machine.
    pub fn measure() -> Result<Self> {
        let mut found = BTreeSet::new();
        let mut add = |kind: &str, line: &str| {
            found.insert(format!("{kind}: {line}"));
        };
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        mounts.lines().for_each(|line| add("mount", line));
        for line in output("ip", &["-oneline", "link", "show"])?.lines() {
            let name = line.split(": ").nth(1).unwrap_or(line);
            add("link", name);
        }
        for line in output("ip", &["route", "show", "table", "all"])?.lines() {
            add("route", line);
        }
        for program in ["iptables-save", "ip6tables-save"] {
            for line in output(program, &[])?.lines() {
                // Lines that start otherwise hold the time and counters.
                if line.starts_with("-A") {
                    add("rule", line);
                }
            }
        }
        for hierarchy in fs::read_dir("/sys/fs/cgroup")?.flatten() {
            let groups = fs::read_dir(hierarchy.path())
                .into_iter()
                .flatten()
                .flatten();
            for group in groups.filter(|group| group.path().is_dir()) {
                add("control group", &group.path().display().to_string());
            }
        }
        for name in SETTINGS {
            let value = fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
            add("setting", &format!("{name} = {}", value.trim()));
        }
        for path in PATHS {
            if Path::new(path).exists() {
                add("folder", path);
            }
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                add("file", &entry.path().display().to_string());
            }
        }
        Ok(Self(found))
    }

    /// What is in this footprint and not in the other one. `name` is the name of the node: other checkouts
    /// may start and stop nodes with other names at the same time.
    pub fn difference<'a>(&'a self, other: &'a Self, name: &str) -> Vec<&'a String> {
        let is_of_other_node = |line: &String| line.contains("llsd-") && !line.contains(name);
        let lines = self.0.difference(&other.0);
        lines.filter(|line| !is_of_other_node(line)).collect()
    }

    /// The running processes whose command line or working folder contains `text`.
    pub fn processes(text: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for process in fs::read_dir("/proc")?.flatten() {
            let path = process.path();
            let Ok(line) = fs::read(path.join("cmdline")) else {
                continue;
            };
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let folder = fs::read_link(path.join("cwd")).unwrap_or_default();
            if line.contains(text) || folder.to_string_lossy().contains(text) {
                found.push(format!("{} {line}", process.file_name().display()));
            }
        }
        Ok(found)
    }
}

fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("failed to run {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
