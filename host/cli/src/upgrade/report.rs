//! The report of `llsd upgrade plan`: text, JSON and a page. Equal plans give equal reports.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use llsd_api::{Diagnostic, escape_line, escape_lines};
use serde_json::{Value, json};

use super::plan::{Plan, PlannedEdit, Verdict, order};
use super::state::StateMove;
use crate::page::Html;
use crate::{output, text_diff};

const TITLE: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// The plans of all resources.
pub(crate) struct UpgradeReport {
    /// The release, with its image.
    pub(crate) to: String,
    /// The dialect of the release.
    pub(crate) schema: String,
    /// Every dialect, oldest first: the columns of the matrix.
    pub(crate) releases: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// The plan of one resource.
pub(crate) struct Row {
    /// File or namespace.
    pub(crate) place: String,
    pub(crate) name: String,
    /// The dialect today.
    pub(crate) from: Option<String>,
    pub(crate) plan: Plan,
    /// The fields that move it, with their new values.
    pub(crate) moves: Vec<(String, String)>,
    /// The server's file today, if it is known.
    pub(crate) before: Option<String>,
    /// The server's file on the release, if it is known.
    pub(crate) after: Option<String>,
    /// The verdict for each dialect.
    pub(crate) matrix: Vec<Verdict>,
}

impl Row {
    /// `samples/minimal.yaml (minimal)`.
    pub(crate) fn subject(&self) -> String {
        format!("{} ({})", self.place, self.name)
    }

    /// The server's file today and on the release, if both are known.
    fn diff(&self) -> Option<(&str, &str)> {
        Some((self.before.as_deref()?, self.after.as_deref()?))
    }

    fn from(&self) -> &str {
        self.from.as_deref().unwrap_or("unknown release")
    }
}

impl UpgradeReport {
    /// How many resources have a verdict.
    fn count(&self, verdict: Verdict) -> usize {
        let all = self.rows.iter();
        all.filter(|row| row.plan.verdict == verdict).count()
    }

    /// The summary in one sentence.
    fn summary(&self) -> String {
        let ready = self.rows.iter().filter(|row| row.plan.verdict.is_ready());
        let (ready, all) = (ready.count(), self.rows.len());
        let mut text = format!("{ready} of {all} resources can move to {}", self.to);
        let others: Vec<String> = [
            (Verdict::NeedsEdit, "an edit"),
            (Verdict::NotJudged, "more information"),
            (Verdict::Cannot, "something that the release does not have"),
        ]
        .into_iter()
        .filter_map(|(verdict, what)| {
            let count = self.count(verdict);
            let verb = if count == 1 { "needs" } else { "need" };
            (count > 0).then(|| format!("{count} {verb} {what}"))
        })
        .collect();
        if !others.is_empty() {
            let _ = write!(text, "; {}", others.join(", "));
        }
        let state = self.rows.iter().filter(|row| !row.plan.state.is_empty());
        match state.count() {
            0 => {}
            1 => text += "; 1 has data that does not move by itself",
            count => {
                let _ = write!(text, "; {count} have data that does not move by itself");
            }
        }
        text
    }

    fn order(&self) -> Vec<String> {
        let plans: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                (
                    row.name.clone(),
                    row.plan.verdict,
                    !row.plan.state.is_empty(),
                )
            })
            .collect();
        order(&plans)
    }

    /// For a terminal. Everything from outside is escaped.
    pub(crate) fn text(&self, with_diff: bool) -> String {
        let mut text = format!("{TITLE}{}{TITLE:#}\n", escape_line(&self.summary()));
        for row in &self.rows {
            row.write_text(&mut text, &self.schema, with_diff);
        }
        let _ = write!(text, "\n{TITLE}order{TITLE:#}\n");
        for (place, step) in self.order().iter().enumerate() {
            let _ = writeln!(text, "  {}. {}", place + 1, escape_line(step));
        }
        text
    }

    /// For programs, with stable keys.
    pub(crate) fn json(&self) -> Value {
        let counts: serde_json::Map<String, Value> = Verdict::ALL
            .into_iter()
            .map(|verdict| (verdict.key().to_owned(), self.count(verdict).into()))
            .collect();
        json!({
            "to": self.to,
            "schema": self.schema,
            "summary": self.summary(),
            "counts": counts,
            "order": self.order(),
            "resources": self.rows.iter().map(|row| row.json(&self.releases)).collect::<Vec<_>>(),
        })
    }

    /// One self-contained page.
    pub(crate) fn page(&self) -> String {
        let title = format!("Upgrade to {}", self.to);
        let mut html = Html::default();
        html.element("h1", &title)
            .classed("p", "lead", &format!("{}.", self.summary()));
        html.element("h2", "Order").open("ol", "");
        for step in self.order() {
            html.element("li", &step);
        }
        html.close("ol").element("h2", "Resources and releases");
        self.write_matrix(&mut html);
        for row in &self.rows {
            row.write_html(&mut html, &self.schema);
        }
        html.into_page(&title)
    }

    fn write_matrix(&self, html: &mut Html) {
        html.open("div", "scroll").open("table", "").open("tr", "");
        html.element("th", "resource").element("th", "today");
        for release in &self.releases {
            html.element("th", release);
        }
        html.close("tr");
        for row in &self.rows {
            html.open("tr", "").open("td", "").text(&row.name);
            html.markup("<br>").classed("span", "muted", &row.place);
            html.close("td").element("td", row.from());
            for verdict in &row.matrix {
                html.classed("td", class(*verdict), verdict.text());
            }
            html.close("tr");
        }
        html.close("table").close("div").classed(
            "p",
            "muted",
            "Other releases than the planned one are judged without their images, so that what depends on the image is not judged there.",
        );
    }
}

