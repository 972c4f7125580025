//! Parses Sigstore bundles.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{SIGN_PREDICATE, Subject, shortened};
use crate::digest::Digest;

pub(super) const IN_TOTO: &str = "application/vnd.in-toto+json";

/// The content of a bundle.
pub(super) struct SignedBundle {
    /// The signed bytes.
    pub(super) message: Vec<u8>,
    /// The signature over `message`.
    pub(super) signature: Vec<u8>,
    /// The manifest and the repository that the bundle refers to.
    pub(super) subject: Subject,
    /// The predicate type, if the bundle is an attestation and not a signature.
    pub(super) attestation: Option<String>,
    /// Whether the bundle has the certificate of its signer.
    pub(super) is_certified: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    #[serde(default)]
    verification_material: Material,
    dsse_envelope: Option<Envelope>,
    message_signature: Option<MessageSignature>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    certificate: Option<IgnoredAny>,
    x509_certificate_chain: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
struct MessageSignature {
    signature: String,
}

/// Parses a bundle for the manifest with this digest. The error completes a sentence about the bundle.
pub(super) fn parse(
    bytes: &[u8],
    digest: &Digest,
    manifest_bytes: &[u8],
) -> Result<SignedBundle, String> {
    let decode = |text: &str| {
        STANDARD
            .decode(text)
            .map_err(|_| "is not valid base64".to_owned())
    };
    let bundle: Bundle =
        serde_json::from_slice(bytes).map_err(|_| "is not a valid Sigstore bundle".to_owned())?;
    let Bundle {
        verification_material,
        dsse_envelope,
        message_signature,
    } = bundle;
    let Material {
        certificate,
        x509_certificate_chain,
    } = verification_material;
    let is_certified = certificate.is_some() || x509_certificate_chain.is_some();
    match (dsse_envelope, message_signature) {
        (Some(envelope), None) => {
            let Envelope {
                payload,
                payload_type,
                signatures,
            } = envelope;
            if payload_type != IN_TOTO {
                return Err(format!(
                    "signs {:?} instead of an in-toto statement",
                    shortened(&payload_type)
                ));
            }
            let [EnvelopeSignature { sig }] = signatures.as_slice() else {
                return Err("does not have exactly one signature".to_owned());
            };
            let payload = decode(&payload)?;
            let (subject, attestation) = statement_subject(&payload, digest)?;
            let message = pre_authentication(&payload_type, &payload);
            Ok(SignedBundle {
                message,
                signature: decode(sig)?,
                subject,
                attestation,
                is_certified,
            })
        }
        // The signature is over the bytes of the manifest, so it cannot refer to another manifest.
        (None, Some(MessageSignature { signature })) => Ok(SignedBundle {
            message: manifest_bytes.to_vec(),
            signature: decode(&signature)?,
            subject: Subject {
                digest: Some(digest.clone()),
                repository: None,
            },
            attestation: None,
            is_certified,
        }),
        _ => Err("contains neither a statement nor a signature".to_owned()),
    }
}

/// The subject that a statement refers to (the one with `digest` if there is one, otherwise the first), and
/// the predicate type of an attestation.
fn statement_subject(payload: &[u8], digest: &Digest) -> Result<(Subject, Option<String>), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Statement {
        predicate_type: String,
        subject: Vec<StatementSubject>,
    }
    #[derive(Deserialize)]
    struct StatementSubject {
        #[serde(default)]
        name: String,
        digest: SubjectDigest,
        #[serde(default)]
        annotations: SubjectAnnotations,
    }
    #[derive(Deserialize)]
    struct SubjectDigest {
        sha256: Option<String>,
    }
    /// `cosign sign` writes no name, but the annotations of `-a`.
    #[derive(Default, Deserialize)]
    struct SubjectAnnotations {
        #[serde(rename = "docker-reference")]
        repository: Option<String>,
    }
    let statement: Statement =
        serde_json::from_slice(payload).map_err(|_| "contains no in-toto statement".to_owned())?;
    let attestation = Some(statement.predicate_type).filter(|one| one != SIGN_PREDICATE);
    let subjects = statement.subject.into_iter().map(|subject| {
        let hex = subject.digest.sha256.unwrap_or_default();
        let named = Some(subject.name).filter(|name| !name.is_empty());
        Subject {
            digest: format!("sha256:{hex}").parse().ok(),
            repository: subject.annotations.repository.or(named),
        }
    });
    let mut subjects: Vec<Subject> = subjects.filter(|one| one.digest.is_some()).collect();
    let own = subjects
        .iter()
        .position(|one| one.digest.as_ref() == Some(digest));
    let subject = match subjects.is_empty() {
        true => Subject::default(),
        false => subjects.swap_remove(own.unwrap_or(0)),
    };
    Ok((subject, attestation))
}

/// The pre-authentication encoding of DSSE, which is the signed message.
pub(super) fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}
