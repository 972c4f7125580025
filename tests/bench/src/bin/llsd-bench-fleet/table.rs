//! The figures of a run: as a table, as JSON, and as a plot of the cost against the number of resources.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::anyhow;
use plotters::prelude::*;
use serde_json::{Value, json};

/// A figure that is measured for each number of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    LeaderMemory,
    StandbyMemory,
    RequestsAtRest,
    RequestsForTouch,
    RestartWrites,
    RestartCalls,
    RestartReads,
    RestartSeconds,
    FailOverStopped,
    FailOverKilled,
    RequestsEach,
    ReconcilesEach,
    OperatorCpuEach,
    ApiServerCpuEach,
    BareDeploymentCpu,
    AuthorSlowdown,
    AuthorBesideIdle,
    ShadowSeconds,
    ListSeconds,
    ListPeak,
    DeployedSeconds,
    ReportedSeconds,
}

impl Figure {
    const ALL: [Self; 22] = [
        Self::LeaderMemory,
        Self::StandbyMemory,
        Self::RequestsAtRest,
        Self::RequestsForTouch,
        Self::RestartWrites,
        Self::RestartCalls,
        Self::RestartReads,
        Self::RestartSeconds,
        Self::FailOverStopped,
        Self::FailOverKilled,
        Self::RequestsEach,
        Self::ReconcilesEach,
        Self::OperatorCpuEach,
        Self::ApiServerCpuEach,
        Self::BareDeploymentCpu,
        Self::AuthorSlowdown,
        Self::AuthorBesideIdle,
        Self::ShadowSeconds,
        Self::ListSeconds,
        Self::ListPeak,
        Self::DeployedSeconds,
        Self::ReportedSeconds,
    ];

    /// What it is, with its unit, and the most that it should be.
    fn described(self) -> (&'static str, Option<f64>) {
        match self {
            Self::LeaderMemory => ("memory of the leader at rest, MiB", Some(150.0)),
            Self::StandbyMemory => ("memory of a standby at rest, MiB", Some(120.0)),
            Self::RequestsAtRest => ("requests in a minute at rest", Some(0.0)),
            Self::RequestsForTouch => ("requests for a touch without a change", Some(0.0)),
            Self::RestartWrites => ("writes after a restart", Some(0.0)),
            Self::RestartCalls => ("calls of plugins after a restart", Some(0.0)),
            Self::RestartReads => ("requests to registries after a restart", Some(0.0)),
            Self::RestartSeconds => ("restart until quiet, s", Some(20.0)),
            Self::FailOverStopped => ("fail-over after a clean stop, s", Some(5.0)),
            Self::FailOverKilled => ("fail-over after kill -9, s", Some(18.0)),
            Self::RequestsEach => ("requests for each new resource", Some(5.0)),
            Self::ReconcilesEach => ("reconciliations of each new resource", None),
            Self::OperatorCpuEach => ("operator CPU for each new resource, ms", Some(8.0)),
            Self::ApiServerCpuEach => ("API server CPU for each new resource, ms", None),
            Self::BareDeploymentCpu => ("API server CPU for a bare Deployment, ms", None),
            Self::AuthorSlowdown => ("author's creates beside a busy operator, ratio", Some(2.0)),
            Self::AuthorBesideIdle => ("author's creates beside an idle operator, ratio", None),
            Self::ShadowSeconds => ("comparison of a new adapter, CPU s", Some(10.0)),
            Self::ListSeconds => ("list in the older version, s", Some(2.0)),
            Self::ListPeak => ("peak memory of the operator, MiB", None),
            Self::DeployedSeconds => ("until all Deployments exist, s", None),
            Self::ReportedSeconds => ("until all statuses are written, s", None),
        }
    }
}

/// The figures for one number of resources.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// The figures of all numbers of resources, and those of the previous release.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<usize, (Figures, Option<Figures>)>);

impl Table {
    /// Adds the figures for a number of resources.
    pub(crate) fn add(&mut self, resources: usize, now: Figures, previous: Option<Figures>) {
        self.0.insert(resources, (now, previous));
    }

