//! The serving certificate and its authority: what to keep, what to make, and when.
//!
//! Each generation has an authority of its own, whose key is dropped as soon as it has signed the one
//! certificate. A rotation has three steps, so that whoever asks is always answered with a certificate
//! that is trusted already: the next authority is *announced* in the bundle, the next certificate is
//! *promoted* once the bundle has had time to arrive, the former authority *retires* after that.
//!
//! No clock and no cluster here: the time and what is stored come in, what to store comes out.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Clocks of API servers may be behind.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// How long things last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// Life of a certificate and of its authority.
    pub valid: Duration,
    /// How long before its end a certificate is replaced.
    pub renew_before: Duration,
    /// How long a new bundle takes to reach every API server, at most.
    pub settle: Duration,
    /// How long the former authority stays in the bundle after its certificate was replaced.
    pub overlap: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            valid: HOUR * 24 * 90,
            renew_before: HOUR * 24 * 30,
            // API servers see a change within seconds; those that were cut off have some minutes.
            settle: HOUR / 6,
            overlap: HOUR,
        }
    }
}

/// A certificate with what belongs to it. All texts are PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// Certificate of the authority that signed it.
    pub(crate) authority: String,
    /// The names and addresses that it is good for.
    pub(crate) names: Vec<String>,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
}

impl Identity {
    /// Makes a new authority and a certificate that it signs.
    pub(crate) fn issue(
        names: &[String],
        now: Timestamp,
        valid: Duration,
    ) -> Result<Self, rcgen::Error> {
        let expires = now.saturating_add(valid).unwrap_or(Timestamp::MAX);
        let lifetime = |params: &mut CertificateParams| {
            params.not_before = moment(now - BACKDATED);
            params.not_after = moment(expires);
        };

        let mut authority = CertificateParams::default();
        lifetime(&mut authority);
        // Two authorities of one name in one bundle could be taken for each other.
        authority.distinguished_name = named(&format!("llsd webhook authority {now}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?.pem();

        let mut server = CertificateParams::new(names.to_vec())?;
        lifetime(&mut server);
        server.distinguished_name = named("llsd webhook");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let signed = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
        Ok(Self {
            certificate: signed.pem(),
            key: key.serialize_pem(),
            authority: authority_certificate,
            names: names.to_vec(),
            issued: now,
            expires,
        })
    }
}

/// The generations that there are at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rotation {
    /// What is served.
    pub(crate) current: Identity,
    /// What will be served; its authority is trusted already.
    pub(crate) next: Option<Identity>,
    /// An authority that is still trusted, for replicas that serve what it signed.
    pub(crate) former: Option<String>,
}

impl Rotation {
    /// Every authority to trust, in one text.
    pub(crate) fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.authority.as_str());
        let all = [
            Some(self.current.authority.as_str()),
            next,
            self.former.as_deref(),
        ];
        all.into_iter().flatten().collect()
    }
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before then.
    Keep(Timestamp),
    /// Store this.
    Store(Box<Rotation>),
}

/// Decides what to do. `is_published`: whether every API server has been given the stored bundle.
pub(crate) fn advance(
    stored: Option<Rotation>,
    names: &[String],
    now: Timestamp,
    is_published: bool,
    periods: &Periods,
) -> Result<Step, rcgen::Error> {
    let issue = || Identity::issue(names, now, periods.valid);
    let after = |moment: Timestamp, period: Duration| {
        moment.saturating_add(period).unwrap_or(Timestamp::MAX)
    };
    let store = |rotation| Ok(Step::Store(Box::new(rotation)));
    let Some(Rotation {
        current,
        next,
        former,
    }) = stored
    else {
        return store(Rotation {
            current: issue()?,
            next: None,
            former: None,
        });
    };
    if now >= current.expires || current.names != names {
        return store(Rotation {
            former: Some(current.authority),
            current: issue()?,
            next: None,
        });
    }
    if let Some(next) = next {
        let settled = after(next.issued, periods.settle);
        if is_published && now >= settled {
            return store(Rotation {
                former: Some(current.authority),
                current: next,
                next: None,
            });
        }
        return Ok(Step::Keep(settled));
    }
    if former.is_some() {
        let retires = after(current.issued, periods.settle + periods.overlap);
        if now >= retires {
            return store(Rotation {
                current,
                next: None,
                former: None,
            });
        }
        return Ok(Step::Keep(retires));
    }
    let renewal = current
        .expires
        .saturating_sub(periods.renew_before)
        .unwrap_or(Timestamp::MIN);
    if now >= renewal {
        return store(Rotation {
            current,
            next: Some(issue()?),
            former: None,
        });
    }
    Ok(Step::Keep(renewal))
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

/// Every moment of this millennium is one of both crates.
fn moment(timestamp: Timestamp) -> OffsetDateTime {
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
            Step::Keep(until) => panic!("nothing to do until {until}"),
        }
    }

    #[test]
    fn a_rotation_announces_then_promotes_then_retires() {
        let first = stored(step(None, 0, false));
        assert_eq!(first.bundle(), first.current.authority);
        assert_eq!(step(Some(&first), 1, true), Step::Keep(at(700)));

        let announced = stored(step(Some(&first), 700, true));
        let next = announced.next.clone().unwrap();
        assert_eq!(announced.current, first.current);
        assert_eq!(
            announced.bundle(),
            first.current.authority.clone() + &next.authority
        );
        assert_eq!(step(Some(&announced), 701, true), Step::Keep(at(710)));

        let promoted = stored(step(Some(&announced), 710, true));
        assert_eq!(promoted.current, next);
        assert_eq!(
            promoted.bundle(),
            next.authority.clone() + &first.current.authority
        );
        assert_eq!(step(Some(&promoted), 711, true), Step::Keep(at(760)));

        let retired = stored(step(Some(&promoted), 760, true));
        assert_eq!(retired.bundle(), next.authority);
        assert_eq!(step(Some(&retired), 761, true), Step::Keep(at(1400)));
    }

    #[test]
    fn nothing_is_served_that_nobody_was_told_to_trust() {
        let first = stored(step(None, 0, false));
        let announced = stored(step(Some(&first), 700, true));
        assert_eq!(step(Some(&announced), 900, false), Step::Keep(at(710)));
    }

    #[test]
    fn an_expired_certificate_and_one_for_other_names_are_replaced_at_once() {
        let first = stored(step(None, 0, false));
        let late = stored(step(Some(&first), 1000, false));
        assert_ne!(late.current, first.current);
        assert!(late.bundle().contains(&first.current.authority));

        let others = ["other.svc".to_owned()];
        let moved = advance(Some(first), &others, at(1), true, &PERIODS).unwrap();
        assert_eq!(stored(moved).current.names, others);
    }
}
