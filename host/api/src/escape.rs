//! Escapes control characters in strings that someone else wrote.
//!
//! A plugin, registry, image or cluster may put escape sequences into a name or a message. On a terminal
//! they could hide or forge output. Every output boundary (terminal, condition, event) calls one of these
//! functions.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes every control character, and the characters that reorder or break a line, for a name or another
/// string that is part of a line.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, |c| c.is_control() || is_reordering(c))
}

/// Escapes every control character except line feed and tab, for text of several lines. Text in JSON and
/// YAML keeps its meaning: both escape control characters in the same way.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c.is_control() && c != '\n' && c != '\t')
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' if is_escaped(c) => clean.push_str("\\n"),
            '\r' if is_escaped(c) => clean.push_str("\\r"),
            '\t' if is_escaped(c) => clean.push_str("\\t"),
            // The form that JSON and YAML read back. Writing to a string cannot fail.
            c if is_escaped(c) => {
                let _ = write!(clean, "\\u{:04x}", u32::from(c));
            }
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// Characters that change the direction of a line, or break it.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_of_every_kind_are_made_visible() {
        for (text, line) in [
            ("plain ä 漢", "plain ä 漢"),
            ("\u{1b}[31mred", r"\u001b[31mred"),
            ("\u{9b}2J", r"\u009b2J"),
            ("\u{7f}\u{8}\0", r"\u007f\u0008\u0000"),
            ("a\r\nb\tc", r"a\r\nb\tc"),
            ("\u{202e}txt.exe", r"\u202etxt.exe"),
        ] {
            assert_eq!(escape_line(text), line);
        }
        assert_eq!(
            escape_lines("a:\n\tb\r\u{1b}]0;x\u{7}"),
            "a:\n\tb\\r\\u001b]0;x\\u0007"
        );
        assert!(matches!(escape_lines("a\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn escaped_json_is_read_back_to_the_same_value() {
        let value = serde_json::json!({ "vendor": "\u{1b}[31m \u{9b} \u{7f} \u{202e}" });
        let text = value.to_string();
        let printed = escape_lines(&text);
        assert!(!printed.contains(char::is_control));
        let read: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(read, value);
    }
}
