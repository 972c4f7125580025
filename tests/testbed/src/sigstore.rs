//! A certificate authority and a transparency log inside a test, as Fulcio and Rekor are for keyless
//! signatures.
//!
//! In: a statement, and who signs it when. Out: a bundle as `cosign sign` writes it, and the
//! `trusted_root.json` with which a verifier trusts it. Nothing listens: both only sign.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
    SigningKey as _,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

/// The media type of a bundle, which is also the artifact type of its referrer.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The type of a signed statement.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// The extension that names the issuer of the signer's token.
const ISSUER_OID: [u64; 9] = [1, 3, 6, 1, 4, 1, 57264, 1, 8];
/// How long the certificate of a signer is valid, as at Fulcio.
const VALIDITY: SignedDuration = SignedDuration::from_mins(10);
/// How long ago the authority and the log were created.
const AGE: SignedDuration = SignedDuration::from_hours(24 * 30);
/// The name of the log in its checkpoints.
const ORIGIN: &str = "log.example.com";

/// A certificate authority and a transparency log.
pub struct Sigstore {
    authority: Issuer<'static, KeyPair>,
    /// The certificate of the authority, DER.
    root: Vec<u8>,
    log: KeyPair,
}

/// What is signed, by whom and when.
#[derive(Debug, Clone)]
pub struct KeylessSignature<'a> {
    /// The issuer of the signer's token.
    pub issuer: &'a str,
    /// The signer, as a URL.
    pub subject: &'a str,
    /// The start of the certificate, which is valid for ten minutes.
    pub certified_at: Timestamp,
    /// The time of the log entry; `None` if the signature is not in the log.
    pub logged_at: Option<Timestamp>,
    /// The in-toto statement.
    pub statement: &'a [u8],
}

impl Sigstore {
    /// Creates an authority and a log with new keys.
    pub fn generate() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = date(Timestamp::now() - AGE)?;
        params.not_after = date(Timestamp::now() + AGE)?;
        let root = params.self_signed(&key)?.der().to_vec();
        Ok(Self {
            authority: Issuer::new(params, key),
            root,
            log: KeyPair::generate()?,
        })
    }

    /// The `trusted_root.json` that names the authority and the log.
    pub fn trusted_root(&self) -> Value {
        let validity = json!({ "start": (Timestamp::now() - AGE).to_string() });
        let log = json!({
            "baseUrl": "https://log.example.com",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": STANDARD.encode(self.log.subject_public_key_info()),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": validity,
            },
            "logId": { "keyId": STANDARD.encode(self.log_id()) },
        });
        let authority = json!({
            "subject": { "organization": "example.com", "commonName": "test" },
            "uri": "https://ca.example.com",
            "certChain": { "certificates": [{ "rawBytes": STANDARD.encode(&self.root) }] },
            "validFor": validity,
        });
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log],
            "certificateAuthorities": [authority],
            "ctlogs": [],
            "timestampAuthorities": [],
        })
    }

    /// Signs a statement with a new key, certifies the key, and adds the signature to the log.
    pub fn sign(&self, signature: &KeylessSignature<'_>) -> Result<Value> {
        let KeylessSignature {
            issuer,
            subject,
            certified_at,
            logged_at,
            statement,
        } = signature;
        let statement = *statement;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI((*subject).try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = date(*certified_at)?;
        params.not_after = date(*certified_at + VALIDITY)?;
        let extension = CustomExtension::from_oid_content(&ISSUER_OID, utf8_string(issuer)?);
        params.custom_extensions = vec![extension];
        let certificate = params.signed_by(&key, &self.authority)?;

        let message = [
            format!("DSSEv1 {} {IN_TOTO} {} ", IN_TOTO.len(), statement.len()).as_bytes(),
            statement,
        ]
        .concat();
        let signed = STANDARD.encode(key.sign(&message)?);
        let entries = match logged_at {
            Some(time) => vec![self.entry(statement, &signed, &certificate.pem(), *time)?],
            None => Vec::new(),
        };
        Ok(json!({
            "mediaType": BUNDLE,
            "verificationMaterial": {
                "certificate": { "rawBytes": STANDARD.encode(certificate.der()) },
                "tlogEntries": entries,
            },
            "dsseEnvelope": {
                "payload": STANDARD.encode(statement),
                "payloadType": IN_TOTO,
                "signatures": [{ "sig": signed }],
            },
        }))
    }

    /// The entry of a signature in the log, which has no other entry.
    fn entry(
        &self,
        statement: &[u8],
        signature: &str,
        certificate: &str,
        time: Timestamp,
    ) -> Result<Value> {
        let hash = HEXLOWER.encode(&Sha256::digest(statement));
        let hash = json!({ "algorithm": "sha256", "value": hash });
        let verifier = STANDARD.encode(certificate);
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": hash,
                "payloadHash": hash,
                "signatures": [{ "signature": signature, "verifier": verifier }],
            },
        })
        .to_string();
        let encoded = STANDARD.encode(&body);
        let time = time.as_second();
        // Canonical JSON: the keys are sorted.
        let promise = format!(
            r#"{{"body":"{encoded}","integratedTime":{time},"logID":"{}","logIndex":0}}"#,
            HEXLOWER.encode(&self.log_id())
        );
        let promise = STANDARD.encode(self.log.sign(promise.as_bytes())?);
        // The hash of a tree with one leaf is the hash of the leaf (RFC 6962).
        let leaf = [&[0][..], body.as_bytes()].concat();
        let root = STANDARD.encode(Sha256::digest(&leaf));
        let head = format!("{ORIGIN}\n1\n{root}\n");
        let hint = &self.log_id()[..4];
        let signed = STANDARD.encode([hint, &self.log.sign(head.as_bytes())?].concat());
        Ok(json!({
            "logIndex": "0",
            "logId": { "keyId": STANDARD.encode(self.log_id()) },
            "kindVersion": { "kind": "dsse", "version": "0.0.1" },
            "integratedTime": time.to_string(),
            "inclusionPromise": { "signedEntryTimestamp": promise },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": root,
                "treeSize": "1",
                "hashes": [],
                "checkpoint": { "envelope": format!("{head}\n— {ORIGIN} {signed}\n") },
            },
            "canonicalizedBody": encoded,
        }))
    }

    fn log_id(&self) -> Vec<u8> {
        Sha256::digest(self.log.subject_public_key_info()).to_vec()
    }
}

fn date(time: Timestamp) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(time.as_second()).context("invalid date")
}

/// A string in DER, with a length of one byte.
fn utf8_string(text: &str) -> Result<Vec<u8>> {
    ensure!(text.len() < 128, "{text:?} is too long for this encoding");
    let length = u8::try_from(text.len())?;
    Ok([&[0x0c, length][..], text.as_bytes()].concat())
}
