//! Writes canonical JSON in one pass, without a copy of the document as values.
//!
//! The members of an object are written as they come. When the object ends and its keys came out of
//! order, its members are written again in order.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

/// Canonical JSON of anything that serializes, `null` if it does not.
pub(super) fn canonical(value: &impl Serialize) -> String {
    let mut page = Page::default();
    let mut serializer = Serializer::with_formatter(io::sink(), Writer(&mut page));
    let written = value.serialize(&mut serializer);
    match (written, String::from_utf8(page.text)) {
        (Ok(()), Ok(text)) => text,
        _ => "null".to_owned(),
    }
}

/// The text so far, and what is known about the objects that are still open.
#[derive(Default)]
struct Page {
    text: Vec<u8>,
    /// Keys of the open objects as they are, without escapes.
    keys: Vec<u8>,
    /// Members of the open objects, those of the innermost last.
    members: Vec<Member>,
    open: Vec<Open>,
    in_key: bool,
}

/// `"key":value` in the text.
struct Member {
    start: usize,
    end: usize,
    /// The range of its key in `Page::keys`.
    key: Range<usize>,
}

/// The lengths of text, keys and members when an object began.
struct Open {
    text: usize,
    keys: usize,
    members: usize,
    is_unsorted: bool,
}

impl Page {
    fn begin_object(&mut self) {
        self.text.push(b'{');
        self.open.push(Open {
            text: self.text.len(),
            keys: self.keys.len(),
            members: self.members.len(),
            is_unsorted: false,
        });
    }

    fn begin_member(&mut self, is_first: bool) {
        if !is_first {
            self.text.push(b',');
        }
        let (start, key) = (self.text.len(), self.keys.len());
        self.members.push(Member {
            start,
            end: start,
            key: key..key,
        });
        self.in_key = true;
    }

    fn end_key(&mut self) {
        self.in_key = false;
        let (Some(open), [earlier @ .., member]) = (self.open.last_mut(), &mut *self.members)
        else {
            return;
        };
        member.key.end = self.keys.len();
        if let Some(last) = earlier.get(open.members..).and_then(<[_]>::last) {
            open.is_unsorted |= self.keys[last.key.clone()] > self.keys[member.key.clone()];
        }
    }

    fn end_member(&mut self) {
        if let Some(member) = self.members.last_mut() {
            member.end = self.text.len();
        }
    }

    fn end_object(&mut self) {
        if let Some(open) = self.open.pop() {
            if open.is_unsorted {
                self.rewrite(&open);
            }
            self.keys.truncate(open.keys);
            self.members.truncate(open.members);
        }
        self.text.push(b'}');
    }

    /// Writes the members of an object again, in the order of their keys.
    fn rewrite(&mut self, open: &Open) {
        // `sort` would add eight kilobytes to each component.
        let mut sorted = BTreeMap::new();
        for Member { start, end, key } in self.members.drain(open.members..) {
            sorted.insert(&self.keys[key], start - open.text..end - open.text);
        }
        let written = self.text.split_off(open.text);
        for member in sorted.into_values() {
            if self.text.len() > open.text {
                self.text.push(b',');
            }
            self.text.extend_from_slice(&written[member]);
        }
    }

    /// Stores what was written since `start`, if it is a key.
    fn note(&mut self, start: usize) {
        if self.in_key {
            self.keys
                .extend_from_slice(self.text.get(start..).unwrap_or_default());
        }
    }
}

/// Writes to a page instead of the writer that serde_json passes.
struct Writer<'p>(&'p mut Page);

/// Numbers and literals are written as compact JSON.
macro_rules! plainly {
    ($($method:ident($($value:ident: $kind:ty)?)),+ $(,)?) => {
        $(fn $method<W: ?Sized + io::Write>(&mut self, _: &mut W $(, $value: $kind)?) -> io::Result<()> {
            let start = self.0.text.len();
            CompactFormatter.$method(&mut self.0.text $(, $value)?)?;
            self.0.note(start);
            Ok(())
        })+
    };
}

/// Brackets and commas: `$page` is the page.
macro_rules! on_page {
    ($($method:ident($($value:ident: $kind:ty)?) = |$page:ident| $work:expr),+ $(,)?) => {
        $(fn $method<W: ?Sized + io::Write>(&mut self, _: &mut W $(, $value: $kind)?) -> io::Result<()> {
            let $page = &mut *self.0;
            $work;
            Ok(())
        })+
    };
}

impl Formatter for Writer<'_> {
    plainly! {
        write_null(),
        write_bool(value: bool),
        write_i8(value: i8),
        write_i16(value: i16),
        write_i32(value: i32),
        write_i64(value: i64),
        write_i128(value: i128),
        write_u8(value: u8),
        write_u16(value: u16),
        write_u32(value: u32),
        write_u64(value: u64),
        write_u128(value: u128),
        write_f32(value: f32),
        write_f64(value: f64),
        write_number_str(value: &str),
        write_string_fragment(fragment: &str),
    }

    on_page! {
        begin_string() = |page| page.text.push(b'"'),
        end_string() = |page| page.text.push(b'"'),
        begin_array() = |page| page.text.push(b'['),
        end_array() = |page| page.text.push(b']'),
        begin_array_value(is_first: bool) = |page| if !is_first { page.text.push(b',') },
        begin_object() = |page| page.begin_object(),
        end_object() = |page| page.end_object(),
        begin_object_key(is_first: bool) = |page| page.begin_member(is_first),
        end_object_key() = |page| page.end_key(),
        begin_object_value() = |page| page.text.push(b':'),
        end_object_value() = |page| page.end_member(),
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        if self.0.in_key {
            self.0.keys.push(meaning(&escape));
        }
        CompactFormatter.write_char_escape(&mut self.0.text, escape)
    }
}

/// The character that an escape stands for.
fn meaning(escape: &CharEscape) -> u8 {
    match escape {
        CharEscape::Quote => b'"',
        CharEscape::ReverseSolidus => b'\\',
        CharEscape::Solidus => b'/',
        CharEscape::Backspace => 0x08,
        CharEscape::FormFeed => 0x0c,
        CharEscape::LineFeed => b'\n',
        CharEscape::CarriageReturn => b'\r',
        CharEscape::Tab => b'\t',
        CharEscape::AsciiControl(byte) => *byte,
    }
}
