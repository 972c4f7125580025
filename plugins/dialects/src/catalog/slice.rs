//! The catalogue of one release as text, with an index that is built when the adapter is compiled.
//!
//! Every call runs in a new instance, so an index built at run time would cost more than it saves. The
//! releases of one adapter share most of their lines, so their texts are merged, also at compile time.

use llsd_adapter_sdk::Release;

use super::Provider;

/// The catalogue of one release, used from `from` on.
#[derive(Debug)]
pub(crate) struct Slice {
    /// First release that it is used for.
    pub(crate) from: Release,
    /// Lines that `catalog/extract.py` printed, of this release and of others.
    pub(crate) text: &'static str,
    /// Where the lines of this release are, sorted by API and provider type.
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
        self.provider(self.line(api, provider_type)?)
    }

    /// The first two words and the rest of the line that begins with them.
    pub(crate) fn row(&self, api: &str, provider_type: &str) -> Option<[&'static str; 3]> {
        let line = self.line(api, provider_type)?;
        Some([
            self.api(line),
            self.kind(line),
            self.cut(line.kind + 1, line.end),
        ])
    }

    fn line(&self, api: &str, provider_type: &str) -> Option<&'static Line> {
        let wanted = (api, provider_type);
        let key = |line: &Line| (self.api(line), self.kind(line));
        let place = self.lines.partition_point(|line| key(line) < wanted);
        self.lines.get(place).filter(|line| key(line) == wanted)
    }

    /// Every line.
    #[cfg(test)]
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static str> {
        let lines = self.lines.iter();
        lines.map(|line| self.cut(line.start, line.end))
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

    fn kind(&self, line: &Line) -> &'static str {
        self.cut(line.api + 1, line.kind)
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

/// Where the lines of the releases from `first` to `last` are, which follow one another.
pub(crate) const fn range_of(text: &str, first: &str, last: &str) -> (usize, usize) {
    let bytes = text.as_bytes();
    let (mut start, mut end, mut at) = (bytes.len(), 0, 0);
    while at < bytes.len() {
        let line = at;
        while at < bytes.len() && bytes[at] != b'\n' {
            at += 1;
        }
        at += 1;
        if start > line && starts_with(bytes, line, first.as_bytes()) {
            start = line;
        }
        if starts_with(bytes, line, last.as_bytes()) {
            end = at;
        }
    }
    assert!(start < end, "there is no such release");
    (start, end)
}

/// Whether a word begins at a place.
const fn starts_with(bytes: &[u8], place: usize, word: &[u8]) -> bool {
    let mut at = 0;
    while at < word.len() {
        if place + at >= bytes.len() || bytes[place + at] != word[at] {
            return false;
        }
        at += 1;
    }
    place + at < bytes.len() && bytes[place + at] == b' '
}

/// A part of a text, which contains nothing of the rest.
pub(crate) const fn copy<const LENGTH: usize>(text: &str, start: usize) -> [u8; LENGTH] {
    let (bytes, mut part, mut at) = (text.as_bytes(), [0; LENGTH], 0);
    while at < LENGTH {
        part[at] = bytes[start + at];
        at += 1;
    }
    part
}

/// The lines of several texts, each once. Exists at compile time only.
pub(crate) struct Merged {
    bytes: [u8; u16::MAX as usize],
    length: usize,
    starts: [usize; 1024],
    lines: usize,
}

impl Merged {
    /// Merges texts. What does not fit into 64 KiB, which offsets can address, does not compile.
    pub(crate) const fn of(texts: &[&str]) -> Self {
        let mut merged = Self {
            bytes: [0; u16::MAX as usize],
            length: 0,
            starts: [0; 1024],
            lines: 0,
        };
        let mut text = 0;
        while text < texts.len() {
            let bytes = texts[text].as_bytes();
            let mut start = 0;
            while start < bytes.len() {
                let end = find(bytes, start, b'\n') as usize;
                if merged.start_of(bytes, start, end).is_none() {
                    merged.starts[merged.lines] = merged.length;
                    merged.lines += 1;
                    while start <= end {
                        merged.bytes[merged.length] = bytes[start];
                        merged.length += 1;
                        start += 1;
                    }
                }
                start = end + 1;
            }
            text += 1;
        }
        merged
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// The text itself.
    pub(crate) const fn text<const LENGTH: usize>(&self) -> [u8; LENGTH] {
        let (mut text, mut at) = ([0; LENGTH], 0);
        while at < LENGTH {
            text[at] = self.bytes[at];
            at += 1;
        }
        text
    }

    /// Where the lines of one of the texts are.
    pub(crate) const fn index<const LINES: usize>(&self, text: &str) -> [Line; LINES] {
        let text = text.as_bytes();
        let empty = Line {
            start: 0,
            api: 0,
            kind: 0,
            end: 0,
        };
        let (mut lines, mut line, mut at) = ([empty; LINES], 0, 0);
        while line < LINES {
            let end = find(text, at, b'\n') as usize;
            let Some(start) = self.start_of(text, at, end) else {
                panic!("the text is not part of the merged one");
            };
            let api = find(&self.bytes, start, b' ');
            let kind = find(&self.bytes, api as usize + 1, b' ');
            lines[line] = Line {
                start: start as u16,
                api,
                kind,
                end: find(&self.bytes, kind as usize + 1, b'\n'),
            };
            at = end + 1;
            line += 1;
        }
        lines
    }

    /// The offset of the line `text[start..end]` in this slice, if it has such a line.
    const fn start_of(&self, text: &[u8], start: usize, end: usize) -> Option<usize> {
        let mut line = 0;
        while line < self.lines {
            let place = self.starts[line];
            let mut at = start;
            while at <= end && text[at] == self.bytes[place + at - start] {
                at += 1;
            }
            if at > end {
                return Some(place);
            }
            line += 1;
        }
        None
    }
}

/// The place of a byte, searched from a place on.
const fn find(bytes: &[u8], mut at: usize, byte: u8) -> u16 {
    while bytes[at] != byte {
        at += 1;
    }
    at as u16
}
