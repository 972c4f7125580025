//! The report: one HTML file with everything that the page shows.
//!
//! In: the question and the parts of its answer. Out: HTML that loads nothing and runs nothing.

use serde_json::Value;

use super::document::{
    BaseSource, Comparison, DiffLine, ObjectYaml, Part, Problem, Question, ReleaseRow, SideBySide,
    Verdict, View,
};
use crate::page::Html;

/// Lines of a diff that are shown around a change.
const CONTEXT: usize = 3;

/// Writes the report.
pub(super) fn report(question: &Question, parts: &[Part]) -> String {
    let mut report = Report::default();
    let view = parts.iter().find_map(|part| match part {
        Part::View(view) => Some(&**view),
        _ => None,
    });
    let name = view.map_or("", |view| view.name.as_str());
    let title = format!(
        "llsd report: {}",
        if name.is_empty() { "resource" } else { name }
    );
    report.html.element("h1", &title);
    if let Some(view) = view {
        report.view(view);
    }
    for part in parts {
        if let Part::Stopped { problem } = part {
            let text = format!("This report is not complete: {problem}");
            report.html.classed("p", "bad", &text);
        }
    }
    report.releases(parts);
    for part in parts {
        if let Part::Comparison(comparison) = part {
            report.comparison(comparison);
        }
    }
    if let Some(view) = view {
        report.details(view);
    }
    report.html.element("h2", "Resource");
    report.html.element("pre", &question.text);
    report.html.into_page(&title)
}

/// A report while it is written.
#[derive(Default)]
struct Report {
    html: Html,
}

impl Report {
    fn row(&mut self, tag: &'static str, cells: &[&str]) {
        self.html.open("tr", "");
        for cell in cells {
            self.html.element(tag, cell);
        }
        self.html.close("tr");
    }

    fn view(&mut self, view: &View) {
        self.html.classed(
            "p",
            class(view.verdict),
            &format!("{}: {}", capital(view.verdict), view.summary),
        );
        if let Some(dialect) = &view.dialect {
            let releases = view.releases.as_deref().unwrap_or("unknown releases");
            let base = match view.base {
                BaseSource::Own => "its own base configuration",
                BaseSource::Example => "an example base configuration of these releases",
            };
            self.html.element(
                "p",
                &format!("Dialect {dialect} ({releases}), over {base}."),
            );
        }
        self.html.element("h2", "Problems");
        if view.problems.is_empty() {
            self.html.element("p", "None.");
        } else {
            self.problems(&view.problems);
        }
        if view.more_problems > 0 {
            self.html
                .element("p", &format!("And {} more.", view.more_problems));
        }
    }

    fn problems(&mut self, problems: &[Problem]) {
        self.html.open("table", "");
        self.row("th", &["", "Line", "Field", "Problem", "Fix"]);
        for problem in problems {
            let kind = if problem.is_error { "error" } else { "warning" };
            let line = problem
                .mark
                .map_or_else(String::new, |mark| mark.line.to_string());
            self.row(
                "td",
                &[kind, &line, &problem.field, &problem.problem, &problem.fix],
            );
        }
        self.html.close("table");
    }

    fn releases(&mut self, parts: &[Part]) {
        self.html.element("h2", "Which releases accept it");
        self.html.open("table", "");
        self.row(
            "th",
            &[
                "Dialect",
                "Releases",
                "Result",
                "Errors",
                "Warnings",
                "First problem",
                "Adapter",
            ],
        );
        for part in parts {
            let Part::Release(ReleaseRow {
                dialect,
                releases,
                adapter,
                is_own,
                verdict,
                errors,
                warnings,
                reason,
                ..
            }) = part
            else {
                continue;
            };
            let own = if *is_own { " (own)" } else { "" };
            self.html.open("tr", "");
            self.html.element("td", &format!("{dialect}{own}"));
            self.html.element("td", releases);
            self.html.classed("td", class(*verdict), verdict.as_str());
            self.html.element("td", &errors.to_string());
            self.html.element("td", &warnings.to_string());
            self.html
                .element("td", reason.as_deref().unwrap_or_default());
            self.html.element("td", adapter);
            self.html.close("tr");
        }
        self.html.close("table");
    }

