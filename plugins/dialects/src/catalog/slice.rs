//! The catalogue of one release as text, with an index that is made when the adapter is compiled.
//!
//! A guest starts afresh on every call, so that an index made at run time would cost more than it saves.

use super::Provider;
use crate::release::Release;

/// The catalogue of one release, used from `from` on.
#[derive(Debug)]
pub(crate) struct Slice {
    /// First release that it is used for.
    pub(crate) from: Release,
    /// The text that `catalog/extract.py` printed: lines sorted by API and provider type.
    pub(crate) text: &'static str,
    /// Where its lines start.
    pub(crate) lines: &'static [u16],
}

impl Slice {
    /// One provider type of an API.
    pub(super) fn find(&self, api: &str, provider_type: &str) -> Option<Provider> {
        let wanted = (api, provider_type);
        let place = self
            .lines
            .partition_point(|at| key(self.from(*at)) < wanted);
        let line = self.line(*self.lines.get(place)?)?;
        (key(line) == wanted).then(|| Provider::parse(line))?
    }

    /// The provider types of an API, in order of their type.
    pub(super) fn types(&self, api: &str) -> impl Iterator<Item = Provider> {
        let place = self.lines.partition_point(|at| key(self.from(*at)).0 < api);
        let rest = self.lines.get(place..).unwrap_or_default().iter();
        rest.map_while(move |at| self.line(*at).filter(|line| key(line).0 == api))
            .filter_map(Provider::parse)
    }

    /// Every API that has providers, sorted.
    pub(super) fn apis(&self) -> impl Iterator<Item = &'static str> {
        let mut rest = self.lines;
        std::iter::from_fn(move || {
            let api = key(self.from(*rest.first()?)).0;
            let end = rest.partition_point(|at| key(self.from(*at)).0 <= api);
            rest = &rest[end..];
            Some(api)
        })
    }

    /// The text from the start of a line on.
    fn from(&self, start: u16) -> &'static str {
        self.text.get(usize::from(start)..).unwrap_or_default()
    }

    fn line(&self, start: u16) -> Option<&'static str> {
        self.from(start).lines().next()
    }
}

/// What the lines are sorted by: API and provider type.
fn key(line: &str) -> (&str, &str) {
    let (api, rest) = line.split_once(' ').unwrap_or((line, ""));
    (api, rest.split_once(' ').map_or(rest, |(kind, _)| kind))
}

/// How many lines a slice has.
pub(crate) const fn count_lines(text: &str) -> usize {
    let (bytes, mut at, mut lines) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        if bytes[at] == b'\n' {
            lines += 1;
        }
        at += 1;
    }
    lines
}

/// Where they start. A slice that does not fit does not compile.
pub(crate) const fn line_starts<const LINES: usize>(text: &str) -> [u16; LINES] {
    let bytes = text.as_bytes();
    assert!(
        bytes.len() <= u16::MAX as usize,
        "a slice has less than 64 KiB"
    );
    let (mut starts, mut line, mut at) = ([0; LINES], 0, 0);
    while line + 1 < LINES {
        if bytes[at] == b'\n' {
            line += 1;
            starts[line] = at as u16 + 1;
        }
        at += 1;
    }
    starts
}
