//! Issues serving certificates and decides the next step of a rotation.
//!
//! Each certificate has its own CA, whose key is discarded after it has signed the certificate. A
//! rotation has three steps, so that the served certificate is always trusted by the API servers:
//!
//! 1. the CA of the next certificate is added to the CA bundle;
//! 2. after the bundle has reached all API servers, the next certificate is served;
//! 3. later the CA of the previous certificate is removed from the bundle.
//!
//! This module uses no clock and no cluster: the time and the stored state are arguments, and the state
//! to store is the result.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Certificates are valid from an hour ago, because the clock of an API server may be slow.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// The periods of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// The lifetime of a certificate and its CA.
    pub valid: Duration,
    /// How long before its expiry a certificate is replaced.
    pub renew_before: Duration,
    /// The longest time that a new CA bundle takes to reach all API servers.
    pub settle: Duration,
    /// How long the previous CA stays in the bundle after its certificate was replaced.
    pub overlap: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            valid: HOUR * 24 * 90,
            renew_before: HOUR * 24 * 30,
            // API servers see a change within seconds. This allows for a disconnection of minutes.
            settle: HOUR / 6,
            overlap: HOUR,
        }
    }
}

/// A serving certificate with its key and CA, in PEM. Stored as JSON, so field names must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IssuedCert {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The certificate of the CA that signed it.
    pub(crate) authority: String,
    /// The names and addresses that it is valid for.
    pub(crate) names: Vec<String>,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
}

impl IssuedCert {
    /// Issues a certificate signed by a new CA.
    pub(crate) fn issue(
        names: &[String],
        now: Timestamp,
        valid: Duration,
    ) -> Result<Self, rcgen::Error> {
        let expires = now.saturating_add(valid).unwrap_or(Timestamp::MAX);
        let lifetime = |params: &mut CertificateParams| {
            params.not_before = to_offset_date_time(now - BACKDATED);
            params.not_after = to_offset_date_time(expires);
        };

        let mut ca = CertificateParams::default();
        lifetime(&mut ca);
        // CAs in one bundle must have different names, or a client may select the wrong one.
        ca.distinguished_name = common_name(&format!("llsd webhook authority {now}"));
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let ca_key = KeyPair::generate()?;
        let ca_certificate = ca.self_signed(&ca_key)?.pem();

        let mut server = CertificateParams::new(names.to_vec())?;
        lifetime(&mut server);
        server.distinguished_name = common_name("llsd webhook");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let signed = server.signed_by(&key, &Issuer::new(ca, ca_key))?;
        Ok(Self {
            certificate: signed.pem(),
            key: key.serialize_pem(),
            authority: ca_certificate,
            names: names.to_vec(),
            issued: now,
            expires,
        })
    }
}

/// The state of a rotation. Stored as JSON, so field names must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rotation {
    /// The certificate that is served.
    pub(crate) current: IssuedCert,
    /// The certificate to serve next. Its CA is in the bundle already.
    pub(crate) next: Option<IssuedCert>,
    /// The CA of the previous certificate, which other replicas may still serve.
    pub(crate) former: Option<String>,
}

impl Rotation {
    /// All trusted CAs, in PEM.
    pub(crate) fn ca_bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.authority.as_str());
        let all = [
            Some(self.current.authority.as_str()),
            next,
            self.former.as_deref(),
        ];
        all.into_iter().flatten().collect()
    }
}

/// The next step of a rotation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait until this time.
    Wait(Timestamp),
    /// Store this state.
    Store(Box<Rotation>),
}

