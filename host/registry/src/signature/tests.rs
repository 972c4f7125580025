use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SigningKey as _,
};
use serde_json::json;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::bundle::{IN_TOTO, pre_authentication};
use super::fetch::{SIMPLE_TYPE, from_bundle, simple_subject};
use super::*;

pub(super) const REPOSITORY: &str = "quay.io/acme/adapter";

pub(super) fn pair() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

pub(super) fn public(pair: &KeyPair) -> PublicKey {
    PublicKey::from_pem(&pair.public_key_pem()).unwrap()
}

fn simple_message(digest: &Digest, kind: &str) -> Vec<u8> {
    let text = json!({"critical": {"identity": {"docker-reference": REPOSITORY},
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
        attestation: None,
        certified: None,
    }
}

pub(super) fn statement(digest: &Digest, predicate: &str) -> Vec<u8> {
    let text = json!({"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate,
        "subject": [{"digest": {"sha256": digest.hex()}}], "predicate": {}});
    text.to_string().into_bytes()
}

pub(super) fn bundle(pair: &KeyPair, payload: &[u8]) -> Vec<u8> {
    let signature = pair.sign(&pre_authentication(IN_TOTO, payload)).unwrap();
    let text = json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "dsseEnvelope": {"payload": STANDARD.encode(payload), "payloadType": IN_TOTO,
            "signatures": [{"sig": STANDARD.encode(signature)}]}});
    text.to_string().into_bytes()
}

pub(super) fn bundled(bytes: &[u8], digest: &Digest, manifest: &[u8]) -> Result<Signature, String> {
    let artifact = SignedArtifact {
        requested: &REPOSITORY.parse().unwrap(),
        digest,
        manifest,
    };
    from_bundle("bundle", bytes.to_vec(), &artifact)
}

/// The keys that signed `digest` in the repository of the tests.
fn count_signers(
    found: impl Into<Vec<Signature>>,
    digest: &Digest,
    keys: &[PublicKey],
    threshold: usize,
) -> Result<BTreeSet<String>, Error> {
    let verification = Verification {
        threshold,
        ..Verification::enforce(keys.to_vec())
    };
    verified(found, digest, REPOSITORY, &verification)
}

pub(super) fn verified(
    found: impl Into<Vec<Signature>>,
    digest: &Digest,
    requested: &str,
    verification: &Verification,
) -> Result<BTreeSet<String>, Error> {
    let artifact = SignedArtifact {
        requested: &requested.parse().unwrap(),
        digest,
        manifest: b"",
    };
    let all = Collected {
        signatures: found.into(),
        ..Collected::default()
    };
    conclude(all, &artifact, verification)
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
    let twice_a = || [simple(&a, &digest), simple(&a, &digest)];
    assert_eq!(
        count_signers(twice_a(), &digest, &keys, 1).unwrap().len(),
        1
    );
    let error = count_signers(twice_a(), &digest, &keys, 2).unwrap_err();
    assert!(
        error.to_string().contains("has 1 valid signature(s)"),
        "{error}"
    );
    let both = [simple(&a, &digest), simple(&b, &digest)];
    assert_eq!(count_signers(both, &digest, &keys, 2).unwrap().len(), 2);
}

#[test]
fn a_valid_signature_of_another_manifest_does_not_count() {
    let a = pair();
    let (ours, other) = (Digest::of(b"ours"), Digest::of(b"other"));
    let replayed = [simple(&a, &other)];
    let error = count_signers(replayed, &ours, &[public(&a)], 1).unwrap_err();
    assert!(
        error.to_string().contains(&format!("signs {other}")),
        "{error}"
    );
    let payload = statement(&other, SIGN_PREDICATE);
    let replayed = bundled(&bundle(&a, &payload), &ours, b"ours").unwrap();
    assert!(count_signers([replayed], &ours, &[public(&a)], 1).is_err());
}

#[test]
fn messages_of_another_type_do_not_count() {
    let a = pair();
    let digest = Digest::of(b"m");
    assert_eq!(
        simple_subject(&simple_message(&digest, "something else")),
        Subject::default()
    );
    assert_eq!(simple_subject(b"{}"), Subject::default());
    let attestation = bundle(&a, &statement(&digest, "https://slsa.dev/provenance/v1"));
    let attestation = bundled(&attestation, &digest, b"m").unwrap();
    let error = count_signers([attestation], &digest, &[public(&a)], 1).unwrap_err();
    let expected = "which is not a signature";
    assert!(error.to_string().contains(expected), "{error}");
    assert!(bundled(b"{}", &digest, b"m").is_err());
    assert!(bundled(b"no json", &digest, b"m").is_err());
}

#[test]
fn a_bundle_verifies_and_an_altered_one_does_not() {
    let a = pair();
    let digest = Digest::of(b"m");
    let good = bundle(&a, &statement(&digest, SIGN_PREDICATE));
    let found = bundled(&good, &digest, b"m").unwrap();
    assert!(count_signers([found], &digest, &[public(&a)], 1).is_ok());

    // Replace the statement and keep the signature.
    let other = Digest::of(b"x");
    let swapped = String::from_utf8(good).unwrap().replace(
        &STANDARD.encode(statement(&digest, SIGN_PREDICATE)),
        &STANDARD.encode(statement(&other, SIGN_PREDICATE)),
    );
    let found = bundled(swapped.as_bytes(), &other, b"x").unwrap();
    assert!(count_signers([found], &other, &[public(&a)], 1).is_err());
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
    assert!(count_signers([good], &digest, &[public(&a)], 1).is_ok());
    let bad = bundled(&sign(b"other"), &digest, b"m").unwrap();
    assert!(count_signers([bad], &digest, &[public(&a)], 1).is_err());
}

