//! The generated file, in a ConfigMap that is named after its content.

use k8s_openapi::api::core::v1::ConfigMap;
use llsd_api::checked::DEFAULT_CONFIG_KEY;
use llsd_api::labels;

use super::{ConfigPlan, Owner, metadata, text_map};
use crate::digest;

/// The value of [`labels::COMPONENT`] by which all generated files of a resource are found.
const COMPONENT: &str = "config";
/// Hexadecimal digits of the file's digest in the name.
const DIGITS: usize = 10;

/// Name of the ConfigMap of a generated file: the same text has the same name.
pub fn config_map_name(resource: &str, yaml: &str) -> String {
    format!("{resource}{}", suffix(yaml))
}

fn suffix(yaml: &str) -> String {
    format!("-config-{}", &digest::hex(yaml.as_bytes())[..DIGITS])
}

pub(super) fn config_map(plan: &ConfigPlan, owner: &Owner) -> Option<ConfigMap> {
    let ConfigPlan::Generated(generated) = plan else {
        return None;
    };
    let mut metadata = metadata(owner, &suffix(&generated.yaml));
    let found_by = [
        (labels::INSTANCE, owner.name.as_str()),
        (labels::COMPONENT, COMPONENT),
    ];
    metadata
        .labels
        .get_or_insert_default()
        .extend(text_map(found_by));
    Some(ConfigMap {
        metadata,
        data: Some(text_map([(DEFAULT_CONFIG_KEY, generated.yaml.as_str())])),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}
