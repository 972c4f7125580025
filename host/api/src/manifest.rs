//! Generated manifests: file name and YAML.

use serde_json::Value;

/// A generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the file.
    pub file: &'static str,
    /// Its content.
    pub yaml: String,
}

/// The YAML of a JSON value. Keys keep their order.
pub(crate) fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("JSON is YAML")
}
