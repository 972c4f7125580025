//! Privileges of the pods: what lets them reach beyond their namespace, or act as another identity.
//!
//! The operator creates pods with its own permissions, so privileges need the consent of the installer.
//! A resource that another operator served before may keep those of `workload.overrides` that its pods
//! already have: taking it over gives its author nothing new.

use std::collections::BTreeSet;

use llsd_api::checked::Checked;
use llsd_api::{Diagnostic, Diagnostics, FieldPath};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Owner, SERVICE_ACCOUNT_SUFFIX};

/// The key of the operator's settings that lets the pods of a namespace have privileges.
const SETTING: &str = "podTemplate.privilegedNamespaces";

/// The privileges that `workload.overrides` can give to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Privileges {
    /// A ServiceAccount that the operator did not create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
    /// Paths of the node.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    host_paths: BTreeSet<String>,
}

impl Privileges {
    /// The privileges that a resource requests in its overrides.
    pub fn requested(checked: &Checked, owner: &Owner) -> Self {
        let volumes = checked.workload.overrides.volumes.iter().flatten();
        let paths = volumes.filter_map(|volume| Some(volume.host_path.as_ref()?.path.clone()));
        Self {
            service_account: other_account(checked, owner).map(str::to_owned),
            host_paths: paths.collect(),
        }
    }

    /// The privileges that pods of a template have.
    pub fn of_template(template: &Value) -> Self {
        let spec = &template["spec"];
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        let paths = volumes.filter_map(|volume| volume["hostPath"]["path"].as_str());
        Self {
            service_account: spec["serviceAccountName"].as_str().map(str::to_owned),
            host_paths: paths.map(str::to_owned).collect(),
        }
    }

    /// The privileges that both have.
    #[must_use]
    pub fn in_common(&self, other: &Self) -> Self {
        let account = self.service_account.clone();
        Self {
            service_account: account.filter(|_| self.service_account == other.service_account),
            host_paths: &self.host_paths & &other.host_paths,
        }
    }
}

/// The ServiceAccount of the overrides, unless it is the one that the operator creates.
fn other_account<'a>(checked: &'a Checked, owner: &Owner) -> Option<&'a str> {
    let name = checked.workload.overrides.service_account_name.as_deref()?;
    let is_own = name.strip_suffix(SERVICE_ACCOUNT_SUFFIX) == Some(owner.name.as_str());
    (!name.is_empty() && !is_own).then_some(name)
}

/// The privileges of a resource in a namespace that the installer did not list, except those that are
/// kept. `None`: there are none.
pub fn denied_privileges(
    checked: &Checked,
    owner: &Owner,
    kept: &Privileges,
) -> Option<Diagnostics> {
    let path = FieldPath::spec().at(&["workload", "overrides"]);
    let account = other_account(checked, owner)
        .filter(|name| kept.service_account.as_deref() != Some(*name))
        .map(|_| path.field("serviceAccountName"));
    let volumes = checked.workload.overrides.volumes.iter().flatten();
    let host_paths = volumes.enumerate().filter_map(|(position, volume)| {
        let host_path = &volume.host_path.as_ref()?.path;
        let field = path.field("volumes").index(position).field("hostPath");
        (!kept.host_paths.contains(host_path)).then_some(field)
    });
    let template = checked.workload.pod_template.iter();
    let of_template = template.flat_map(|template| template.privileged.iter().cloned());
    let fields = account.into_iter().chain(host_paths).chain(of_template);
    Diagnostics::new(fields.map(denied).collect())
}

/// A privilege that the installer did not allow.
fn denied(field: FieldPath) -> Diagnostic {
    Diagnostic::error(
        field,
        "gives the pods access beyond their namespace, which the installer of the operator did not allow",
        format!("remove it, or ask the installer to add the namespace to {SETTING} in the operator's settings"),
    )
    .with_code("privileged-pod")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_both_have_is_in_common() {
        let of = |account: &str, paths: &[&str]| {
            let volumes: Vec<_> = paths
                .iter()
                .map(|path| json!({"name": "v", "hostPath": {"path": path}}))
                .chain([json!({"name": "e", "emptyDir": {}})])
                .collect();
            Privileges::of_template(
                &json!({"spec": {"serviceAccountName": account, "volumes": volumes}}),
            )
        };
        let both = of("runner", &["/a", "/b"]).in_common(&of("runner", &["/b", "/c"]));
        assert_eq!(both, of("runner", &["/b"]));
        let neither = of("runner", &["/a"]).in_common(&of("admin", &["/a/b"]));
        assert_eq!(neither, Privileges::default());
    }
}
