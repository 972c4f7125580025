//! Parses Sigstore bundles.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::SIGN_PREDICATE;
use crate::digest::Digest;

pub(super) const IN_TOTO: &str = "application/vnd.in-toto+json";

/// The content of a bundle.
pub(super) struct SignedBundle {
    /// The signed bytes.
    pub(super) message: Vec<u8>,
    /// The signature over `message`.
    pub(super) signature: Vec<u8>,
    /// The digest of the manifest that the bundle refers to.
    pub(super) subject: Option<Digest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: Option<Envelope>,
    message_signature: Option<MessageSignature>,
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
    match bundle {
        Bundle {
            dsse_envelope: Some(envelope),
            message_signature: None,
        } => {
            let Envelope {
                payload,
                payload_type,
                signatures,
            } = envelope;
            if payload_type != IN_TOTO {
                return Err(format!(
                    "signs {payload_type:?} instead of an in-toto statement"
                ));
            }
            let [EnvelopeSignature { sig }] = signatures.as_slice() else {
                return Err("does not have exactly one signature".to_owned());
            };
            let payload = decode(&payload)?;
            let subject = statement_subject(&payload, digest)?;
            let message = pre_authentication(&payload_type, &payload);
            Ok(SignedBundle {
                message,
                signature: decode(sig)?,
                subject,
            })
        }
        // The signature is over the bytes of the manifest, so it cannot refer to another manifest.
        Bundle {
            dsse_envelope: None,
            message_signature: Some(MessageSignature { signature }),
        } => Ok(SignedBundle {
            message: manifest_bytes.to_vec(),
            signature: decode(&signature)?,
            subject: Some(digest.clone()),
        }),
        _ => Err("contains neither a statement nor a signature".to_owned()),
    }
}

/// The digest that a statement refers to: `digest` if it is one of the subjects, otherwise the first.
fn statement_subject(payload: &[u8], digest: &Digest) -> Result<Option<Digest>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Statement {
        predicate_type: String,
        subject: Vec<Subject>,
    }
    #[derive(Deserialize)]
    struct Subject {
        digest: SubjectDigest,
    }
    #[derive(Deserialize)]
    struct SubjectDigest {
        sha256: Option<String>,
    }
    let statement: Statement =
        serde_json::from_slice(payload).map_err(|_| "contains no in-toto statement".to_owned())?;
    if statement.predicate_type != SIGN_PREDICATE {
        return Err(format!(
            "has predicate type {:?}, which is not a signature",
            statement.predicate_type
        ));
    }
    let named = statement
        .subject
        .into_iter()
        .filter_map(|subject| subject.digest.sha256);
    let digests: Vec<Digest> = named
        .filter_map(|hex| format!("sha256:{hex}").parse().ok())
        .collect();
    let own = digests.iter().find(|other| *other == digest).cloned();
    Ok(own.or(digests.into_iter().next()))
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
