//! Differences of two texts by line, for the page and its report.

use std::time::Duration;

use llsd_api::escape_lines;
use similar::{ChangeTag, TextDiff};

use super::document::{DiffLine, SideBySide};

/// The search for a short diff ends after this time, with a longer diff that is still correct.
const SEARCH: Duration = Duration::from_millis(300);

/// Every line of both texts, with its sign.
pub(super) fn lines(before: &str, after: &str) -> Vec<DiffLine> {
    let mut all = Vec::new();
    changes(before, after, |tag, line| {
        let sign = match tag {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        all.push(DiffLine(sign, line));
    });
    all
}

/// Both texts beside each other. Removed lines are beside the added lines that follow them.
pub(super) fn side_by_side(left: &str, right: &str) -> Vec<SideBySide> {
    let mut rows: Vec<SideBySide> = Vec::new();
    let (mut left_number, mut right_number) = (0, 0);
    // The first row of a block of removed lines that has no added line beside it yet.
    let mut open = 0;
    changes(left, right, |tag, line| match tag {
        ChangeTag::Equal => {
            left_number += 1;
            right_number += 1;
            rows.push(SideBySide {
                left: Some((left_number, line.clone())),
                right: Some((right_number, line)),
            });
            open = rows.len();
        }
        ChangeTag::Delete => {
            left_number += 1;
            rows.push(SideBySide {
                left: Some((left_number, line)),
                right: None,
            });
        }
        ChangeTag::Insert => {
            right_number += 1;
            let added = Some((right_number, line));
            match rows.get_mut(open) {
                Some(row) => row.right = added,
                None => rows.push(SideBySide {
                    left: None,
                    right: added,
                }),
            }
            open += 1;
        }
    });
    rows
}

fn changes(before: &str, after: &str, mut each: impl FnMut(ChangeTag, String)) {
    let diff = TextDiff::configure()
        .timeout(SEARCH)
        .diff_lines(before, after);
    for change in diff.iter_all_changes() {
        let line = change.value().trim_end_matches('\n');
        each(change.tag(), escape_lines(line).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_has_every_line_with_its_sign() {
        let found = lines("a\nb\nc\n", "a\nx\nc\nd\n");
        let text: Vec<String> = found
            .iter()
            .map(|DiffLine(sign, line)| format!("{sign}{line}"))
            .collect();
        assert_eq!(text, [" a", "-b", "+x", " c", "+d"]);
    }

    #[test]
    fn removed_lines_are_beside_the_added_ones() {
        let rows = side_by_side("a\nb\nc\nd\n", "a\nx\nd\ne\n");
        let line = |side: &Option<(usize, String)>| match side {
            Some((number, text)) => format!("{number}{text}"),
            None => String::new(),
        };
        let text: Vec<String> = rows
            .iter()
            .map(|row| format!("{}|{}", line(&row.left), line(&row.right)))
            .collect();
        assert_eq!(text, ["1a|1a", "2b|2x", "3c|", "4d|3d", "|4e"]);
        assert_eq!(rows.iter().filter(|row| row.is_equal()).count(), 2);
    }

    #[test]
    fn two_long_texts_without_a_common_line_are_compared_in_a_short_time() {
        let numbers = |offset: usize| {
            (0..40_000)
                .map(|n| format!("{}\n", n * 2 + offset))
                .collect::<String>()
        };
        let started = std::time::Instant::now();
        assert_eq!(side_by_side(&numbers(0), &numbers(1)).len(), 40_000);
        assert!(started.elapsed() < Duration::from_mins(1));
    }
}
