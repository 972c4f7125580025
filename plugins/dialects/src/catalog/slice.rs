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
    /// Where its lines and their first two words lie.
    pub(crate) lines: &'static [Line],
}

/// A line of a slice: where it starts, and where its API, its provider type and it end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    start: u16,
    api: u16,
    kind: u16,
    end: u16,
}

impl Slice {
    /// One provider type of an API.
    pub(super) fn find(&self, api: &str, provider_type: &str) -> Option<Provider> {
        let wanted = (api, provider_type);
        let key = |line: &Line| (self.api(line), self.cut(line.api + 1, line.kind));
        let place = self.lines.partition_point(|line| key(line) < wanted);
        let line = self.lines.get(place).filter(|line| key(line) == wanted)?;
        self.provider(line)
    }

    /// The provider types of an API, in order of their type.
    pub(super) fn types(&self, api: &str) -> impl Iterator<Item = Provider> {
        let place = self.lines.partition_point(|line| self.api(line) < api);
        let rest = self.lines.get(place..).unwrap_or_default().iter();
        rest.take_while(move |line| self.api(line) == api)
            .filter_map(|line| self.provider(line))
    }

    /// Every API that has providers, sorted.
    pub(super) fn apis(&self) -> impl Iterator<Item = &'static str> {
        let mut rest = self.lines;
        std::iter::from_fn(move || {
            let api = self.api(rest.first()?);
            let end = rest.partition_point(|line| self.api(line) <= api);
            rest = &rest[end..];
            Some(api)
        })
    }

    fn api(&self, line: &Line) -> &'static str {
        self.cut(line.start, line.api)
    }

    fn provider(&self, line: &Line) -> Option<Provider> {
        Provider::parse(self.cut(line.start, line.end))
    }

    fn cut(&self, start: u16, end: u16) -> &'static str {
        let place = usize::from(start)..usize::from(end);
        self.text.get(place).unwrap_or_default()
    }
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

/// Where they lie. A slice that does not fit does not compile.
pub(crate) const fn index<const LINES: usize>(text: &str) -> [Line; LINES] {
    let bytes = text.as_bytes();
    assert!(
        bytes.len() <= u16::MAX as usize,
        "a slice has less than 64 KiB"
    );
    let empty = Line {
        start: 0,
        api: 0,
        kind: 0,
        end: 0,
    };
    let (mut lines, mut line, mut at) = ([empty; LINES], 0, 0);
    while line < LINES {
        let start = at;
        let api = find(bytes, start, b' ');
        let kind = find(bytes, api as usize + 1, b' ');
        let end = find(bytes, kind as usize + 1, b'\n');
        lines[line] = Line {
            start: start as u16,
            api,
            kind,
            end,
        };
        at = end as usize + 1;
        line += 1;
    }
    lines
}

/// Where a byte first stands from a place on.
const fn find(bytes: &[u8], mut at: usize, byte: u8) -> u16 {
    while bytes[at] != byte {
        at += 1;
    }
    at as u16
}
