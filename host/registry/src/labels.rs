//! The labels that locate the server configuration in an image.
//!
//! There are three schemes. The first one that an image uses is read:
//!
//! 1. `io.llamastack.config.base64`: the file itself (the specification, small files);
//! 2. `io.llamastack.config.layer` and `.path`: a file in one of the layers (the specification, large files);
//! 3. `com.llamastack.distribution.default-config`, which names one of `com.llamastack.config.<file>`, or the
//!    same under `com.ogx.` (used by the published images).

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::digest::Digest;
use crate::layer::LayerPath;

/// The configuration, in base64.
pub const BASE64: &str = "io.llamastack.config.base64";
/// The digest of the layer that contains the configuration.
pub const LAYER: &str = "io.llamastack.config.layer";
/// The path of the configuration in that layer.
pub const PATH: &str = "io.llamastack.config.path";
/// The `version` of the configuration file, for example `2`.
pub const VERSION: &str = "io.llamastack.config.version";
/// The schema id, for example `llama-stack/0.7`.
pub const SCHEMA: &str = "io.llamastack.config.schema";
/// The OCI reference of the plugin that the author of the image proposes.
pub const PLUGIN: &str = "io.llamastack.config.plugin";

/// The prefixes of `.distribution.…` and `.config.…` in published images.
const PUBLISHED: [(&str, Scheme); 2] = [
    ("com.llamastack", Scheme::LlamaStack),
    ("com.ogx", Scheme::Ogx),
];

/// The label scheme of a base configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `io.llamastack.config.base64`
    Base64,
    /// `io.llamastack.config.layer` and `io.llamastack.config.path`
    Layer,
    /// `com.llamastack.distribution.default-config` and `com.llamastack.config.<file>`
    LlamaStack,
    /// `com.ogx.distribution.default-config` and `com.ogx.config.<file>`
    Ogx,
}

impl Scheme {
    /// The name for status and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base64 => "label base64",
            Self::Layer => "label layer",
            Self::LlamaStack => "com.llamastack labels",
            Self::Ogx => "com.ogx labels",
        }
    }
}

/// The longest name of a label that is kept.
const MAX_NAME_BYTES: usize = 256;
/// The longest value of a label that does not contain a file.
const MAX_HINT_BYTES: usize = 4 << 10;
/// The most labels that are kept. Published images have a dozen.
const MAX_LABELS: usize = 128;

/// The labels of an image that this crate uses. Others are not kept: an image may have any number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptLabels(Result<BTreeMap<String, String>, BadLabel>);

impl Default for KeptLabels {
    fn default() -> Self {
        Self(Ok(BTreeMap::new()))
    }
}

impl KeptLabels {
    /// The labels, or the first one that exceeds a limit.
    pub(crate) fn into_result(self) -> Result<BTreeMap<String, String>, BadLabel> {
        self.0
    }
}

impl<'de> Deserialize<'de> for KeptLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelsVisitor).map(Self)
    }
}

struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Result<BTreeMap<String, String>, BadLabel>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of labels")
    }

    /// Tools write `null` if there are none.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Ok(BTreeMap::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        let mut kept = BTreeMap::new();
        let mut problem = None;
        while let Some(name) = all.next_key::<String>()? {
            if problem.is_some() || !is_used(&name) {
                all.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = all.next_value::<String>()?;
            problem = exceeded_limit(&name, &value, kept.len());
            kept.insert(name, value);
        }
        Ok(problem.map_or(Ok(kept), Err))
    }
}

/// Whether a label belongs to one of the schemes, or is a hint.
fn is_used(label: &str) -> bool {
    is_hint(label)
        || PUBLISHED.iter().any(|(prefix, _)| {
            let rest = label.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.starts_with(".config."))
        })
}