    fn comparison(&mut self, comparison: &Comparison) {
        let Comparison { left, right, rows } = comparison;
        self.html
            .element("h2", &format!("{} beside {}", left.dialect, right.dialect));
        for side in [left, right] {
            self.html.element(
                "h3",
                &format!("{}: {}", side.dialect, side.verdict.as_str()),
            );
            if !side.problems.is_empty() {
                self.problems(&side.problems);
            }
        }
        self.html.open("table", "code");
        let is_changed: Vec<bool> = rows.iter().map(|row| !row.is_equal()).collect();
        for (index, row) in rows.iter().enumerate() {
            if !is_near(&is_changed, index) {
                continue;
            }
            let changed = is_changed.get(index).is_some_and(|changed| *changed);
            self.html.open("tr", "");
            let SideBySide { left, right } = row;
            for (side, class) in [(left, "del"), (right, "add")] {
                let (number, line) = match side {
                    Some((number, line)) => (number.to_string(), line.as_str()),
                    None => (String::new(), ""),
                };
                let is_marked = changed && side.is_some();
                self.html.classed("td", "muted", &number);
                self.html
                    .classed("td", if is_marked { class } else { "" }, line);
            }
            self.html.close("tr");
        }
        self.html.close("table");
    }

    fn details(&mut self, view: &View) {
        self.html.element("h2", "Changes of the base configuration");
        let is_changed: Vec<bool> = view.diff.iter().map(|line| line.0 != ' ').collect();
        if !is_changed.contains(&true) {
            self.html.element("p", "None.");
        }
        self.html.open("pre", "");
        for (index, DiffLine(sign, line)) in view.diff.iter().enumerate() {
            if is_near(&is_changed, index) {
                let class = match sign {
                    '+' => "add",
                    '-' => "del",
                    _ => "",
                };
                self.html.classed("span", class, &format!("{sign}{line}"));
            }
        }
        self.html.close("pre");
        if let Some(config) = &view.config {
            self.html.element("h2", "Configuration");
            self.html.element("pre", config);
        }
        self.html.element("h2", "Kubernetes objects");
        for ObjectYaml { kind, name, yaml } in &view.objects {
            self.html.element("h3", &format!("{kind} {name}"));
            self.html.element("pre", yaml);
        }
        self.html.element("h2", "Variables");
        self.json(&Value::Array(view.variables.clone()));
        self.html.element("h2", "Receipt");
        self.json(view.receipt.as_ref().unwrap_or(&Value::Null));
    }

    fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.html.element("p", "None."),
            Value::Array(items) if items.is_empty() => self.html.element("p", "None."),
            value => self.html.element("pre", &llsd_render::yaml::write(value)),
        };
    }
}

/// Whether a line is changed, or near a change.
fn is_near(is_changed: &[bool], index: usize) -> bool {
    let from = index.saturating_sub(CONTEXT);
    let to = (index + CONTEXT + 1).min(is_changed.len());
    is_changed
        .get(from..to)
        .is_some_and(|near| near.contains(&true))
}

/// The class of a result.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accepted => "good",
        Verdict::Warnings => "warn",
        Verdict::Refused | Verdict::Failed => "bad",
    }
}

fn capital(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accepted => "Accepted",
        Verdict::Warnings => "Accepted with warnings",
        Verdict::Refused => "Refused",
        Verdict::Failed => "Failed",
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::{Diagnostic, FieldPath};

    use super::*;

    #[test]
    fn a_report_shows_everything_and_runs_nothing() {
        let script = "<script>alert('x')</script>";
        let diagnostic = Diagnostic::error(FieldPath::from(script), script, "a & b");
        let view = View {
            name: script.to_owned(),
            verdict: Verdict::Refused,
            summary: "Nothing.".to_owned(),
            dialect: Some("a/1".to_owned()),
            problems: vec![Problem::new(&diagnostic, None)],
            diff: vec![DiffLine(' ', "far".to_owned()); 9]
                .into_iter()
                .chain([
                    DiffLine('-', "old".to_owned()),
                    DiffLine('+', "new".to_owned()),
                ])
                .collect(),
            config: Some("key: \"value\"\n".to_owned()),
            objects: vec![ObjectYaml {
                kind: "Service".to_owned(),
                name: "one".to_owned(),
                yaml: "a: 1".to_owned(),
            }],
            ..View::default()
        };
        let row = ReleaseRow {
            dialect: "a/1".to_owned(),
            releases: "from 1.0".to_owned(),
            adapter: "a 1".to_owned(),
            is_plugin: false,
            is_own: true,
            verdict: Verdict::Warnings,
            base: BaseSource::Own,
            errors: 0,
            warnings: 2,
            reason: Some("look at this".to_owned()),
        };
        let question = Question {
            text: format!("kind: {script}"),
            ..Question::default()
        };
        let html = report(&question, &[Part::View(Box::new(view)), Part::Release(row)]);
        assert!(!html.contains("<script"), "{html}");
        for expected in [
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;",
            "a &amp; b",
            "<td class=\"warn\">warnings</td>",
            "look at this",
            "<span class=\"add\">+new</span>",
            "Service one",
            "key: &quot;value&quot;",
            "default-src 'none'",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert_eq!(html.matches(" far").count(), CONTEXT);
    }
}
