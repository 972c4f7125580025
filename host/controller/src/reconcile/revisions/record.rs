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

/// Compresses a resolution.
pub(super) fn encode(resolution: &Resolution) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    // Writing to memory cannot fail, and all keys of a resolution are strings.
    let json = serde_json::to_vec(resolution).unwrap_or_default();
    let _ = encoder.write_all(&json);
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

    use llsd_api::check_document;
    use llsd_render::ServerFacts;
    use llsd_render::objects::{
        Cluster, DerivedValues, FrozenObjects, ObjectInputs, Owner, Privileges, build_objects,
    };
    use serde_json::Value;

    use super::*;
    use crate::reconcile::gather::{Gathered, Source};
    use crate::reconcile::revisions::AuthorInputs;

    fn resolution() -> Resolution {
        let spec = json!({"distribution": {"image": "acme/stack:1"}});
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo"}, "spec": spec,
        });
        let checked = check_document(document).result.expect("a valid resource");
        let owner = Owner {
            namespace: "ns".to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
            pod_app: llsd_api::labels::PRODUCT,
        };
        let desired = build_objects(&ObjectInputs {
            checked: &checked,
            image: "acme/stack:1",
            server: &ServerFacts::default(),
            plan: &ConfigPlan::DistributionDefault,
            secrets_digest: None,
            owner: &owner,
            cluster: &Cluster::default(),
            ca_bundle: None,
            derived: &DerivedValues::default(),
            network_policy: None,
            allows_any_uid: false,
            allows_privileged_pods: false,
            kept_privileges: &Privileges::default(),
        });
        Resolution {
            author: AuthorInputs {
                generation: Some(3),
                ..AuthorInputs::default()
            },
            spec,
            gathered: Gathered {
                image: "acme/stack:1".to_owned(),
                source: Source::DistributionDefault,
                facts: None,
                server: ServerFacts::default(),
                packages: BTreeMap::new(),
                network_policy: None,
                allows_any_uid: false,
                allows_privileged_pods: false,
                kept_privileges: Privileges::default(),
                has_ca_bundle: false,
                warnings: Vec::new(),
            },
            plan: ConfigPlan::DistributionDefault,
            schema_plugin: None,
            secrets: None,
            ca: None,
            platform_ca: None,
            objects: FrozenObjects::of(&desired.expect("objects")),
            operator_version: "1".to_owned(),
            is_held: false,
        }
    }

    #[test]
    fn a_resolution_is_read_as_it_was_written_and_is_small() {
        let resolution = resolution();
        let text = encode(&resolution);
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
