//! The data of a `ControllerRevision`: the resolution as compressed JSON, and what a person wants to
//! see of it.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use data_encoding::BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use llsd_render::objects::ConfigPlan;
use serde_json::json;

use super::Resolution;

/// The key of the compressed resolution.
const RESOLUTION: &str = "resolution";
/// Far more than the largest resolution, whose configuration has to fit in a ConfigMap.
const MAX_BYTES: u64 = 16 << 20;
/// Takes a third of the time of the best compression, for 3 % more bytes.
const LEVEL: u32 = 4;

/// A resolution as JSON.
pub(super) fn json(resolution: &Resolution) -> Vec<u8> {
    // Writing to memory cannot fail, and all keys of a resolution are strings.
    serde_json::to_vec(resolution).unwrap_or_default()
}

/// Compresses the JSON of a resolution.
pub(super) fn encode(json: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    // Writing to memory cannot fail.
    let _ = encoder.write_all(json);
    BASE64.encode(&encoder.finish().unwrap_or_default())
}

/// Reads a compressed resolution.
pub(super) fn decode(encoded: &str) -> Result<Resolution, String> {
    let compressed = BASE64
        .decode(encoded.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    GzDecoder::new(compressed.as_slice())
        .take(MAX_BYTES)
        .read_to_end(&mut json)
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// The compressed resolution in a revision.
pub(super) fn encoded(revision: &ControllerRevision) -> Option<String> {
    let RawExtension(data) = revision.data.as_ref()?;
    Some(data[RESOLUTION].as_str()?.to_owned())
}

/// The data of a revision. Its keys are sorted and none is null, as the API server writes them when it
/// merges a patch: it would reject a patch that changes the data, for example when the garbage collector
/// removes the owner.
pub(super) fn data(resolution: &Resolution, encoded: &str) -> RawExtension {
    let generated = match &resolution.plan {
        ConfigPlan::Generated(generated) => Some(generated),
        ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => None,
    };
    let receipt = generated.map(|generated| &generated.receipt);
    let data = [
        ("generation", json!(resolution.author.generation)),
        ("image", json!(resolution.gathered.image)),
        ("imageDigest", json!(resolution.gathered.digest())),
        (
            "schema",
            json!(generated.map(|generated| &generated.schema.id)),
        ),
        (
            "plugin",
            json!(receipt.map(|receipt| format!("{} {}", receipt.plugin, receipt.version))),
        ),
        (
            "component",
            json!(receipt.map(|receipt| &receipt.component)),
        ),
        (
            "configDigest",
            json!(receipt.map(|receipt| &receipt.output)),
        ),
        ("caBundleDigest", json!(resolution.ca)),
        ("operatorVersion", json!(resolution.operator_version)),
        (RESOLUTION, json!(encoded)),
    ];
    let data: BTreeMap<_, _> = data.into_iter().filter(|(_, one)| !one.is_null()).collect();
    RawExtension(json!(data))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_resolution_is_read_as_it_was_written_and_is_small() {
        let resolution = Resolution::example();
        let text = encode(&json(&resolution));
        assert_eq!(decode(&text).as_ref(), Ok(&resolution));
        assert!(text.len() < 4096, "{} bytes", text.len());
        let revision = ControllerRevision {
            data: Some(data(&resolution, &text)),
            ..ControllerRevision::default()
        };
        assert_eq!(encoded(&revision), Some(text));
        let RawExtension(summary) = revision.data.expect("data");
        assert_eq!(summary["image"], json!("acme/stack:1"));
        assert_eq!(summary["component"], Value::Null);
    }

    #[test]
    fn an_unreadable_record_is_an_error_and_no_panic() {
        for text in ["", "?", "aGVsbG8="] {
            assert!(decode(text).is_err(), "{text:?}");
        }
    }
}
