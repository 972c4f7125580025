//! The report of `llsd diff`: text, JSON, and Markdown for a review comment.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use llsd_api::{escape_line, escape_lines};
use serde_json::{Value, json};

use super::compare::{Change, Kind};
use crate::text_diff;

const TITLE: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// GitHub rejects comments over 65,536 characters.
const MAX_COMMENT: usize = 60_000;
/// Marks the comment, so that the next run replaces it.
const MARKER: &str = "<!-- llsd diff -->";

/// For a terminal. Everything from outside is escaped.
pub(crate) fn text(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let kind = change.kind.as_str();
        let _ = writeln!(
            text,
            "{TITLE}{}{TITLE:#} {kind} ({}), {}",
            escape_line(&change.name),
            escape_line(&change.file),
            pods(change)
        );
        for problem in &change.problems {
            let _ = writeln!(text, "  {BAD}rejected:{BAD:#} {}", escape_lines(problem));
        }
        for warning in &change.warnings {
            let _ = writeln!(text, "  warning: {}", escape_lines(warning));
        }
        for one in &change.texts {
            let _ = writeln!(text, "\n{}", escape_line(&one.what));
            text += &text_diff::unified(&one.before, &one.after);
        }
        text.push('\n');
    }
    text
}

/// For programs, with stable keys.
pub(crate) fn json(changes: &[Change]) -> Value {
    let one = |change: &Change| {
        json!({
            "name": change.name,
            "file": change.file,
            "change": change.kind.as_str(),
            "restarts": change.restarts,
            "problems": change.problems,
            "warnings": change.warnings,
            "changes": change.texts.iter().map(|text| json!({
                "what": text.what,
                "diff": text_diff::plain(&text.before, &text.after),
            })).collect::<Vec<_>>(),
        })
    };
    changes.iter().map(one).collect()
}

/// For a review comment.
pub(crate) fn markdown(changes: &[Change]) -> String {
    let mut text = format!("{MARKER}\n");
    if changes.is_empty() {
        return text + "**llsd**: no resource changes.\n";
    }
    let plural = if changes.len() == 1 {
        "resource changes"
    } else {
        "resources change"
    };
    let _ = write!(
        text,
        "**llsd**: {} {plural}.\n\n| resource | file | change | running pods |\n|---|---|---|---|\n",
        changes.len()
    );
    for change in changes {
        let state = match change.problems.is_empty() {
            true => change.kind.as_str(),
            false => "**rejected**",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {state} | {} |",
            code(&change.name),
            code(&change.file),
            pods(change)
        );
    }
    for change in changes {
        for problem in &change.problems {
            let _ = write!(
                text,
                "\n- {} is rejected: {}",
                code(&change.name),
                code(problem)
            );
        }
        for warning in &change.warnings {
            let _ = write!(
                text,
                "\n- {}, warning: {}",
                code(&change.name),
                code(warning)
            );
        }
    }
    text.push('\n');
    let mut left_out = 0;
    for change in changes {
        for one in &change.texts {
            let diff = text_diff::plain(&one.before, &one.after);
            let fence = fence(&diff);
            let block = format!(
                "\n<details><summary>{}: {}</summary>\n\n{fence}diff\n{diff}{fence}\n\n</details>\n",
                html(&change.name),
                html(&one.what)
            );
            if text.len() + block.len() > MAX_COMMENT {
                left_out += 1;
            } else {
                text += &block;
            }
        }
    }
    if left_out > 0 {
        let _ = write!(
            text,
            "\n{left_out} differences are left out, because a comment has a limit; run `llsd diff` to see them.\n"
        );
    }
    text
}

/// What happens to running pods.
fn pods(change: &Change) -> &'static str {
    match (change.kind, change.restarts) {
        (Kind::Added, _) => "none yet",
        (Kind::Removed, _) => "stop",
        (Kind::Changed, Some(true)) => "restart",
        (Kind::Changed, Some(false)) => "keep running",
        (Kind::Changed, None) => "unknown, because the image was not read",
    }
}

/// A fence that the text does not contain.
fn fence(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}

/// Text of any origin as inline code in a table: on one line, and without what ends it.
fn code(text: &str) -> String {
    let line: String = escape_line(text)
        .chars()
        .map(|c| if c == '`' { '\'' } else { c })
        .collect();
    format!("`{}`", line.replace('|', "\\|"))
}

fn html(text: &str) -> String {
    let line = escape_line(text);
    // `@` would notify people.
    line.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('@', "&#64;")
}

#[cfg(test)]
mod tests {
    use super::super::compare::TextChange;
    use super::*;

    fn change(name: &str, after: &str) -> Change {
        Change {
            name: name.to_owned(),
            file: name.to_owned(),
            kind: Kind::Changed,
            restarts: Some(true),
            texts: vec![TextChange {
                what: "configuration".to_owned(),
                before: "a\n".to_owned(),
                after: after.to_owned(),
            }],
            problems: Vec::new(),
            warnings: vec![name.to_owned()],
        }
    }

    #[test]
    fn a_comment_has_a_table_and_the_differences() {
        let text = markdown(&[change("ns/a", "b\n")]);
        assert!(text.starts_with("<!-- llsd diff -->\n**llsd**: 1 resource changes.\n"));
        assert!(
            text.contains("| `ns/a` | `ns/a` | changed | restart |"),
            "{text}"
        );
        assert!(
            text.contains("```diff\n@@ -1 +1 @@\n-a\n+b\n```\n"),
            "{text}"
        );
        assert!(markdown(&[]).contains("no resource changes"));
    }

    #[test]
    fn hostile_text_cannot_leave_its_place_in_a_comment() {
        let text = markdown(&[change("`|<b>\n@team", "````\n</details>\n")]);
        assert!(text.contains("| `'\\|<b>"), "{text}");
        assert!(text.contains("<summary>`|&lt;b&gt;"), "{text}");
        assert!(!text.contains("<summary>`|<b>"));
        assert!(text.contains("`````diff\n"), "{text}");
    }

    #[test]
    fn a_comment_stays_below_the_limit_of_github() {
        let long = "x\n".repeat(40_000);
        let text = markdown(&[change("ns/a", &long), change("ns/b", "b\n")]);
        assert!(text.len() < 65_536);
        assert!(
            text.contains("1 differences are left out"),
            "{}",
            &text[text.len() - 200..]
        );
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        let text = text(&[change("a\u{1b}[2J", "\u{1b}[2J\n")]);
        assert!(!text.contains("\u{1b}[2J"), "{text:?}");
    }
}