/// The limit that a label exceeds.
fn exceeded_limit(name: &str, value: &str, count: usize) -> Option<BadLabel> {
    let is_file = name == BASE64 || !is_hint(name);
    let (problem, fix) = if name.len() > MAX_NAME_BYTES {
        (
            format!("its name has more than {MAX_NAME_BYTES} bytes"),
            "use a shorter file name",
        )
    } else if count == MAX_LABELS {
        (
            format!("the image has more than {MAX_LABELS} labels of the configuration"),
            "remove the ones that nothing uses",
        )
    } else if !is_file && value.len() > MAX_HINT_BYTES {
        (
            format!("its value has more than {MAX_HINT_BYTES} bytes"),
            "shorten it, or remove the label",
        )
    } else {
        return None;
    };
    let label = name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned();
    Some(BadLabel {
        label,
        problem,
        fix,
    })
}

/// Where the configuration is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the label, decoded.
    Inline { label: String, content: Vec<u8> },
    /// In a layer.
    Layer { layer: Digest, path: LayerPath },
}

/// A label is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLabel {
    pub(crate) label: String,
    pub(crate) problem: String,
    pub(crate) fix: &'static str,
}

/// Finds the configuration. `None` if the image has no label of any scheme.
pub(crate) fn find(
    labels: &BTreeMap<String, String>,
    limit: u64,
) -> Result<Option<(Scheme, Source)>, BadLabel> {
    let value = |label: &str| {
        labels
            .get(label)
            .map(|v| v.trim())
            .filter(|v| !v.is_empty())
    };
    if let Some(encoded) = value(BASE64) {
        let content = decode(BASE64, encoded, limit)?;
        return Ok(Some((
            Scheme::Base64,
            Source::Inline {
                label: BASE64.into(),
                content,
            },
        )));
    }
    match (value(LAYER), value(PATH)) {
        (Some(layer), Some(path)) => {
            let layer = layer
                .parse()
                .map_err(|error: crate::digest::ParseDigestError| BadLabel {
                    label: LAYER.into(),
                    problem: error.to_string(),
                    fix: "use the digest of a layer from the image's manifest",
                })?;
            let path = LayerPath::parse(path).ok_or_else(|| BadLabel {
                label: PATH.into(),
                problem: format!("{path:?} is not a valid path in a layer"),
                fix: "write the path of a file, without \"..\"",
            })?;
            return Ok(Some((Scheme::Layer, Source::Layer { layer, path })));
        }
        (Some(_), None) => return Err(incomplete(LAYER, PATH)),
        (None, Some(_)) => return Err(incomplete(PATH, LAYER)),
        (None, None) => {}
    }
    for (prefix, scheme) in PUBLISHED {
        let named = format!("{prefix}.distribution.default-config");
        let Some(file) = value(&named) else { continue };
        let label = format!("{prefix}.config.{file}");
        let Some(encoded) = value(&label) else {
            return Err(BadLabel {
                label: named,
                problem: format!("it names the file {file:?}, but the image has no label {label}"),
                fix: "add that label, or name a file for which the image has a label",
            });
        };
        let content = decode(&label, encoded, limit)?;
        return Ok(Some((scheme, Source::Inline { label, content })));
    }
    Ok(None)
}

/// The label that contains the release of the server, and the release.
pub(crate) fn server_version(labels: &BTreeMap<String, String>) -> Option<(String, String)> {
    let named = PUBLISHED.map(|(prefix, _)| format!("{prefix}.distribution.version"));
    named.into_iter().find_map(|label| {
        let version = labels.get(&label).filter(|v| !v.trim().is_empty())?;
        Some((label, version.clone()))
    })
}

/// The labels that are passed to plugins as hints: those of the schemes, without those that contain
/// files.
pub(crate) fn hints(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_passed = |(label, _): &(&String, &String)| is_hint(label) && label.as_str() != BASE64;
    labels
        .iter()
        .filter(is_passed)
        .map(|(label, value)| (label.clone(), value.clone()))
        .collect()
}

fn is_hint(label: &str) -> bool {
    label.starts_with("io.llamastack.")
        || label == "org.opencontainers.image.version"
        || PUBLISHED.iter().any(|(prefix, _)| {
            label
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(".distribution."))
        })
}

fn incomplete(present: &str, absent: &str) -> BadLabel {
    BadLabel {
        label: present.to_owned(),
        problem: format!("the label {absent} is missing"),
        fix: "set both, or use io.llamastack.config.base64",
    }
}

