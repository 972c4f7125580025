//! Certificates of authorities that the server trusts when it connects to others.
//!
//! In: texts from ConfigMaps. Out: one bundle in a fixed order, or what is wrong with which key. Only
//! certificates are kept, so that nothing else of a ConfigMap is carried along.

use pem::{EncodeConfig, LineEnding, Pem};

/// As much as a ConfigMap takes, with room for the rest of the object.
const MOST_BYTES: usize = 1_000_000;
const CERTIFICATE: &str = "CERTIFICATE";

/// Certificates, checked and in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustBundle(String);

/// One key of a ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustSource<'a> {
    /// Name of the ConfigMap.
    pub config_map: &'a str,
    /// The key.
    pub key: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// Why there is no bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key holds something else.
    #[error("failed to find valid certificates in key {key:?} of ConfigMap {config_map:?}")]
    NoCertificate {
        /// Name of the ConfigMap.
        config_map: String,
        /// The key.
        key: String,
    },
    /// A key holds something broken.
    #[error("failed to parse X.509 certificate from key {key:?} of ConfigMap {config_map:?}")]
    Broken {
        /// Name of the ConfigMap.
        config_map: String,
        /// The key.
        key: String,
    },
    /// More than a ConfigMap takes.
    #[error("the certificates have {0} bytes together, and a ConfigMap takes {MOST_BYTES}")]
    TooLarge(usize),
}

impl TrustBundle {
    /// The bundle as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts together what a resource names, in its order, and what the platform offers to every
    /// resource, in the order given. A broken key of the platform is left out: its author is nobody
    /// who reads the status of this resource. Absent: there is no certificate at all.
    pub fn new(
        named: &[TrustSource<'_>],
        platform: &[TrustSource<'_>],
    ) -> Result<Option<Self>, Error> {
        let mut blocks = Vec::new();
        for source in named {
            blocks.extend(certificates(source)?);
        }
        if let (Some(first), true) = (named.first(), blocks.is_empty()) {
            return Err(Error::NoCertificate {
                config_map: first.config_map.to_owned(),
                key: first.key.to_owned(),
            });
        }
        blocks.extend(
            platform
                .iter()
                .filter_map(|source| certificates(source).ok())
                .flatten(),
        );
        let text = blocks.join("\n");
        if text.len() > MOST_BYTES {
            return Err(Error::TooLarge(text.len()));
        }
        Ok((!blocks.is_empty()).then_some(Self(text)))
    }
}

/// Every certificate of one key, written anew. An empty text has none, and that is no mistake.
fn certificates(source: &TrustSource<'_>) -> Result<Vec<String>, Error> {
    let &TrustSource {
        config_map,
        key,
        text,
    } = source;
    let broken = || Error::Broken {
        config_map: config_map.to_owned(),
        key: key.to_owned(),
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for block in pem::parse_many(text).map_err(|_| broken())? {
        if block.tag() != CERTIFICATE {
            continue;
        }
        let (rest, _) =
            x509_parser::parse_x509_certificate(block.contents()).map_err(|_| broken())?;
        if !rest.is_empty() {
            return Err(broken());
        }
        let bare = Pem::new(CERTIFICATE, block.contents());
        let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
        found.push(pem::encode_config(&bare, config));
    }
    if found.is_empty() {
        return Err(Error::NoCertificate {
            config_map: config_map.to_owned(),
            key: key.to_owned(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn certificate(name: &str) -> String {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.self_signed(&key).unwrap().pem()
    }

    fn source<'a>(key: &'a str, text: &'a str) -> TrustSource<'a> {
        TrustSource {
            config_map: "cas",
            key,
            text,
        }
    }

    fn count(bundle: &TrustBundle) -> usize {
        pem::parse_many(bundle.as_str()).unwrap().len()
    }

    #[test]
    fn certificates_stand_in_the_order_of_their_keys_and_nothing_else_comes_along() {
        let (one, two) = (certificate("one.example"), certificate("two.example"));
        let key = KeyPair::generate().unwrap().serialize_pem();
        let mixed = format!("# ours\n{one}\n{key}");
        let bundle = TrustBundle::new(&[source("a", &mixed), source("b", &two)], &[]);
        let bundle = bundle.unwrap().unwrap();
        assert_eq!(count(&bundle), 2);
        assert!(!bundle.as_str().contains("PRIVATE"));
        let turned = TrustBundle::new(&[source("b", &two), source("a", &mixed)], &[]);
        assert_ne!(Some(bundle), turned.unwrap());
    }

    #[test]
    fn an_empty_key_is_no_mistake_and_a_key_without_certificates_is() {
        let one = certificate("one.example");
        let both = TrustBundle::new(&[source("a", " \n"), source("b", &one)], &[]);
        assert_eq!(count(&both.unwrap().unwrap()), 1);
        let key = KeyPair::generate().unwrap().public_key_pem();
        for text in ["hello", &key] {
            let refused = TrustBundle::new(&[source("a", text)], &[]).unwrap_err();
            assert!(
                refused
                    .to_string()
                    .contains("failed to find valid certificates")
            );
        }
    }

    #[test]
    fn a_broken_certificate_is_named_by_its_key() {
        let text = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let refused = TrustBundle::new(&[source("a", text)], &[]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "failed to parse X.509 certificate from key \"a\" of ConfigMap \"cas\""
        );
    }

    #[test]
    fn a_blank_or_broken_bundle_of_the_platform_stops_nobody() {
        assert_eq!(
            TrustBundle::new(&[], &[source("a", ""), source("b", "x")]),
            Ok(None)
        );
    }
}
