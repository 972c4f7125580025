//! Reads the text of the editor: the resource, other objects beside it, and where its fields are.

use llsd_api::limits::OBJECT_VALUES;
use llsd_api::{Diagnostic, FieldPath, KIND};
use llsd_render::yaml::{Positions, TextRange};
use serde_json::Value;

use super::document::{Mark, Problem};
use crate::files;

/// Size of the text: what the API server accepts as one object.
pub(super) const TEXT_BYTES: usize = 3 << 19;

/// A text that is valid YAML.
pub(super) struct Reading {
    /// The resource.
    pub(super) resource: Value,
    /// The other objects of the text.
    pub(super) objects: Vec<Value>,
    /// Problems of the text itself.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Where to mark problems.
    pub(super) marks: Marks,
}

/// Finds the place of a field in the text.
pub(super) struct Marks {
    positions: Positions,
    /// The offset in UTF-16 of each character, which is what a browser counts. Empty for ASCII, where
    /// both are the same.
    offsets: Vec<usize>,
}

/// Reads a text. The error is the problem to show instead of everything else.
pub(super) fn read(text: &str) -> Result<Reading, Box<Problem>> {
    if text.len() > TEXT_BYTES {
        let problem = format!(
            "the text has {} bytes, which is more than the limit of {TEXT_BYTES}",
            text.len()
        );
        return Err(unreadable(problem, "make it smaller", None));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: OBJECT_VALUES },
        with_snippet: false,
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            let place = error.location().map(|at| {
                let (line, column) = (at.line() as usize, at.column() as usize);
                line_mark(text, line, column)
            });
            let problem = format!("this is not valid YAML: {}", error.without_snippet());
            unreadable(problem, "correct the YAML", place)
        })?;
    let documents: Vec<Value> = documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect();
    let (mut resources, objects) = files::partition(documents, &[KIND]);
    let mut diagnostics = Vec::new();
    if resources.len() > 1 {
        let problem = format!("the text contains {} resources", resources.len());
        let fix = "only the first one is shown; keep one of them";
        diagnostics.push(Diagnostic::warning(FieldPath::root(), problem, fix));
    }
    if resources.is_empty() {
        let problem = format!("the text contains no {KIND}");
        return Err(unreadable(problem, "write one, or open a sample", None));
    }
    Ok(Reading {
        resource: resources.swap_remove(0),
        objects,
        diagnostics,
        marks: Marks::of(text),
    })
}

impl Marks {
    fn of(text: &str) -> Self {
        let offsets = match text.is_ascii() {
            true => Vec::new(),
            false => {
                let ends = text.chars().scan(0, |offset, c| {
                    let start = *offset;
                    *offset += c.len_utf16();
                    Some(start)
                });
                ends.chain([text.encode_utf16().count()]).collect()
            }
        };
        Self {
            positions: Positions::of(text),
            offsets,
        }
    }

    /// The place to mark for a field. `None` for a problem of the whole resource.
    pub(super) fn find(&self, field: &FieldPath) -> Option<Mark> {
        let TextRange {
            line,
            column,
            start,
            end,
        } = self.positions.find(KIND, field.as_str())?;
        Some(Mark {
            line,
            column,
            start: self.utf16(start),
            end: self.utf16(end),
        })
    }

    fn utf16(&self, character: usize) -> usize {
        match self.offsets.last() {
            None => character,
            Some(last) => *self.offsets.get(character).unwrap_or(last),
        }
    }
}

/// Marks the rest of a line.
fn line_mark(text: &str, line: usize, column: usize) -> Mark {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    let line_start: usize = before.map(|line| line.encode_utf16().count()).sum();
    let content = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let skipped = content.chars().take(column.saturating_sub(1));
    let start = line_start + skipped.map(char::len_utf16).sum::<usize>();
    let end = line_start + content.encode_utf16().count();
    Mark {
        line,
        column,
        start,
        end: end.max(start + 1),
    }
}

fn unreadable(problem: String, fix: &str, mark: Option<Mark>) -> Box<Problem> {
    let diagnostic = Diagnostic::error(FieldPath::root(), problem, fix).with_code("unreadable");
    Box::new(Problem::new(&diagnostic, mark))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const RESOURCE: &str = "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\n";

    #[test]
    fn a_syntax_error_is_marked_at_its_line() {
        let problem = read(&format!("{RESOURCE}# é😀\nspec: [1, 2\n"))
            .err()
            .unwrap();
        let mark = problem.mark.unwrap();
        assert!(mark.line >= 4, "{mark:?}");
        assert!(
            problem.problem.starts_with("this is not valid YAML: "),
            "{}",
            problem.problem
        );
    }

    #[test]
    fn marks_count_as_a_browser_counts() {
        let text = format!("{RESOURCE}metadata: {{labels: {{a: 😀é}}, name: x}}\n");
        let reading = read(&text).ok().unwrap();
        let mark = reading
            .marks
            .find(&FieldPath::from("metadata.name"))
            .unwrap();
        let units: Vec<u16> = text.encode_utf16().collect();
        let marked = String::from_utf16(&units[mark.start..mark.end]).unwrap();
        assert_eq!((marked.as_str(), mark.line), ("name: x", 3));
    }

    #[test]
    fn the_first_resource_is_used_and_other_objects_are_beside_it() {
        let map = "kind: ConfigMap\nmetadata: {name: m}\n";
        let two = format!(
            "{map}---\n{RESOURCE}metadata: {{name: a}}\n---\n{RESOURCE}metadata: {{name: b}}\n"
        );
        let reading = read(&two).ok().unwrap();
        assert_eq!(reading.resource["metadata"]["name"], "a");
        assert_eq!(reading.objects.len(), 1);
        assert_eq!(reading.diagnostics.len(), 1);
        let mark = reading
            .marks
            .find(&FieldPath::from("metadata.name"))
            .unwrap();
        assert_eq!(mark.line, 6);
        let none = read("").err().unwrap();
        assert_eq!(none.problem, "the text contains no LlamaStackDistribution");
    }

    #[test]
    fn hostile_texts_are_refused_in_a_short_time() {
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = format!("*a{}", level - 1);
            laughs += &format!(
                "a{level}: &a{level} [{}]\n",
                [below.as_str(); 10].join(", ")
            );
        }
        let nested = |levels: usize| {
            format!(
                "{RESOURCE}spec: {}{}",
                "{a: ".repeat(levels),
                "}".repeat(levels)
            )
        };
        let long = format!("a: {}", "x".repeat(TEXT_BYTES));
        let many = format!("{RESOURCE}spec: [{}]", "1,".repeat(OBJECT_VALUES));
        for text in [
            laughs,
            nested(135),
            nested(100_000),
            long,
            many,
            "[".repeat(TEXT_BYTES),
        ] {
            let started = Instant::now();
            let problem = read(&text).err().map(|problem| problem.problem);
            assert!(
                problem.is_some_and(|problem| problem.len() < 5_000),
                "{text:.40}"
            );
            assert!(started.elapsed() < Duration::from_mins(1), "{text:.40}");
        }
    }
}