impl Row {
    fn write_text(&self, text: &mut String, to: &str, with_diff: bool) {
        let Plan {
            verdict,
            unread,
            lost,
            edits,
            warnings,
            state,
        } = &self.plan;
        let style = match class(*verdict) {
            "good" => GOOD,
            "warn" => WARN,
            _ => BAD,
        };
        let mut line = |indent: usize, label: &str, value: &str| {
            let value = escape_lines(value).replace('\n', "\n      ");
            let _ = writeln!(text, "{:indent$}{label}{value}", "");
        };
        line(0, "", "");
        line(
            0,
            &format!("{style}{}{style:#}  ", verdict.text()),
            &self.subject(),
        );
        line(2, "", &format!("{} -> {to}", self.from()));
        for (field, value) in &self.moves {
            line(2, "set ", &format!("{field}: {value}"));
        }
        if let Some((field, fix)) = unread {
            line(2, "not read: ", field);
            line(4, "fix: ", fix);
        }
        for found in lost {
            line(2, "lost: ", &found.field.to_string());
            line(4, "", &found.problem);
            line(4, "fix: ", &found.fix);
        }
        for PlannedEdit {
            field,
            problem,
            fix,
            is_mechanical,
        } in edits
        {
            line(2, "edit: ", field);
            line(4, "", problem);
            let label = if *is_mechanical {
                "fix (--write): "
            } else {
                "fix: "
            };
            line(4, label, fix);
        }
        for found in warnings {
            line(2, "warning: ", &found.field.to_string());
            line(4, "", &found.problem);
            line(4, "fix: ", &found.fix);
        }
        for moved in state {
            let (from, to) = places(moved);
            line(2, "data: ", &moved.store);
            line(4, "", &format!("{from} -> {to}"));
            line(4, "fix: ", &moved.advice());
        }
        if let (true, Some((before, after))) = (with_diff, self.diff()) {
            *text += &text_diff::unified(before, after);
        }
    }

    fn json(&self, releases: &[String]) -> Value {
        let Plan {
            verdict,
            unread,
            lost,
            edits,
            warnings,
            state,
        } = &self.plan;
        let diagnostics =
            |all: &[Diagnostic]| -> Value { all.iter().map(output::diagnostic_json).collect() };
        let matrix: serde_json::Map<String, Value> = releases
            .iter()
            .zip(&self.matrix)
            .map(|(release, verdict)| (release.clone(), verdict.key().into()))
            .collect();
        json!({
            "place": self.place,
            "name": self.name,
            "from": self.from,
            "verdict": verdict.key(),
            "moves": self.moves.iter().map(|(field, value)| json!({"field": field, "value": value})).collect::<Vec<_>>(),
            "lost": diagnostics(lost),
            "edits": edits.iter().map(|edit| json!({
                "field": edit.field, "problem": edit.problem, "fix": edit.fix, "mechanical": edit.is_mechanical,
            })).collect::<Vec<_>>(),
            "warnings": diagnostics(warnings),
            "data": state.iter().map(|moved| json!({
                "store": moved.store,
                "from": moved.from.to_string(),
                "to": moved.to.as_ref().map(ToString::to_string),
                "fix": moved.advice(),
            })).collect::<Vec<_>>(),
            "releases": matrix,
            "unread": unread.as_ref().map(|(field, fix)| json!({"field": field, "fix": fix})),
            "config": self.after,
            "diff": self.diff().map(|(before, after)| text_diff::plain(before, after)),
        })
    }

