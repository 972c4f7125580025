//! The bundle of CA certificates that the server trusts for outgoing connections.
//!
//! In: keys of ConfigMaps. Out: one PEM bundle in a fixed order, or which key is invalid. Anything
//! other than certificates, such as a private key, is left out.

use pem::{EncodeConfig, LineEnding, Pem};

use crate::digest;

/// Maximum size of the bundle: what a ConfigMap can hold, minus room for the rest of the object.
const MAX_BYTES: usize = 1_000_000;
const CERTIFICATE: &str = "CERTIFICATE";

/// Validated certificates in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaBundle(String);

/// The certificates that a server trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCa {
    /// Digest of the bundle.
    pub digest: String,
    /// The bundle; `None` if it is not at hand, because its sources changed since. Its ConfigMap then
    /// stays as it is.
    pub bundle: Option<CaBundle>,
}

impl From<CaBundle> for TrustedCa {
    fn from(bundle: CaBundle) -> Self {
        Self {
            digest: digest::of(bundle.as_str()),
            bundle: Some(bundle),
        }
    }
}

/// One key of a ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaSource<'a> {
    /// Name of the ConfigMap.
    pub config_map: &'a str,
    /// The key.
    pub key: &'a str,
    /// Its value.
    pub text: &'a str,
}

/// Why the bundle is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key contains no certificate.
    #[error("failed to find valid certificates in key {key:?} of ConfigMap {config_map:?}")]
    NoCertificate {
        /// Name of the ConfigMap.
        config_map: String,
        /// The key.
        key: String,
    },
    /// A certificate cannot be parsed.
    #[error("failed to parse X.509 certificate from key {key:?} of ConfigMap {config_map:?}")]
    Invalid {
        /// Name of the ConfigMap.
        config_map: String,
        /// The key.
        key: String,
    },
    /// The bundle does not fit in a ConfigMap.
    #[error(
        "the CA certificates have {0} bytes and exceed the limit of {MAX_BYTES}; remove some of them"
    )]
    TooLarge(usize),
}

impl CaBundle {
    /// The bundle as PEM.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A bundle that was validated before, if it has this digest.
    pub fn validated(text: &str, expected: &str) -> Option<Self> {
        (digest::of(text) == expected).then(|| Self(text.to_owned()))
    }

    /// Joins the sources that the resource names and those that the platform provides to every
    /// resource, in the given order. An invalid key of the platform is ignored, because the user of
    /// the resource cannot fix it. `None` if there is no certificate.
    pub fn new(named: &[CaSource<'_>], platform: &[CaSource<'_>]) -> Result<Option<Self>, Error> {
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
        if text.len() > MAX_BYTES {
            return Err(Error::TooLarge(text.len()));
        }
        Ok((!blocks.is_empty()).then_some(Self(text)))
    }
}

/// The certificates of one key, encoded again. An empty key has none and is valid.
fn certificates(source: &CaSource<'_>) -> Result<Vec<String>, Error> {
    let &CaSource {
        config_map,
        key,
        text,
    } = source;
    let invalid = || Error::Invalid {
        config_map: config_map.to_owned(),
        key: key.to_owned(),
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for block in pem::parse_many(text).map_err(|_| invalid())? {
        if block.tag() != CERTIFICATE {
            continue;
        }
        let (rest, _) =
            x509_parser::parse_x509_certificate(block.contents()).map_err(|_| invalid())?;
        if !rest.is_empty() {
            return Err(invalid());
        }
        let certificate = Pem::new(CERTIFICATE, block.contents());
        let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
        found.push(pem::encode_config(&certificate, config));
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

    fn source<'a>(key: &'a str, text: &'a str) -> CaSource<'a> {
        CaSource {
            config_map: "cas",
            key,
            text,
        }
    }

    fn count(bundle: &CaBundle) -> usize {
        pem::parse_many(bundle.as_str()).unwrap().len()
    }

    #[test]
    fn certificates_have_the_order_of_their_keys_and_anything_else_is_left_out() {
        let (one, two) = (certificate("one.example"), certificate("two.example"));
        let key = KeyPair::generate().unwrap().serialize_pem();
        let mixed = format!("# comment\n{one}\n{key}");
        let bundle = CaBundle::new(&[source("a", &mixed), source("b", &two)], &[]);
        let bundle = bundle.unwrap().unwrap();
        assert_eq!(count(&bundle), 2);
        assert!(!bundle.as_str().contains("PRIVATE"));
        let reversed = CaBundle::new(&[source("b", &two), source("a", &mixed)], &[]);
        assert_ne!(Some(bundle), reversed.unwrap());
    }

    #[test]
    fn an_empty_key_is_valid_and_a_key_without_certificates_is_not() {
        let one = certificate("one.example");
        let both = CaBundle::new(&[source("a", " \n"), source("b", &one)], &[]);
        assert_eq!(count(&both.unwrap().unwrap()), 1);
        let key = KeyPair::generate().unwrap().public_key_pem();
        for text in ["hello", &key] {
            let error = CaBundle::new(&[source("a", text)], &[]).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("failed to find valid certificates")
            );
        }
    }

    #[test]
    fn the_error_for_an_invalid_certificate_names_its_key() {
        let text = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let error = CaBundle::new(&[source("a", text)], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to parse X.509 certificate from key \"a\" of ConfigMap \"cas\""
        );
    }

    #[test]
    fn an_empty_or_invalid_bundle_of_the_platform_is_ignored() {
        assert_eq!(
            CaBundle::new(&[], &[source("a", ""), source("b", "x")]),
            Ok(None)
        );
    }
}
