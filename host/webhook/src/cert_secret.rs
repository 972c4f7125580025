//! The Secret that holds the certificate.
//!
//! `tls.crt`, `tls.key` and `ca.crt` are what anybody would expect there. Ours has `rotation.json`
//! beside them; one that has not is somebody else's.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;

use crate::certificates::Rotation;
use crate::keeper::Served;

const ROTATION: &str = "rotation.json";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";

/// What a Secret holds, and whose it is.
pub(crate) enum Kept {
    /// Ours to rotate.
    Ours(Box<Rotation>),
    /// Somebody else's, to serve and to leave alone.
    Theirs(Served),
}

impl Kept {
    /// What to serve.
    pub(crate) fn served(self) -> Served {
        match self {
            Self::Theirs(served) => served,
            Self::Ours(rotation) => Served {
                bundle: Some(rotation.bundle()),
                certificate: rotation.current.certificate,
                key: rotation.current.key,
            },
        }
    }
}

/// Reads and writes the Secret.
pub(crate) struct Stored;

impl Stored {
    /// What the Secret holds, or why it is of no use.
    pub(crate) fn read(secret: &Secret) -> Result<Kept, String> {
        let data = secret.data.as_ref();
        let bytes = |key: &str| Some(data?.get(key)?.0.as_slice());
        let text = |key: &str| {
            let text = bytes(key).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
            text.filter(|text| !text.is_empty())
        };
        if let Some(rotation) = bytes(ROTATION) {
            let rotation = serde_json::from_slice(rotation);
            return rotation
                .map(|rotation| Kept::Ours(Box::new(rotation)))
                .map_err(|error| format!("{ROTATION}: {error}"));
        }
        let required = |key: &str| text(key).ok_or_else(|| format!("{key} is missing"));
        Ok(Kept::Theirs(Served {
            certificate: required(CERTIFICATE)?,
            key: required(KEY)?,
            bundle: text(AUTHORITIES),
        }))
    }

    /// The Secret for a rotation: a new one, or a patch of the one that has this version.
    pub(crate) fn write(rotation: &Rotation, name: &str, version: Option<String>) -> Secret {
        let all = serde_json::to_string(rotation).unwrap_or_default();
        let data = [
            (CERTIFICATE, &rotation.current.certificate),
            (KEY, &rotation.current.key),
            (AUTHORITIES, &rotation.bundle()),
            (ROTATION, &all),
        ];
        let data: BTreeMap<String, ByteString> = data
            .into_iter()
            .map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())))
            .collect();
        Secret {
            // The type of a Secret never changes.
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::certificates::Identity;

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
    fn what_is_written_is_read_and_served() {
        let names = ["a.svc".to_owned()];
        let issued = || Identity::issue(&names, Timestamp::now(), Duration::from_secs(60)).unwrap();
        let rotation = Rotation {
            current: issued(),
            next: Some(issued()),
            former: None,
        };
        let written = Stored::write(&rotation, "llsd-webhook", None);
        assert_eq!(written.metadata.name.as_deref(), Some("llsd-webhook"));
        let read = Stored::read(&written).unwrap();
        assert!(matches!(&read, Kept::Ours(read) if **read == rotation));
        let served = read.served();
        assert_eq!(served.certificate, rotation.current.certificate);
        assert_eq!(served.bundle, Some(rotation.bundle()));
    }

    #[test]
    fn a_secret_of_somebody_else_is_served_as_it_is() {
        let theirs = secret(&[("tls.crt", "c"), ("tls.key", "k"), ("ca.crt", "a")]);
        let read = Stored::read(&theirs).unwrap();
        assert!(matches!(&read, Kept::Theirs(_)));
        let served = read.served();
        assert_eq!(
            (served.certificate.as_str(), served.key.as_str()),
            ("c", "k")
        );
        assert_eq!(served.bundle.as_deref(), Some("a"));
    }

    #[test]
    fn a_secret_without_a_certificate_says_what_is_missing() {
        let reason = |secret| Stored::read(&secret).err().unwrap();
        assert_eq!(
            reason(secret(&[("tls.crt", "c"), ("tls.key", "")])),
            "tls.key is missing"
        );
        assert!(reason(secret(&[("rotation.json", "{}")])).starts_with("rotation.json: "));
    }
}
