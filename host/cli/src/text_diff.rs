//! Unified diffs of two strings, in colour on a terminal. Control characters in the strings are escaped.

use anstyle::{AnsiColor, Style};
use llsd_api::escape_lines;
use similar::{ChangeTag, TextDiff};

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const HUNK: Style = AnsiColor::Cyan.on_default();

/// A unified diff with three lines of context. Empty if the strings are equal.
pub(crate) fn unified(before: &str, after: &str) -> String {
    let mut text = String::new();
    for hunk in TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(3)
        .iter_hunks()
    {
        text += &format!("{HUNK}{}{HUNK:#}\n", hunk.header());
        for change in hunk.iter_changes() {
            let (style, sign) = match change.tag() {
                ChangeTag::Delete => (REMOVED, '-'),
                ChangeTag::Insert => (ADDED, '+'),
                ChangeTag::Equal => (Style::new(), ' '),
            };
            text += &format!(
                "{style}{sign}{}{style:#}\n",
                escape_lines(change.value().trim_end_matches('\n'))
            );
        }
    }
    text
}

/// A unified diff without colours and without escapes, for JSON and Markdown. Empty if the strings are
/// equal.
pub(crate) fn plain(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().context_radius(3).to_string()
}
