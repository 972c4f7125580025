use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SigningKey as _,
};
use serde_json::json;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::bundle::{IN_TOTO, SignedBundle, pre_authentication};
use super::fetch::{SIMPLE_TYPE, simple_subject};
use super::*;

fn pair() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

fn public(pair: &KeyPair) -> PublicKey {
    PublicKey::from_pem(&pair.public_key_pem()).unwrap()
}

fn simple_message(digest: &Digest, kind: &str) -> Vec<u8> {
    let text = json!({"critical": {"identity": {"docker-reference": "r"},
        "image": {"docker-manifest-digest": digest}, "type": kind}, "optional": null});
    text.to_string().into_bytes()
}

fn simple(pair: &KeyPair, signed: &Digest) -> Signature {
    let message = simple_message(signed, SIMPLE_TYPE);
    let bytes = pair.sign(&message).unwrap();
    let subject = simple_subject(&message);
    Signature {
        location: "signature".into(),
        message,
        bytes,
        subject,
    }
}

fn statement(digest: &Digest, predicate: &str) -> Vec<u8> {
    let text = json!({"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate,
        "subject": [{"digest": {"sha256": digest.hex()}}], "predicate": {}});
    text.to_string().into_bytes()
}

fn bundle(pair: &KeyPair, payload: &[u8]) -> Vec<u8> {
    let signature = pair.sign(&pre_authentication(IN_TOTO, payload)).unwrap();
    let text = json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "dsseEnvelope": {"payload": STANDARD.encode(payload), "payloadType": IN_TOTO,
            "signatures": [{"sig": STANDARD.encode(signature)}]}});
    text.to_string().into_bytes()
}

fn bundled(bytes: &[u8], digest: &Digest, manifest: &[u8]) -> Result<Signature, String> {
    let SignedBundle {
        message,
        signature,
        subject,
    } = bundle::parse(bytes, digest, manifest)?;
    Ok(Signature {
        location: "bundle".into(),
        message,
        bytes: signature,
        subject,
    })
}

#[test]
fn every_supported_kind_of_key_verifies_its_own_signatures_only() {
    for kind in [
        &PKCS_ECDSA_P256_SHA256,
        &PKCS_ECDSA_P384_SHA384,
        &PKCS_ED25519,
    ] {
        let pair = KeyPair::generate_for(kind).unwrap();
        let key = public(&pair);
        let signature = pair.sign(b"text").unwrap();
        assert!(key.verifies(b"text", &signature));
        assert!(!key.verifies(b"texT", &signature));
        assert!(!key.verifies(b"text", &signature[1..]));
        assert!(!public(&KeyPair::generate_for(kind).unwrap()).verifies(b"text", &signature));
    }
}

#[test]
fn invalid_public_keys_are_refused() {
    assert_eq!(PublicKey::from_pem("key"), Err(KeyError::NotPem));
    assert_eq!(
        PublicKey::from_pem(&pair().serialize_pem()),
        Err(KeyError::NotPem)
    );
    let rsa = "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf\n9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==\n-----END PUBLIC KEY-----\n";
    assert_eq!(PublicKey::from_pem(rsa), Err(KeyError::Unsupported));
}

#[test]
fn a_threshold_counts_keys_and_not_signatures() {
    let (a, b) = (pair(), pair());
    let digest = Digest::of(b"manifest");
    let keys = [public(&a), public(&b)];
    let twice_a = [simple(&a, &digest), simple(&a, &digest)];
    assert_eq!(
        count_signers(&twice_a, &digest, &keys, 1, vec![])
            .unwrap()
            .len(),
        1
    );
    let error = count_signers(&twice_a, &digest, &keys, 2, vec![]).unwrap_err();
    assert!(
        error.to_string().contains("has 1 valid signature(s)"),
        "{error}"
    );
    let both = [simple(&a, &digest), simple(&b, &digest)];
    assert_eq!(
        count_signers(&both, &digest, &keys, 2, vec![])
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_valid_signature_of_another_manifest_does_not_count() {
    let a = pair();
    let (ours, other) = (Digest::of(b"ours"), Digest::of(b"other"));
    let replayed = [simple(&a, &other)];
    let error = count_signers(&replayed, &ours, &[public(&a)], 1, vec![]).unwrap_err();
    assert!(
        error.to_string().contains(&format!("signs {other}")),
        "{error}"
    );
    let payload = statement(&other, SIGN_PREDICATE);
    let replayed = bundled(&bundle(&a, &payload), &ours, b"ours").unwrap();
    assert!(count_signers(&[replayed], &ours, &[public(&a)], 1, vec![]).is_err());
}

#[test]
fn messages_of_another_type_do_not_count() {
    let a = pair();
    let digest = Digest::of(b"m");
    assert_eq!(
        simple_subject(&simple_message(&digest, "something else")),
        None
    );
    assert_eq!(simple_subject(b"{}"), None);
    let attestation = bundle(&a, &statement(&digest, "https://slsa.dev/provenance/v1"));
    assert!(bundled(&attestation, &digest, b"m").is_err());
    assert!(bundled(b"{}", &digest, b"m").is_err());
    assert!(bundled(b"no json", &digest, b"m").is_err());
}

#[test]
fn a_bundle_verifies_and_an_altered_one_does_not() {
    let a = pair();
    let digest = Digest::of(b"m");
    let good = bundle(&a, &statement(&digest, SIGN_PREDICATE));
    let found = bundled(&good, &digest, b"m").unwrap();
    assert!(count_signers(&[found], &digest, &[public(&a)], 1, vec![]).is_ok());

    // Replace the statement and keep the signature.
    let other = Digest::of(b"x");
    let swapped = String::from_utf8(good).unwrap().replace(
        &STANDARD.encode(statement(&digest, SIGN_PREDICATE)),
        &STANDARD.encode(statement(&other, SIGN_PREDICATE)),
    );
    let found = bundled(swapped.as_bytes(), &other, b"x").unwrap();
    assert!(count_signers(&[found], &other, &[public(&a)], 1, vec![]).is_err());
}

#[test]
fn a_bare_message_signature_is_checked_against_the_manifest_bytes() {
    let a = pair();
    let sign = |bytes: &[u8]| {
        let signature = STANDARD.encode(a.sign(bytes).unwrap());
        json!({"messageSignature": {"signature": signature}})
            .to_string()
            .into_bytes()
    };
    let digest = Digest::of(b"m");
    let good = bundled(&sign(b"m"), &digest, b"m").unwrap();
    assert!(count_signers(&[good], &digest, &[public(&a)], 1, vec![]).is_ok());
    let bad = bundled(&sign(b"other"), &digest, b"m").unwrap();
    assert!(count_signers(&[bad], &digest, &[public(&a)], 1, vec![]).is_err());
}
