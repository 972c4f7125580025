//! Release numbers of the server package.

use std::fmt;

/// A release: major, minor, patch. What comes after (`rc2`, `.dev1`) does not change a file's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl Release {
    /// Reads `0.7.3`, `v0.7`, `0.3.0rc2`; nothing when there is no number to begin with.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().trim_start_matches('v').split('.').map(|part| {
            let digits = part
                .find(|c: char| !c.is_ascii_digit())
                .map_or(part, |end| part.get(..end).unwrap_or(""));
            digits.parse::<u32>().ok()
        });
        let major = parts.next()??;
        Some(Self(
            major,
            parts.next().flatten().unwrap_or(0),
            parts.next().flatten().unwrap_or(0),
        ))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_whatever_follows_its_numbers() {
        for (text, release) in [
            ("0.7.3", Some(Release(0, 7, 3))),
            ("v0.7", Some(Release(0, 7, 0))),
            ("0.3.0rc2", Some(Release(0, 3, 0))),
            ("0.2.10.1", Some(Release(0, 2, 10))),
            ("1.5.0+cu12", Some(Release(1, 5, 0))),
            ("latest", None),
            ("", None),
        ] {
            assert_eq!(Release::parse(text), release, "{text}");
        }
    }
}