    fn write_html(&self, html: &mut Html, to: &str) {
        let Plan {
            verdict,
            unread,
            lost,
            edits,
            warnings,
            state,
        } = &self.plan;
        html.open("h2", "").text(&self.name).text(": ");
        html.classed("span", class(*verdict), verdict.text())
            .close("h2");
        html.classed(
            "p",
            "muted",
            &format!("{}, {} to {to}", self.place, self.from()),
        );
        if !self.moves.is_empty() {
            html.open("p", "").text("To move it, set ");
            for (place, (field, value)) in self.moves.iter().enumerate() {
                if place > 0 {
                    html.text(", ");
                }
                html.element("code", &format!("{field}: {value}"));
            }
            html.text(".").close("p");
        }
        if let Some((field, fix)) = unread {
            html.open("p", "").text("Not read: ").element("code", field);
            html.text(". To do: ").text(fix).text(".").close("p");
        }
        if lost.len() + edits.len() + warnings.len() > 0 {
            html.open("div", "scroll").open("table", "");
            html.markup("<tr><th></th><th>field</th><th>what</th><th>what to do</th></tr>");
            for (all, label, class) in [(lost, "lost", "bad"), (warnings, "warning", "warn")] {
                for found in all {
                    let field = found.field.to_string();
                    write_finding(html, (label, class), [&field, &found.problem, &found.fix]);
                }
            }
            for edit in edits {
                let label = if edit.is_mechanical {
                    "edit (--write)"
                } else {
                    "edit"
                };
                write_finding(
                    html,
                    (label, "warn"),
                    [&edit.field, &edit.problem, &edit.fix],
                );
            }
            html.close("table").close("div");
        }
        if !state.is_empty() {
            html.element("h3", "Data that does not move by itself");
            html.open("div", "scroll").open("table", "");
            html.markup(
                "<tr><th>store</th><th>today</th><th>afterwards</th><th>what to do</th></tr>",
            );
            for moved in state {
                let (from, to) = places(moved);
                html.open("tr", "");
                for cell in [&moved.store, &from, &to, &moved.advice()] {
                    html.element("td", cell);
                }
                html.close("tr");
            }
            html.close("table").close("div");
        }
        if let Some((before, after)) = self.diff() {
            html.markup("<details><summary>How the server's file changes</summary>");
            html.diff(before, after).markup("</details>");
        }
    }
}

fn write_finding(html: &mut Html, (label, class): (&str, &'static str), cells: [&String; 3]) {
    html.open("tr", "").classed("td", class, label);
    let [field, problem, fix] = cells;
    html.open("td", "").element("code", field).close("td");
    html.element("td", problem).element("td", fix).close("tr");
}

fn places(moved: &StateMove) -> (String, String) {
    let to = moved.to.as_ref();
    let to = to.map_or_else(|| "not read".to_owned(), ToString::to_string);
    (moved.from.to_string(), to)
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ready => "good",
        Verdict::ReadyWithWarnings | Verdict::NeedsEdit | Verdict::NotJudged => "warn",
        Verdict::Cannot => "bad",
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::FieldPath;

    use super::*;

    fn report(hostile: &str) -> UpgradeReport {
        let found = Diagnostic::error(FieldPath::from(hostile.to_owned()), hostile, hostile);
        UpgradeReport {
            to: format!("ogx/1.0 ({hostile})"),
            schema: "ogx/1.0".to_owned(),
            releases: vec![hostile.to_owned()],
            rows: vec![Row {
                place: hostile.to_owned(),
                name: hostile.to_owned(),
                from: Some(hostile.to_owned()),
                plan: Plan {
                    verdict: Verdict::Cannot,
                    unread: Some(("spec.distribution", hostile.to_owned())),
                    lost: vec![found.clone()],
                    edits: vec![PlannedEdit {
                        field: hostile.to_owned(),
                        problem: hostile.to_owned(),
                        fix: hostile.to_owned(),
                        is_mechanical: true,
                    }],
                    warnings: vec![found],
                    state: Vec::new(),
                },
                moves: vec![(hostile.to_owned(), hostile.to_owned())],
                before: Some("a\n".to_owned()),
                after: Some(format!("{hostile}\n")),
                matrix: vec![Verdict::Cannot],
            }],
        }
    }

    #[test]
    fn no_field_of_a_hostile_resource_becomes_markup_or_an_escape_sequence() {
        let report = report("<img src=x onerror=alert(1)>\u{1b}[2J");
        let page = report.page();
        assert!(!page.contains("<img"), "{page}");
        assert!(!page.contains('\u{1b}'));
        // Our own colours are the only escape sequences.
        assert!(!report.text(true).contains("\u{1b}[2J"));
    }

    #[test]
    fn the_summary_counts_what_can_move() {
        let report = report("x");
        assert_eq!(
            report.json()["summary"],
            "0 of 1 resources can move to ogx/1.0 (x); 1 needs something that the release does not have"
        );
        assert_eq!(report.json()["counts"]["cannot"], 1);
        assert_eq!(report.json()["resources"][0]["releases"]["x"], "cannot");
        assert_eq!(
            report.json()["resources"][0]["diff"],
            "@@ -1 +1 @@\n-a\n+x\n"
        );
    }
}
