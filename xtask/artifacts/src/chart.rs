//! Copies manifests from `deploy/kustomize` to the chart in `deploy/helm`.
//!
//! A chart can only contain files of its own directory. Manifests that do not depend on the chart's
//! values are therefore copied by `cargo xtask generate`; the others are templates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use xtask::shell;

const SOURCE: &str = "deploy/kustomize";
const CHART: &str = "deploy/helm/llsd/files";

/// Path in [`SOURCE`], path in [`CHART`].
const COPIES: [(&str, &str); 18] = [
    (
        "crd/llamastack.io_llamastackdistributions.yaml",
        "crd/llamastackdistributions.yaml",
    ),
    (
        "crd/llamastack.io_schemaplugins.yaml",
        "crd/schemaplugins.yaml",
    ),
    ("base/conversion.yaml", "conversion.yaml"),
    ("policy/policy.yaml", "policy/policy.yaml"),
    ("policy/binding.yaml", "policy/binding.yaml"),
    ("policy/definitions.yaml", "policy/definitions.yaml"),
    (
        "webhook/validatingwebhookconfiguration.yaml",
        "webhook.yaml",
    ),
    (
        "operator/poddisruptionbudget.yaml",
        "operator/poddisruptionbudget.yaml",
    ),
    ("operator/services.yaml", "operator/services.yaml"),
    ("rbac/cluster.yaml", "rbac/cluster.yaml"),
    ("rbac/resources.yaml", "rbac/resources.yaml"),
    ("rbac/own-namespace.yaml", "rbac/own-namespace.yaml"),
    ("rbac/users.yaml", "rbac/users.yaml"),
    (
        "overlays/cert-manager/certificate.yaml",
        "cert-manager/certificate.yaml",
    ),
    ("overlays/openshift/role.yaml", "openshift/role.yaml"),
    (
        "monitoring/servicemonitor.yaml",
        "monitoring/servicemonitor.yaml",
    ),
    ("monitoring/alerts.yaml", "monitoring/alerts.yaml"),
    ("monitoring/dashboard.yaml", "monitoring/dashboard.yaml"),
];

/// Path in the checkout and content of each copy. A source in `generated` is read from there, because
/// the file may be out of date.
pub fn copies(generated: &BTreeMap<PathBuf, String>) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let copy = |(source, destination): (&str, &str)| {
        let source = Path::new(SOURCE).join(source);
        let content = match generated.get(&source) {
            Some(content) => content.clone(),
            None => std::fs::read_to_string(shell::root().join(&source))
                .with_context(|| format!("failed to read {}", source.display()))?,
        };
        Ok((Path::new(CHART).join(destination), content))
    };
    COPIES.into_iter().map(copy).collect()
}
