use jiff::{SignedDuration, Timestamp};
use llsd_testbed::{KeylessSignature, Sigstore};
use serde_json::{Value, json};

use super::tests::{REPOSITORY, bundle, bundled, pair, public, statement, verified};
use super::*;

const ISSUER: &str = "https://token.example.com";
const SUBJECT: &str = "https://git.example.com/acme/adapter/ci@refs/tags/v1.0.0";
const TESTED: &str = "https://example.com/tested/v1";

fn digest() -> Digest {
    Digest::of(b"m")
}

fn an_hour_ago() -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(1)
}

/// A signature of the artifact by the trusted identity, an hour ago.
fn ordinary(statement: &[u8]) -> KeylessSignature<'_> {
    KeylessSignature {
        issuer: ISSUER,
        subject: SUBJECT,
        certified_at: an_hour_ago(),
        logged_at: Some(an_hour_ago() + SignedDuration::from_secs(5)),
        statement,
    }
}

fn trusting(root: &Value) -> Verification {
    Verification {
        level: Level::Enforce,
        identities: vec![Identity::exact(ISSUER, SUBJECT).unwrap()],
        trusted_root: Some(TrustedRoot::parse(root.to_string().as_bytes()).unwrap()),
        ..Verification::skip()
    }
}

fn found(bundle: &Value) -> Signature {
    bundled(bundle.to_string().as_bytes(), &digest(), b"m").unwrap()
}

fn check(bundle: &Value, verification: &Verification) -> Result<BTreeSet<String>, Error> {
    verified([found(bundle)], &digest(), REPOSITORY, verification)
}