/// Decides the next step. `is_published`: whether the stored CA bundle was written to all objects that the
/// API servers read it from.
pub(crate) fn advance(
    stored: Option<Rotation>,
    names: &[String],
    now: Timestamp,
    is_published: bool,
    periods: &Periods,
) -> Result<Step, rcgen::Error> {
    let issue = || IssuedCert::issue(names, now, periods.valid);
    let store = |current, next, former| {
        let rotation = Rotation {
            current,
            next,
            former,
        };
        Ok(Step::Store(Box::new(rotation)))
    };
    let Some(rotation) = stored else {
        return store(issue()?, None, None);
    };
    let Rotation {
        current,
        next,
        former,
    } = rotation;
    if now >= current.expires || current.names != names {
        return store(issue()?, None, Some(current.authority));
    }
    if let Some(next) = next {
        let settles = after(next.issued, periods.settle);
        if is_published && now >= settles {
            return store(next, None, Some(current.authority));
        }
        return Ok(Step::Wait(settles));
    }
    if former.is_some() {
        let retires = after(current.issued, periods.settle + periods.overlap);
        if now >= retires {
            return store(current, None, None);
        }
        return Ok(Step::Wait(retires));
    }
    let renewal = current.expires.saturating_sub(periods.renew_before);
    let renewal = renewal.unwrap_or(Timestamp::MIN);
    if now >= renewal {
        return store(current, Some(issue()?), None);
    }
    Ok(Step::Wait(renewal))
}

fn after(time: Timestamp, period: Duration) -> Timestamp {
    time.saturating_add(period).unwrap_or(Timestamp::MAX)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    distinguished_name
}

/// Converts a time of `jiff` to a time of `time`. Both can represent all times that occur here.
fn to_offset_date_time(timestamp: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(timestamp.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIODS: Periods = Periods {
        valid: Duration::from_secs(1000),
        renew_before: Duration::from_secs(300),
        settle: Duration::from_secs(10),
        overlap: Duration::from_secs(50),
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(2_000_000_000 + second).unwrap()
    }

    fn names() -> Vec<String> {
        vec!["llsd.llsd-system.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    fn step(stored: Option<&Rotation>, second: i64, is_published: bool) -> Step {
        advance(
            stored.cloned(),
            &names(),
            at(second),
            is_published,
            &PERIODS,
        )
        .unwrap()
    }

    fn stored(step: Step) -> Rotation {
        match step {
            Step::Store(rotation) => *rotation,
            Step::Wait(until) => panic!("no step before {until}"),
        }
    }

    #[test]
    fn a_rotation_adds_the_ca_then_serves_then_removes_the_old_ca() {
        let first = stored(step(None, 0, false));
        assert_eq!(first.ca_bundle(), first.current.authority);
        assert_eq!(step(Some(&first), 1, true), Step::Wait(at(700)));

        let announced = stored(step(Some(&first), 700, true));
        let next = announced.next.clone().unwrap();
        assert_eq!(announced.current, first.current);
        assert_eq!(
            announced.ca_bundle(),
            first.current.authority.clone() + &next.authority
        );
        assert_eq!(step(Some(&announced), 701, true), Step::Wait(at(710)));

        let promoted = stored(step(Some(&announced), 710, true));
        assert_eq!(promoted.current, next);
        assert_eq!(
            promoted.ca_bundle(),
            next.authority.clone() + &first.current.authority
        );
        assert_eq!(step(Some(&promoted), 711, true), Step::Wait(at(760)));

        let retired = stored(step(Some(&promoted), 760, true));
        assert_eq!(retired.ca_bundle(), next.authority);
        assert_eq!(step(Some(&retired), 761, true), Step::Wait(at(1400)));
    }

    #[test]
    fn a_certificate_is_not_served_before_its_ca_is_published() {
        let first = stored(step(None, 0, false));
        let announced = stored(step(Some(&first), 700, true));
        assert_eq!(step(Some(&announced), 900, false), Step::Wait(at(710)));
    }

    #[test]
    fn expired_certificates_and_certificates_for_other_names_are_replaced_at_once() {
        let first = stored(step(None, 0, false));
        let late = stored(step(Some(&first), 1000, false));
        assert_ne!(late.current, first.current);
        assert!(late.ca_bundle().contains(&first.current.authority));

        let others = ["other.svc".to_owned()];
        let moved = advance(Some(first), &others, at(1), true, &PERIODS).unwrap();
        assert_eq!(stored(moved).current.names, others);
    }
}
