//! The Secret that stores the certificate.
//!
//! It has the usual keys `tls.crt`, `tls.key` and `ca.crt`. If this operator manages it, it also has
//! `rotation.json`. A Secret without that key is managed externally.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;

use crate::certificates::Rotation;

const ROTATION: &str = "rotation.json";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_BUNDLE: &str = "ca.crt";

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
    /// The certificate to serve.
    pub(crate) fn into_served(self) -> ServedPem {
        match self {
            Self::External(served) => served,
            Self::Rotated(rotation) => (*rotation).into(),
        }
    }

    /// Parses a Secret. The error describes what is missing or invalid.
    pub(crate) fn parse(secret: &Secret) -> Result<Self, String> {
        let data = secret.data.as_ref();
        let bytes = |key: &str| Some(data?.get(key)?.0.as_slice());
        let text = |key: &str| {
            let text = bytes(key).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
            text.filter(|text| !text.is_empty())
        };
        if let Some(rotation) = bytes(ROTATION) {
            let rotation = serde_json::from_slice(rotation);
            return rotation
                .map(|rotation| Self::Rotated(Box::new(rotation)))
                .map_err(|error| format!("{ROTATION}: {error}"));
        }
        let required = |key: &str| text(key).ok_or_else(|| format!("the key {key} is missing"));
        Ok(Self::External(ServedPem {
            certificate: required(CERTIFICATE)?,
            key: required(KEY)?,
            ca_bundle: text(CA_BUNDLE),
        }))
    }
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
        let served = read.into_served();
        assert_eq!(served.certificate, rotation.current.certificate);
        assert_eq!(served.ca_bundle, Some(rotation.ca_bundle()));
    }

    #[test]
    fn an_externally_managed_secret_is_served_unchanged() {
        let theirs = secret(&[("tls.crt", "c"), ("tls.key", "k"), ("ca.crt", "a")]);
        let read = CertSecret::parse(&theirs).unwrap();
        assert!(matches!(&read, CertSecret::External(_)));
        let served = read.into_served();
        assert_eq!(
            (served.certificate.as_str(), served.key.as_str()),
            ("c", "k")
        );
        assert_eq!(served.ca_bundle.as_deref(), Some("a"));
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