/// Asserts that a bundle does not count, for a reason that contains `expected`.
fn assert_rejected(bundle: &Value, verification: &Verification, expected: &str) {
    let error = check(bundle, verification).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_keyless_signature_counts_long_after_its_certificate_expired() {
    let sigstore = Sigstore::generate().unwrap();
    let signed = statement(&digest(), SIGN_PREDICATE);
    let bundle = sigstore.sign(&ordinary(&signed)).unwrap();
    let signers = check(&bundle, &trusting(&sigstore.trusted_root())).unwrap();
    assert_eq!(Vec::from_iter(signers), [format!("{SUBJECT} ({ISSUER})")]);
}

#[test]
fn another_subject_or_issuer_does_not_count() {
    let sigstore = Sigstore::generate().unwrap();
    let trusting = trusting(&sigstore.trusted_root());
    let signed = statement(&digest(), SIGN_PREDICATE);
    let subject = "https://git.example.com/acme/adapter/ci@refs/heads/main";
    let bundle = sigstore.sign(&KeylessSignature {
        subject,
        ..ordinary(&signed)
    });
    let expected = format!("is by {subject:?} of the issuer {ISSUER:?}, which is not a trusted");
    assert_rejected(&bundle.unwrap(), &trusting, &expected);
    let issuer = "https://token.evil.example";
    let bundle = sigstore.sign(&KeylessSignature {
        issuer,
        ..ordinary(&signed)
    });
    assert_rejected(&bundle.unwrap(), &trusting, issuer);
}

#[test]
fn a_certificate_or_log_entry_of_another_instance_does_not_count() {
    let (ours, other) = (Sigstore::generate().unwrap(), Sigstore::generate().unwrap());
    let (our_root, other_root) = (ours.trusted_root(), other.trusted_root());
    let signed = statement(&digest(), SIGN_PREDICATE);
    let bundle = other.sign(&ordinary(&signed)).unwrap();
    assert_rejected(&bundle, &trusting(&our_root), "inclusion promise");
    // Their log and our authority, and the reverse.
    let mut mixed = our_root.clone();
    mixed["tlogs"] = other_root["tlogs"].clone();
    assert_rejected(&bundle, &trusting(&mixed), "certificate chain is invalid");
    let bundle = ours.sign(&ordinary(&signed)).unwrap();
    assert_rejected(&bundle, &trusting(&mixed), "inclusion promise");
}

#[test]
fn a_certificate_counts_only_at_a_signed_time_within_its_validity() {
    let sigstore = Sigstore::generate().unwrap();
    let root = sigstore.trusted_root();
    let signed = statement(&digest(), SIGN_PREDICATE);
    let late = sigstore.sign(&KeylessSignature {
        logged_at: Some(an_hour_ago() + SignedDuration::from_mins(11)),
        ..ordinary(&signed)
    });
    assert_rejected(&late.unwrap(), &trusting(&root), "not verified");
    let not_logged = |certified_at| {
        let signature = KeylessSignature {
            certified_at,
            logged_at: None,
            ..ordinary(&signed)
        };
        sigstore.sign(&signature).unwrap()
    };
    let expired = not_logged(an_hour_ago());
    assert_rejected(&expired, &trusting(&root), "not verified");
    // Without a log in the root there is still no time at which a certificate was valid, not even now.
    let mut without_log = root;
    without_log["tlogs"] = json!([]);
    for bundle in [expired, not_logged(Timestamp::now())] {
        assert_rejected(&bundle, &trusting(&without_log), "not verified");
    }
}

#[test]
fn an_altered_time_proof_or_log_entry_does_not_count() {
    let sigstore = Sigstore::generate().unwrap();
    let trusting = trusting(&sigstore.trusted_root());
    let signed = statement(&digest(), SIGN_PREDICATE);
    let bundle = sigstore.sign(&ordinary(&signed)).unwrap();
    let earlier = (an_hour_ago() + SignedDuration::from_secs(4)).as_second();
    let other = sigstore.sign(&ordinary(&signed)).unwrap();
    let entry = |bundle: &Value| bundle["verificationMaterial"]["tlogEntries"][0].clone();
    for (key, value) in [
        ("integratedTime", json!(earlier.to_string())),
        (
            "inclusionPromise",
            entry(&other)["inclusionPromise"].clone(),
        ),
        ("inclusionProof", entry(&other)["inclusionProof"].clone()),
        ("inclusionProof", Value::Null),
    ] {
        let mut altered = bundle.clone();
        altered["verificationMaterial"]["tlogEntries"][0][key] = value;
        assert_rejected(&altered, &trusting, "not verified");
    }
    // The promise of the log alone, which the first version of bundles allows.
    let mut altered = bundle.clone();
    altered["mediaType"] = json!("application/vnd.dev.sigstore.bundle+json;version=0.1");
    check(&altered, &trusting).unwrap();
    altered["verificationMaterial"]["tlogEntries"][0]["inclusionProof"] = Value::Null;
    assert_rejected(&altered, &trusting, "no proof of a log entry");
    // A whole entry that belongs to another signature.
    let mut altered = bundle.clone();
    altered["verificationMaterial"]["tlogEntries"][0] = entry(&other);
    assert_rejected(&altered, &trusting, "not verified");
    check(&bundle, &trusting).unwrap();
}

#[test]
fn the_signature_of_another_digest_or_an_altered_statement_does_not_count() {
    let sigstore = Sigstore::generate().unwrap();
    let trusting = trusting(&sigstore.trusted_root());
    let other = statement(&Digest::of(b"other"), SIGN_PREDICATE);
    let bundle = sigstore.sign(&ordinary(&other)).unwrap();
    assert_rejected(&bundle, &trusting, "not verified");
    let own = statement(&digest(), SIGN_PREDICATE);
    let mut altered = bundle;
    let signed = sigstore.sign(&ordinary(&own)).unwrap();
    altered["dsseEnvelope"]["payload"] = signed["dsseEnvelope"]["payload"].clone();
    assert_rejected(&altered, &trusting, "not verified");
}

#[test]
fn keys_and_identities_count_together_and_each_once() {
    let sigstore = Sigstore::generate().unwrap();
    let (trusted, stranger) = (pair(), pair());
    let payload = statement(&digest(), SIGN_PREDICATE);
    let keyless = || found(&sigstore.sign(&ordinary(&payload)).unwrap());
    let by_key = |key| bundled(&bundle(key, &payload), &digest(), b"m").unwrap();
    let mut both = trusting(&sigstore.trusted_root());
    both.keys = vec![public(&trusted)];
    both.threshold = 2;
    let check = |found: Vec<Signature>, verification: &Verification| {
        verified(found, &digest(), REPOSITORY, verification)
    };
    let signers = check(vec![keyless(), by_key(&trusted)], &both).unwrap();
    assert_eq!(both.count_trusted(&signers), 2);
    for too_few in [
        vec![keyless(), keyless()],
        vec![keyless(), by_key(&stranger)],
        vec![by_key(&trusted)],
    ] {
        assert!(check(too_few, &both).is_err());
    }
    // Two workflows of one identity are one signer.
    both.identities = vec![Identity::matching(ISSUER, "https://git.example.com/acme/.*").unwrap()];
    let subject = "https://git.example.com/acme/other/ci@refs/heads/main";
    let signature = KeylessSignature {
        subject,
        ..ordinary(&payload)
    };
    let second = found(&sigstore.sign(&signature).unwrap());
    assert!(check(vec![keyless(), second], &both).is_err());
    assert!(check(vec![keyless(), by_key(&trusted)], &both).is_ok());
}

#[test]
fn a_required_attestation_may_be_keyless() {
    let sigstore = Sigstore::generate().unwrap();
    let mut demanding = trusting(&sigstore.trusted_root());
    demanding.attestations.insert(TESTED.to_owned());
    let keyless = |predicate| {
        let payload = statement(&digest(), predicate);
        found(&sigstore.sign(&ordinary(&payload)).unwrap())
    };
    let check = |found: Vec<Signature>| verified(found, &digest(), REPOSITORY, &demanding);
    assert!(check(vec![keyless(SIGN_PREDICATE), keyless(TESTED)]).is_ok());
    let error = check(vec![keyless(SIGN_PREDICATE)]).unwrap_err();
    assert!(
        matches!(error, Error::MissingAttestations { .. }),
        "{error}"
    );
}

#[test]
fn a_bundle_without_certificate_or_statement_is_explained() {
    let sigstore = Sigstore::generate().unwrap();
    let trusting = trusting(&sigstore.trusted_root());
    let payload = statement(&digest(), SIGN_PREDICATE);
    let by_key: Value = serde_json::from_slice(&bundle(&pair(), &payload)).unwrap();
    assert_rejected(&by_key, &trusting, "is no bundle with a certificate");
    let mut direct = sigstore.sign(&ordinary(&payload)).unwrap();
    let envelope = direct.as_object_mut().unwrap().remove("dsseEnvelope");
    let signature = envelope.unwrap()["signatures"][0]["sig"].clone();
    direct["messageSignature"] = json!({ "signature": signature });
    assert_rejected(&direct, &trusting, "no in-toto statement");
}

#[test]
fn an_unusable_trusted_root_is_refused() {
    let root = Sigstore::generate().unwrap().trusted_root();
    let parse = |root: &Value| TrustedRoot::parse(root.to_string().as_bytes());
    assert!(parse(&root).is_ok());
    let mut without_authority = root.clone();
    without_authority["certificateAuthorities"] = json!([]);
    assert_eq!(
        parse(&without_authority),
        Err(TrustedRootError::NoAuthority)
    );
    let mut invalid_key = root.clone();
    invalid_key["tlogs"][0]["publicKey"]["rawBytes"] = json!("AAAA");
    let mut invalid_certificate = root;
    invalid_certificate["certificateAuthorities"][0]["certChain"]["certificates"][0]["rawBytes"] =
        json!("AAAA");
    for invalid in [json!({}), json!([]), invalid_key, invalid_certificate] {
        assert!(
            matches!(parse(&invalid), Err(TrustedRootError::Invalid(_))),
            "{invalid}"
        );
    }
    let large = vec![b' '; MAX_TRUSTED_ROOT_BYTES + 1];
    let error = TrustedRoot::parse(&large).unwrap_err();
    assert_eq!(error, TrustedRootError::TooLarge(large.len()));
}
