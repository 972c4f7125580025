//! Who talks to the API server: a client certificate and a kubeconfig file for each user.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use crate::certificates::Authority;

/// The group that may do everything, by the API server's own rule.
const MASTERS: &str = "system:masters";

/// Users that every control plane has: name of the kubeconfig, user name, group.
///
/// `operator` may do nothing until a test binds a role to it.
const BUILT_IN: [(&str, &str, Option<&str>); 5] = [
    ("admin", "admin", Some(MASTERS)),
    ("operator", "operator", None),
    (
        CONTROLLER_MANAGER,
        "system:kube-controller-manager",
        Some(MASTERS),
    ),
    (SCHEDULER, "system:kube-scheduler", None),
    (KWOK, "kwok", Some(MASTERS)),
];

pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";
pub(crate) const KWOK: &str = "kwok";

/// The users whose requests are the control plane's own and not worth an audit line.
pub(crate) fn components() -> [&'static str; 4] {
    [
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "kwok",
        "system:apiserver",
    ]
}

/// Writes the kubeconfig files of the built-in users.
pub(crate) fn create_built_in(folder: &Path, server: &str) -> Result<()> {
    let authority = Authority::load(folder)?;
    for (file, user, group) in BUILT_IN {
        write_kubeconfig(folder, &authority, server, file, user, group)?;
    }
    Ok(())
}

/// The kubeconfig of a user who must exist.
pub(crate) fn kubeconfig(folder: &Path, user: &str) -> Result<PathBuf> {
    let file = kubeconfig_path(folder, user);
    anyhow::ensure!(
        file.is_file(),
        "the testbed has no user \"{user}\"; add it with Testbed::add_user"
    );
    Ok(file)
}

/// The kubeconfig of a user, who is made if new. The group of an existing user stays as it was.
pub(crate) fn add(folder: &Path, server: &str, user: &str, group: Option<&str>) -> Result<PathBuf> {
    let file = kubeconfig_path(folder, user);
    if !file.is_file() {
        write_kubeconfig(folder, &Authority::load(folder)?, server, user, user, group)?;
    }
    Ok(file)
}

fn kubeconfig_path(folder: &Path, user: &str) -> PathBuf {
    folder.join(format!("{user}.kubeconfig"))
}

fn write_kubeconfig(
    folder: &Path,
    authority: &Authority,
    server: &str,
    file: &str,
    user: &str,
    group: Option<&str>,
) -> Result<()> {
    let identity = authority.client(user, group)?;
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64.encode(authority.certificate()),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": BASE64.encode(&identity.certificate),
            "client-key-data": BASE64.encode(&identity.key),
        }}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    });
    // Renamed into place, because another test process may be reading.
    let mut unfinished = tempfile::NamedTempFile::new_in(folder)?;
    unfinished.write_all(serde_json::to_string_pretty(&config)?.as_bytes())?;
    let path = kubeconfig_path(folder, file);
    unfinished
        .persist(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}
