//! Releases of the server package, ordered as PEP 440 orders them.
//!
//! A dialect starts at a release, and a few keys depend on one. Pre-releases sort before the release
//! they lead to; a local version (`+vendor1`) and a post-release sort as the release itself.

use std::fmt;

/// A release such as `0.7.3` or `0.3.0rc4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    numbers: [u32; 3],
    /// 0 for a development release, then alpha, beta and candidate, [`FINAL`] for the release.
    stage: u32,
}

/// The stage of a release that is not a pre-release.
const FINAL: u32 = u32::MAX;
/// Room for the numbers of one kind of pre-release.
const STAGE: u32 = 1000;
impl Release {
    /// The earliest pre-release of a version. As a lower bound it includes all of them.
    pub const fn first(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            numbers: [major, minor, patch],
            stage: 0,
        }
    }

    /// A release candidate of a version.
    pub const fn candidate(major: u32, minor: u32, patch: u32, number: u32) -> Self {
        Self {
            numbers: [major, minor, patch],
            stage: 3 * STAGE + number,
        }
    }

    /// Parses the version of a package: `0.7.3`, `v0.7`, `0.3.0rc2`, `0.3.0rc3+vendor0`.
    ///
    /// Returns `None` for text that does not start with a number, such as `latest`.
    // Called once per request, so that size counts and speed does not.
    #[cold]
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.as_bytes().trim_ascii();
        while let [b'v', after @ ..] = rest {
            rest = after;
        }
        if !rest.first()?.is_ascii_digit() {
            return None;
        }
        let (mut numbers, mut place) = ([0; 3], 0);
        // A fourth number, such as that of a post-release, does not change the order.
        while let [b'0'..=b'9', ..] = rest {
            let count = number(&mut rest);
            if let Some(slot) = numbers.get_mut(place) {
                *slot = count;
                place += 1;
            }
            if let [b'.', after @ ..] = rest
                && after.first().is_some_and(u8::is_ascii_digit)
            {
                rest = after;
            }
        }
        Some(Self {
            numbers,
            stage: stage(rest),
        })
    }

    /// Parses a lower bound: `0.7.0` includes its pre-releases, `0.3.0rc4` starts there.
    pub fn parse_bound(text: &str) -> Option<Self> {
        let release = Self::parse(text)?;
        let stage = if release.stage == FINAL {
            0
        } else {
            release.stage
        };
        Some(Self { stage, ..release })
    }

    /// Whether this is the given version, or a pre-release or post-release of it.
    pub fn is_version(self, major: u32, minor: u32, patch: u32) -> bool {
        self.numbers == [major, minor, patch]
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        match (self.stage / STAGE, self.stage % STAGE) {
            (1, number) => write!(f, "a{number}"),
            (2, number) => write!(f, "b{number}"),
            (3, number) => write!(f, "rc{number}"),
            _ => Ok(()),
        }
    }
}

/// Takes the digits at the start of a string.
#[cold]
fn number(rest: &mut &[u8]) -> u32 {
    let mut number = 0_u32;
    while let [digit @ b'0'..=b'9', after @ ..] = *rest {
        number = number
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'));
        *rest = after;
    }
    number
}

/// What follows the numbers: a pre-release, or anything else, which does not change the order.
#[cold]
fn stage(rest: &[u8]) -> u32 {
    let skip = |mut rest: &[u8]| -> usize {
        let all = rest.len();
        while let [b'.' | b'-' | b'_', after @ ..] = rest {
            rest = after;
        }
        all - rest.len()
    };
    let rest = rest.get(skip(rest)..).unwrap_or_default();
    let letters = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let (word, after) = rest.split_at_checked(letters).unwrap_or_default();
    let rank = match word {
        b"dev" => return 0,
        b"a" | b"alpha" => 1,
        b"b" | b"beta" => 2,
        b"c" | b"rc" | b"pre" | b"preview" => 3,
        _ => return FINAL,
    };
    let mut after = after.get(skip(after)..).unwrap_or_default();
    rank * STAGE + number(&mut after).min(STAGE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_as_pep_440_orders_them() {
        let ordered = [
            "0.2.24",
            "0.3.0.dev20251001",
            "0.3.0a1",
            "0.3.0b2",
            "0.3.0rc2",
            "0.3.0rc3+rhai0",
            "0.3.0-rc.4",
            "0.3.0rc10",
            "0.3.0",
            "0.3.1rc1",
            "0.3.1",
            "0.10",
            "v1.0",
        ];
        for pair in ordered.windows(2) {
            assert!(
                Release::parse(pair[0]) < Release::parse(pair[1]),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn local_versions_and_post_releases_sort_as_the_release() {
        for same in ["0.3.5.1+rhai0", "0.3.5+cu12", "0.3.5.post1", "0.3.5-cu12"] {
            assert_eq!(Release::parse(same), Release::parse("0.3.5"), "{same}");
        }
        for other in ["latest", "", "main", "rc1"] {
            assert_eq!(Release::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_bound_includes_the_pre_releases_of_its_version() {
        let bound = Release::parse_bound("0.4.0").unwrap();
        assert_eq!(bound, Release::first(0, 4, 0));
        assert!(Release::parse("0.4.0rc1").unwrap() >= bound);
        let late = Release::parse_bound("0.3.0rc4").unwrap();
        assert_eq!(late, Release::candidate(0, 3, 0, 4));
        assert!(Release::parse("0.3.0rc3+rhai0").unwrap() < late);
        assert!(Release::parse("0.3.0").unwrap() >= late);
        assert_eq!(late.to_string(), "0.3.0rc4");
        assert_eq!(bound.to_string(), "0.4.0");
    }
}
