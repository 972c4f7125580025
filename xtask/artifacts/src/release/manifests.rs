//! `install.yaml`: the default kustomization as one file, with the image pinned by digest.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use xtask::shell;

use crate::image::REPOSITORY;
use crate::package::output;

/// Renders the manifests with the image `name`@`digest`.
pub fn install(kubectl: &Path, name: &str, digest: &str) -> anyhow::Result<String> {
    // kustomize only reads resources by relative paths.
    let root = shell::root().join("target");
    std::fs::create_dir_all(&root)?;
    let folder = tempfile::tempdir_in(root)?;
    let kustomization = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\n\
         kind: Kustomization\n\
         resources:\n\
         - ../../deploy/kustomize/default\n\
         images:\n\
         - name: {REPOSITORY}\n  newName: {name}\n  digest: {digest}\n"
    );
    std::fs::write(folder.path().join("kustomization.yaml"), kustomization)?;
    let rendered = output(Command::new(kubectl).arg("kustomize").arg(folder.path()))?;
    let rendered = String::from_utf8(rendered)?;
    ensure!(
        rendered.contains(&format!("image: {name}@{digest}\n")),
        "the rendered manifests do not contain the image {name}@{digest}"
    );
    Ok(format!(
        "# kubectl apply --server-side -f install.yaml\n{rendered}"
    ))
}