#[test]
fn a_signature_for_another_repository_does_not_count() {
    let a = pair();
    let digest = Digest::of(b"m");
    let trusting = Verification::enforce(vec![public(&a)]);
    let other = "quay.io/acme/other";
    let named = |repository: &str| {
        let statement = json!({"_type": "https://in-toto.io/Statement/v1", "predicate": {},
            "predicateType": SIGN_PREDICATE, "subject": [{"digest": {"sha256": digest.hex()},
                "annotations": {"docker-reference": repository}}]});
        bundled(&bundle(&a, statement.to_string().as_bytes()), &digest, b"m").unwrap()
    };
    for found in [simple(&a, &digest), named(REPOSITORY)] {
        let error = verified([found], &digest, other, &trusting).unwrap_err();
        let expected = format!("is for repository {REPOSITORY:?} and not for {other:?}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    for found in [simple(&a, &digest), named(REPOSITORY)] {
        assert!(verified([found], &digest, &format!("{REPOSITORY}:2"), &trusting).is_ok());
    }
}

#[test]
fn a_signature_that_names_no_repository_counts_unless_the_rule_requires_a_name() {
    let a = pair();
    let digest = Digest::of(b"m");
    let nameless = || {
        let payload = statement(&digest, SIGN_PREDICATE);
        bundled(&bundle(&a, &payload), &digest, b"m").unwrap()
    };
    let mut trusting = Verification::enforce(vec![public(&a)]);
    assert!(verified([nameless()], &digest, REPOSITORY, &trusting).is_ok());
    trusting.require_repository = true;
    let error = verified([nameless()], &digest, REPOSITORY, &trusting).unwrap_err();
    let fix = format!("-a docker-reference={REPOSITORY}");
    assert!(error.to_string().contains(&fix), "{error}");
}

#[test]
fn a_repository_of_docker_hub_is_compared_by_its_full_name() {
    assert!(is_repository(
        "index.docker.io/library/x",
        "docker.io/library/x"
    ));
    assert!(is_repository("quay.io/acme/x:1", "quay.io/acme/x"));
    assert!(!is_repository("quay.io/acme/x", "quay.io/acme/xy"));
    assert!(!is_repository("quay.io/acme", "quay.io/acme/x"));
    assert!(!is_repository("", "quay.io/acme/x"));
}

#[test]
fn a_failed_request_is_reported_only_if_the_other_signatures_do_not_suffice() {
    let a = pair();
    let digest = Digest::of(b"m");
    let requested = REPOSITORY.parse().unwrap();
    let artifact = SignedArtifact {
        requested: &requested,
        digest: &digest,
        manifest: b"m",
    };
    let failed = || {
        vec![RegistryError::ServerError {
            at: REPOSITORY.to_owned(),
            status: 503,
        }]
    };
    let trusting = Verification::enforce(vec![public(&a)]);
    let enough = Collected {
        signatures: vec![simple(&a, &digest)],
        failed: failed(),
        ..Collected::default()
    };
    assert!(conclude(enough, &artifact, &trusting).is_ok());
    let nothing = Collected {
        failed: failed(),
        ..Collected::default()
    };
    let error = conclude(nothing, &artifact, &trusting).unwrap_err();
    assert!(matches!(error, Error::Registry(_)), "{error}");
}

mod fuzz {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bundle_counts_only_for_its_repository_or_is_refused(
            text in ".{0,40}",
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let a = pair();
            let digest = Digest::of(b"m");
            let mut statement: serde_json::Value =
                serde_json::from_slice(&statement(&digest, SIGN_PREDICATE)).unwrap();
            statement["subject"][0]["name"] = json!(text);
            let good = bundle(&a, statement.to_string().as_bytes());
            let mut bytes = good.clone();
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            match bundled(&bytes, &digest, b"m") {
                // Only an unchanged payload verifies.
                Ok(found) => {
                    let keys = [public(&a)];
                    let is_own = text.is_empty() || is_repository(&text, REPOSITORY);
                    let counted = count_signers([found], &digest, &keys, 1).is_ok();
                    prop_assert!(!counted || is_own);
                }
                Err(problem) => prop_assert!(problem.len() < 1_000),
            }
            let _ = simple_subject(&bytes);
        }
    }
}

#[test]
fn a_required_attestation_must_be_signed_by_a_trusted_key_and_is_no_signature() {
    const TYPE: &str = "https://example.com/tested/v1";
    let (a, stranger) = (pair(), pair());
    let digest = Digest::of(b"m");
    let bundled_by = |pair: &KeyPair, predicate: &str| {
        let payload = statement(&digest, predicate);
        bundled(&bundle(pair, &payload), &digest, b"m").unwrap()
    };
    let signed = || bundled_by(&a, SIGN_PREDICATE);
    let mut trusting = Verification::enforce(vec![public(&a)]);
    trusting.attestations.insert(TYPE.to_owned());
    let verified = |found: Vec<Signature>| verified(found, &digest, REPOSITORY, &trusting);
    assert!(verified(vec![signed(), bundled_by(&a, TYPE)]).is_ok());
    for other in [
        bundled_by(&stranger, TYPE),
        bundled_by(&a, "https://example.com/other/v1"),
    ] {
        let error = verified(vec![signed(), other]).unwrap_err();
        assert!(
            matches!(error, Error::MissingAttestations { .. }),
            "{error}"
        );
    }
    let error = verified(vec![bundled_by(&a, TYPE)]).unwrap_err();
    assert!(
        matches!(error, Error::NotEnoughSignatures { .. }),
        "{error}"
    );
}