/// Decodes base64. Accepts line breaks and missing padding, which some tools produce.
fn decode(label: &str, encoded: &str, limit: u64) -> Result<Vec<u8>, BadLabel> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let bad = |problem: String, fix| BadLabel {
        label: label.to_owned(),
        problem,
        fix,
    };
    let fix = "encode the file with base64 -w0, or use llsd image label";
    let too_large = || {
        let problem = format!("the file has more than {limit} bytes");
        bad(
            problem,
            "put the file into a layer and use the label io.llamastack.config.layer",
        )
    };
    if encoded.len() as u64 / 4 * 3 > limit + 3 {
        return Err(too_large());
    }
    let packed: String = encoded.split_ascii_whitespace().collect();
    let content = LENIENT
        .decode(packed)
        .map_err(|error| bad(format!("the value is not valid base64: {error}"), fix))?;
    if content.len() as u64 > limit {
        Err(too_large())
    } else {
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn scheme(pairs: &[(&str, &str)]) -> Option<(Scheme, Vec<u8>)> {
        match find(&labels(pairs), LIMIT).unwrap() {
            Some((scheme, Source::Inline { content, .. })) => Some((scheme, content)),
            Some((scheme, Source::Layer { path, .. })) => {
                Some((scheme, path.as_str().as_bytes().to_vec()))
            }
            None => None,
        }
    }

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const PUBLISHED_LABELS: [(&str, &str); 2] = [
        ("com.llamastack.distribution.default-config", "config.yaml"),
        ("com.llamastack.config.config.yaml", "YTogMQ=="),
    ];

    #[test]
    fn the_schemes_are_tried_in_the_order_of_the_specification() {
        let mut all = vec![
            (BASE64, "YjogMg=="),
            (LAYER, EMPTY),
            (PATH, "/app/run.yaml"),
            ("com.ogx.distribution.default-config", "x"),
            ("com.ogx.config.x", "YzogMw"),
        ];
        all.extend(PUBLISHED_LABELS);
        assert_eq!(scheme(&all), Some((Scheme::Base64, b"b: 2".to_vec())));
        all.retain(|(label, _)| *label != BASE64);
        assert_eq!(
            scheme(&all),
            Some((Scheme::Layer, b"app/run.yaml".to_vec()))
        );
        all.retain(|(label, _)| *label != LAYER && *label != PATH);
        assert_eq!(scheme(&all), Some((Scheme::LlamaStack, b"a: 1".to_vec())));
        all.retain(|(label, _)| !label.starts_with("com.llamastack"));
        assert_eq!(scheme(&all), Some((Scheme::Ogx, b"c: 3".to_vec())));
        assert_eq!(
            scheme(&[("maintainer", "x"), (VERSION, "2"), (BASE64, " ")]),
            None
        );
    }

    #[test]
    fn wrapped_and_unpadded_base64_is_read() {
        assert_eq!(
            scheme(&[(BASE64, "Yjog\nMg")]),
            Some((Scheme::Base64, b"b: 2".to_vec()))
        );
    }

    #[test]
    fn incomplete_schemes_and_invalid_values_are_reported() {
        let long = "A".repeat(200);
        for (pairs, label, problem) in [
            (vec![(LAYER, EMPTY)], LAYER, PATH),
            (vec![(PATH, "x")], PATH, LAYER),
            (
                vec![(LAYER, "sha256:1"), (PATH, "x")],
                LAYER,
                "not a valid digest",
            ),
            (
                vec![(LAYER, EMPTY), (PATH, "../x")],
                PATH,
                "not a valid path",
            ),
            (vec![(BASE64, "%%%")], BASE64, "not valid base64"),
            (vec![(BASE64, &long)], BASE64, "more than 100 bytes"),
            (
                vec![("com.ogx.distribution.default-config", "x.yaml")],
                "com.ogx.distribution.default-config",
                "com.ogx.config.x.yaml",
            ),
        ] {
            let bad = find(&labels(&pairs), LIMIT).unwrap_err();
            assert_eq!(bad.label, label);
            assert!(bad.problem.contains(problem), "{}", bad.problem);
        }
    }

    #[test]
    fn hints_contain_metadata_and_not_the_files() {
        let mut pairs = PUBLISHED_LABELS.to_vec();
        pairs.extend([(BASE64, "x"), (SCHEMA, "s"), ("maintainer", "m")]);
        pairs.push(("com.llamastack.distribution.version", "0.7.3"));
        let all = labels(&pairs);
        let passed: Vec<_> = hints(&all).into_keys().collect();
        assert_eq!(
            passed,
            [
                "com.llamastack.distribution.default-config",
                "com.llamastack.distribution.version",
                SCHEMA
            ]
        );
        let version = ("com.llamastack.distribution.version", "0.7.3");
        let version = (version.0.to_owned(), version.1.to_owned());
        assert_eq!(server_version(&all), Some(version));
    }

    fn kept(text: &str) -> Result<BTreeMap<String, String>, BadLabel> {
        let labels: KeptLabels = serde_json::from_str(text).unwrap();
        labels.into_result()
    }

    #[test]
    fn labels_that_nothing_uses_are_not_kept() {
        let strange: String = (0..10_000).map(|n| format!(r#""x{n}": "","#)).collect();
        let text = format!(r#"{{{strange} "{SCHEMA}": "s", "y": 1}}"#);
        assert_eq!(kept(&text).unwrap(), labels(&[(SCHEMA, "s")]));
        assert_eq!(kept("null").unwrap(), BTreeMap::new());
    }

    #[test]
    fn labels_that_exceed_a_limit_are_reported_by_name() {
        let long = "x".repeat(MAX_HINT_BYTES + 1);
        let many: String = (0..=MAX_LABELS)
            .map(|n| format!(r#""io.llamastack.x{n}": "","#))
            .collect();
        for (text, problem) in [
            (
                format!(r#"{{"{SCHEMA}": "{long}"}}"#),
                "more than 4096 bytes",
            ),
            (
                format!(r#"{{"io.llamastack.{long}": ""}}"#),
                "more than 256 bytes",
            ),
            (format!(r#"{{{many} "y": ""}}"#), "more than 128 labels"),
        ] {
            let bad = kept(&text).unwrap_err();
            assert!(bad.problem.contains(problem), "{}", bad.problem);
            assert!(bad.label.starts_with("io.llamastack.") && bad.label.len() <= 256);
        }
        // A label that contains a file has the limit of the file.
        let file = format!(r#"{{"{BASE64}": "{long}"}}"#);
        assert!(kept(&file).is_ok());
    }

    use proptest::prelude::*;

    /// Names of the schemes, near misses, and values from empty to far above the limits.
    fn label() -> impl Strategy<Value = (String, String)> {
        let name = prop_oneof![
            Just(BASE64.to_owned()),
            Just(LAYER.to_owned()),
            Just(PATH.to_owned()),
            Just("com.ogx.distribution.default-config".to_owned()),
            Just("com.ogx.config.x".to_owned()),
            "io\\.llamastack\\.[a-z]{0,300}",
            ".{0,20}",
        ];
        let value = prop_oneof![
            Just("x".to_owned()),
            Just("YTogMQ==".to_owned()),
            ".{0,40}",
            (0usize..9_000).prop_map(|length| "A".repeat(length)),
        ];
        (name, value)
    }

    proptest! {
        #[test]
        fn any_labels_are_kept_within_their_limits_or_refused(all in prop::collection::vec(label(), 0..200)) {
            let map: serde_json::Map<String, serde_json::Value> =
                all.into_iter().map(|(name, value)| (name, value.into())).collect();
            match kept(&serde_json::Value::Object(map).to_string()) {
                Ok(labels) => {
                    prop_assert!(labels.len() <= MAX_LABELS);
                    prop_assert!(hints(&labels).values().all(|value| value.len() <= MAX_HINT_BYTES));
                    match find(&labels, LIMIT) {
                        Ok(Some((_, Source::Inline { content, .. }))) => {
                            prop_assert!(content.len() as u64 <= LIMIT);
                        }
                        Ok(_) => {}
                        Err(bad) => prop_assert!(bad.problem.len() < 20_000),
                    }
                }
                Err(bad) => prop_assert!(bad.label.len() <= MAX_NAME_BYTES),
            }
        }
    }
}
