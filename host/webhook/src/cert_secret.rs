//! The Secret that stores the certificate.
//!
//! It has the usual keys `tls.crt`, `tls.key` and `ca.crt`. If this operator manages it, it also has
//! `rotation.json`. A Secret without that key is managed externally. cert-manager leaves that key in a
//! Secret that it takes over, so while cert-manager manages the certificate the key does not count.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use crate::certificates::Rotation;

const ROTATION: &str = "rotation.json";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_BUNDLE: &str = "ca.crt";
/// The annotation with which cert-manager marks a Secret that it wrote.
const CERT_MANAGER: &str = "cert-manager.io/certificate-name";

/// The content of the Secret.
pub(crate) enum CertSecret {
    /// Managed by this operator.
    Rotated(Box<Rotation>),
    /// Managed externally: served and never written.
    External(ServedPem),
}

/// A certificate to serve, in PEM.
pub(crate) struct ServedPem {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The CAs to trust, if they are known.
    pub(crate) ca_bundle: Option<String>,
}

impl From<Rotation> for ServedPem {
    fn from(rotation: Rotation) -> Self {
        Self {
            ca_bundle: Some(rotation.ca_bundle()),
            certificate: rotation.current.certificate,
            key: rotation.current.key,
        }
    }
}

impl CertSecret {
    /// Parses a Secret. The error describes what is missing or invalid.
    pub(crate) fn parse(secret: &Secret) -> Result<Self, String> {
        if let Some(rotation) = bytes(secret, ROTATION) {
            let rotation = serde_json::from_slice(rotation);
            return rotation
                .map(|rotation| Self::Rotated(Box::new(rotation)))
                .map_err(|error| format!("{ROTATION}: {error}"));
        }
        ServedPem::parse(secret).map(Self::External)
    }
}

impl ServedPem {
    /// Parses the usual keys of a Secret, whoever wrote them.
    pub(crate) fn parse(secret: &Secret) -> Result<Self, String> {
        let text = |key: &str| {
            let text = bytes(secret, key).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
            text.filter(|text| !text.is_empty())
        };
        let required = |key: &str| text(key).ok_or_else(|| format!("the key {key} is missing"));
        Ok(Self {
            certificate: required(CERTIFICATE)?,
            key: required(KEY)?,
            ca_bundle: text(CA_BUNDLE),
        })
    }
}

/// Whether cert-manager wrote a Secret.
pub(crate) fn is_of_cert_manager(secret: &Secret) -> bool {
    secret.annotations().contains_key(CERT_MANAGER)
}

fn bytes<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    Some(secret.data.as_ref()?.get(key)?.0.as_slice())
}

/// Builds the Secret for a rotation: a new one, or a patch of the Secret with this resource version.
pub(crate) fn build_secret(rotation: &Rotation, name: &str, version: Option<String>) -> Secret {
    let all = serde_json::to_string(rotation).unwrap_or_default();
    let data = [
        (CERTIFICATE, &rotation.current.certificate),
        (KEY, &rotation.current.key),
        (CA_BUNDLE, &rotation.ca_bundle()),
        (ROTATION, &all),
    ];
    let data: BTreeMap<String, ByteString> = data
        .into_iter()
        .map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())))
        .collect();
    Secret {
        // The type of a Secret is immutable.
        type_: version.is_none().then(|| "kubernetes.io/tls".to_owned()),
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: version,
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::certificates::IssuedCert;

    fn secret(data: &[(&str, &str)]) -> Secret {
        let data = data
            .iter()
            .map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
        Secret {
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_stored_rotation_is_parsed_and_served() {
        let names = ["a.svc".to_owned()];
        let issued =
            || IssuedCert::issue(&names, Timestamp::now(), Duration::from_secs(60)).unwrap();
        let rotation = Rotation {
            current: issued(),
            next: Some(issued()),
            former: None,
        };
        let written = build_secret(&rotation, "llsd-webhook", None);
        assert_eq!(written.metadata.name.as_deref(), Some("llsd-webhook"));
        let read = CertSecret::parse(&written).unwrap();
        assert!(matches!(&read, CertSecret::Rotated(read) if **read == rotation));
        let served = ServedPem::parse(&written).unwrap();
        assert_eq!(served.certificate, rotation.current.certificate);
        assert_eq!(served.ca_bundle, Some(rotation.ca_bundle()));
    }

    #[test]
    fn an_externally_managed_secret_is_served_unchanged() {
        let theirs = secret(&[("tls.crt", "c"), ("tls.key", "k"), ("ca.crt", "a")]);
        let read = CertSecret::parse(&theirs).unwrap();
        let CertSecret::External(served) = read else {
            panic!("it has no rotation");
        };
        assert_eq!(
            (served.certificate.as_str(), served.key.as_str()),
            ("c", "k")
        );
        assert_eq!(served.ca_bundle.as_deref(), Some("a"));
    }

    #[test]
    fn a_secret_that_cert_manager_took_over_is_served_as_cert_manager_wrote_it() {
        let mut theirs = secret(&[("tls.crt", "c"), ("tls.key", "k"), ("rotation.json", "{}")]);
        assert_eq!(ServedPem::parse(&theirs).unwrap().certificate, "c");
        assert!(!is_of_cert_manager(&theirs));
        let name = (
            "cert-manager.io/certificate-name".to_owned(),
            "a".to_owned(),
        );
        theirs.metadata.annotations = Some([name].into());
        assert!(is_of_cert_manager(&theirs));
    }

    #[test]
    fn the_error_for_an_incomplete_secret_names_the_missing_key() {
        let reason = |secret| CertSecret::parse(&secret).err().unwrap();
        assert_eq!(
            reason(secret(&[("tls.crt", "c"), ("tls.key", "")])),
            "the key tls.key is missing"
        );
        assert!(reason(secret(&[("rotation.json", "{}")])).starts_with("rotation.json: "));
    }
}
