//! The users of the API server: a client certificate and a kubeconfig file for each.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use crate::certificates::CertificateAuthority;

/// The built-in group with every permission.
const MASTERS: &str = "system:masters";

/// The built-in users: name of the kubeconfig file, user name, group.
///
/// `operator` has no permissions until a test binds a role to it.
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

/// The users of the control plane itself, whose requests are not audited.
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
    let authority = CertificateAuthority::load(folder)?;
    for (file, user, group) in BUILT_IN {
        write_kubeconfig(folder, &authority, server, file, user, group)?;
    }
    Ok(())
}

/// Writes the kubeconfig files of the programs of a real node.
pub(crate) fn create_for_node(folder: &Path, server: &str, node: &str) -> Result<()> {
    let authority = CertificateAuthority::load(folder)?;
    let kubelet = format!("system:node:{node}");
    for (file, user, group) in [
        ("kubelet", kubelet.as_str(), Some("system:nodes")),
        ("kube-proxy", "system:kube-proxy", None),
    ] {
        write_kubeconfig(folder, &authority, server, file, user, group)?;
    }
    Ok(())
}

/// The kubeconfig file of an existing user.
pub(crate) fn kubeconfig(folder: &Path, user: &str) -> Result<PathBuf> {
    let file = kubeconfig_path(folder, user);
    anyhow::ensure!(
        file.is_file(),
        "user \"{user}\" not found in the testbed; add it with Testbed::add_user"
    );
    Ok(file)
}

/// Creates a user, unless it exists, and returns its kubeconfig file. An existing user keeps its
/// group.
pub(crate) fn add(folder: &Path, server: &str, user: &str, group: Option<&str>) -> Result<PathBuf> {
    let file = kubeconfig_path(folder, user);
    if !file.is_file() {
        write_kubeconfig(
            folder,
            &CertificateAuthority::load(folder)?,
            server,
            user,
            user,
            group,
        )?;
    }
    Ok(file)
}

fn kubeconfig_path(folder: &Path, user: &str) -> PathBuf {
    folder.join(format!("{user}.kubeconfig"))
}

fn write_kubeconfig(
    folder: &Path,
    authority: &CertificateAuthority,
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
    // Write and rename, because another test process may be reading the file.
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(serde_json::to_string_pretty(&config)?.as_bytes())?;
    let path = kubeconfig_path(folder, file);
    temporary
        .persist(&path)
        .with_context(|| format!("failed to write {}", path.display()))?;
    Ok(())
}
