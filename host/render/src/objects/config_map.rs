//! The ConfigMap of the generated server configuration, whose name contains a digest of its content.

use k8s_openapi::api::core::v1::ConfigMap;
use llsd_api::checked::DEFAULT_CONFIG_KEY;
use llsd_api::labels;

use super::metadata::{metadata, string_map};
use super::{ConfigPlan, Owner};
use crate::digest;

/// The value of [`labels::COMPONENT`] on every generated ConfigMap.
const COMPONENT: &str = "config";
/// Start of the suffix, which ends with a digest of the content.
const SUFFIX_PREFIX: &str = "-config-";
/// Number of hexadecimal digits of the digest in the name.
const DIGITS: usize = 10;

/// Name of the ConfigMap of a generated configuration. The same content has the same name.
pub fn config_map_name(resource: &str, yaml: &str) -> String {
    format!("{resource}{}", suffix(yaml))
}

/// Whether a ConfigMap of a resource has the name of a generated one.
pub fn is_generated_config_map(name: &str, resource: &str) -> bool {
    let suffix = name.strip_prefix(resource);
    suffix.is_some_and(|suffix| suffix.starts_with(SUFFIX_PREFIX))
}

fn suffix(yaml: &str) -> String {
    format!("{SUFFIX_PREFIX}{}", &digest::hex(yaml.as_bytes())[..DIGITS])
}

pub(super) fn config_map(plan: &ConfigPlan, owner: &Owner) -> Option<ConfigMap> {
    let ConfigPlan::Generated(generated) = plan else {
        return None;
    };
    let mut metadata = metadata(owner, &suffix(&generated.yaml));
    let labels = [
        (labels::INSTANCE, owner.name.as_str()),
        (labels::COMPONENT, COMPONENT),
    ];
    metadata
        .labels
        .get_or_insert_default()
        .extend(string_map(labels));
    Some(ConfigMap {
        metadata,
        data: Some(string_map([(DEFAULT_CONFIG_KEY, generated.yaml.as_str())])),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}
