//! Sigstore bundles: what one signs, and about which manifest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::SIGN_PREDICATE;
use crate::digest::Digest;

pub(super) const IN_TOTO: &str = "application/vnd.in-toto+json";

/// The content of one bundle.
pub(super) struct Signed {
    /// What the mark is over.
    pub(super) message: Vec<u8>,
    /// The signature itself.
    pub(super) mark: Vec<u8>,
    /// The manifest it is about.
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

/// What a bundle signs, its mark, and the manifest it names.
pub(super) fn read(bytes: &[u8], digest: &Digest, manifest_bytes: &[u8]) -> Result<Signed, String> {
    let decode = |text: &str| {
        STANDARD
            .decode(text)
            .map_err(|_| "is not base64".to_owned())
    };
    let bundle: Bundle =
        serde_json::from_slice(bytes).map_err(|_| "is not a sigstore bundle".to_owned())?;
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
                return Err(format!("signs a {payload_type:?}, not a statement"));
            }
            let [EnvelopeSignature { sig }] = signatures.as_slice() else {
                return Err("does not have exactly one signature".to_owned());
            };
            let payload = decode(&payload)?;
            let subject = statement_subject(&payload, digest)?;
            let message = pre_authentication(&payload_type, &payload);
            Ok(Signed {
                message,
                mark: decode(sig)?,
                subject,
            })
        }
        // The mark is over the manifest itself, whose bytes we hold: it cannot be about another.
        Bundle {
            dsse_envelope: None,
            message_signature: Some(MessageSignature { signature }),
        } => Ok(Signed {
            message: manifest_bytes.to_vec(),
            mark: decode(&signature)?,
            subject: Some(digest.clone()),
        }),
        _ => Err("holds neither a statement nor a signature".to_owned()),
    }
}

/// The digest a statement is about: ours when it is among the subjects, else the first.
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
        serde_json::from_slice(payload).map_err(|_| "holds no in-toto statement".to_owned())?;
    if statement.predicate_type != SIGN_PREDICATE {
        return Err(format!(
            "states {:?}, which is not a signature",
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
    let ours = digests.iter().find(|other| *other == digest).cloned();
    Ok(ours.or(digests.into_iter().next()))
}

/// DSSE's pre-authentication encoding: what is really signed.
pub(super) fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}