    /// As Markdown. A figure above its goal is marked, and the ratio to the previous release follows it.
    pub(crate) fn text(&self) -> String {
        let mut text = "| figure | goal |".to_owned();
        for resources in self.0.keys() {
            let _ = write!(text, " {resources} |");
        }
        text += "\n|---|---|";
        text += &"---|".repeat(self.0.len());
        text.push('\n');
        for figure in Figure::ALL {
            let (name, goal) = figure.described();
            let shown = goal.map_or(String::new(), |goal| format!("≤ {goal}"));
            let _ = write!(text, "| {name} | {shown} |");
            for (now, previous) in self.0.values() {
                let Some(value) = now.get(&figure) else {
                    text += " |";
                    continue;
                };
                let _ = match goal.is_some_and(|goal| *value > goal) {
                    true => write!(text, " **{value:.1}**"),
                    false => write!(text, " {value:.1}"),
                };
                let before = previous.as_ref().and_then(|all| all.get(&figure));
                if let Some(ratio) = before.and_then(|before| ratio(*value, *before)) {
                    let _ = write!(text, " (× {ratio:.2})");
                }
                text += " |";
            }
            text.push('\n');
        }
        text
    }

    /// As JSON: a list of figures, each with its goal and its values by number of resources.
    pub(crate) fn json(&self) -> Value {
        let figures = Figure::ALL.iter().map(|figure| {
            let (name, goal) = figure.described();
            let of = |select: fn(&(Figures, Option<Figures>)) -> Option<&Figures>| {
                let all = self.0.iter();
                let values = all.filter_map(|(resources, figures)| {
                    Some((resources.to_string(), json!(select(figures)?.get(figure)?)))
                });
                values.collect::<serde_json::Map<String, Value>>()
            };
            json!({
                "figure": name,
                "goal": goal,
                "values": of(|(now, _)| Some(now)),
                "previous": of(|(_, previous)| previous.as_ref()),
            })
        });
        Value::Array(figures.collect())
    }

    /// The CPU time and memory for each resource, against their number, as SVG.
    pub(crate) fn plot(&self) -> anyhow::Result<String> {
        let mut svg = String::new();
        self.draw(&mut svg)
            .map_err(|error| anyhow!("failed to draw the plot: {error}"))?;
        Ok(svg)
    }

    #[allow(clippy::cast_precision_loss, reason = "at most some ten thousand")]
    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let of = |figure: Figure| {
            let all = self.0.iter();
            all.filter_map(move |(resources, (now, _))| {
                Some((*resources as f64, *now.get(&figure)?))
            })
        };
        let lines = [
            ("operator CPU, ms", Figure::OperatorCpuEach, BLUE),
            ("API server CPU, ms", Figure::ApiServerCpuEach, RED),
        ];
        let highest = lines.iter().flat_map(|(_, figure, _)| of(*figure));
        let highest = highest.map(|(_, value)| value).fold(1.0, f64::max);
        let first = self.0.keys().next().copied().unwrap_or(1) as f64;
        let last = self.0.keys().last().copied().unwrap_or(10) as f64;
        let root = SVGBackend::with_string(svg, (640, 360)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption("Cost of each new resource", ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(48)
            .build_cartesian_2d((first..last).log_scale(), 0.0..highest * 1.1)?;
        chart
            .configure_mesh()
            .x_desc("resources")
            .y_desc("milliseconds")
            .draw()?;
        for (name, figure, colour) in lines {
            chart
                .draw_series(LineSeries::new(of(figure), colour).point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        root.present()?;
        Ok(())
    }
}

/// How a figure changed; `None` if it was 0.
fn ratio(now: f64, before: f64) -> Option<f64> {
    (before > 0.0).then(|| now / before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_above_their_goal_are_marked() {
        let mut table = Table::default();
        for (resources, memory) in [(100, 40.0), (10_000, 160.0)] {
            let cpu = (Figure::OperatorCpuEach, 5.0);
            let previous =
                Figures::from([(Figure::LeaderMemory, 80.0), (Figure::RestartWrites, 0.0)]);
            let now = [(Figure::LeaderMemory, memory), cpu].into();
            table.add(resources, now, Some(previous));
        }
        let text = table.text();
        assert!(
            text.starts_with("| figure | goal | 100 | 10000 |\n"),
            "{text}"
        );
        assert!(
            text.contains("| ≤ 150 | 40.0 (× 0.50) | **160.0** (× 2.00) |"),
            "{text}"
        );
        assert_eq!(table.json()[0]["values"]["100"], 40.0);
        assert_eq!(table.json()[0]["previous"]["100"], 80.0);
        assert!(table.plot().unwrap().contains("<svg"));
    }
}
