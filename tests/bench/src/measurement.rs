//! What a run measured: one JSON file for each benchmark, and one table of all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// A figure that was measured with one or more numbers of resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What was measured, with its unit.
    pub figure: String,
    /// What it should be.
    pub goal: Option<Goal>,
    /// The values, by number of resources.
    pub values: BTreeMap<usize, f64>,
    /// The values of the previous release.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub previous: BTreeMap<usize, f64>,
}

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    /// At most this value.
    AtMost(f64),
    /// At least this value.
    AtLeast(f64),
}

impl Measurement {
    /// A figure of one resource.
    pub fn of_one(figure: &str, goal: Option<Goal>, value: f64) -> Self {
        Self {
            figure: figure.to_owned(),
            goal,
            values: BTreeMap::from([(1, value)]),
            previous: BTreeMap::new(),
        }
    }
}

impl Goal {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("≤ {most}"),
            Self::AtLeast(least) => format!("≥ {least}"),
        }
    }
}

/// All figures as a Markdown table with a column for each number of resources. A value that misses its goal is
/// bold, and the ratio to the previous release follows it.
pub fn table(measurements: &[Measurement]) -> String {
    let numbers = measurements.iter().flat_map(|one| one.values.keys());
    let numbers: BTreeSet<usize> = numbers.copied().collect();
    let mut text = "| figure | goal |".to_owned();
    for number in &numbers {
        let _ = write!(text, " {number} |");
    }
    text += "\n|---|---|";
    text += &"---|".repeat(numbers.len());
    text.push('\n');
    for one in measurements {
        let goal = one.goal.map(Goal::text).unwrap_or_default();
        let _ = write!(text, "| {} | {goal} |", one.figure);
        for number in &numbers {
            text += &cell(one, *number);
        }
        text.push('\n');
    }
    text
}

fn cell(measurement: &Measurement, number: usize) -> String {
    let Some(value) = measurement.values.get(&number) else {
        return " |".to_owned();
    };
    let mut text = match measurement.goal.is_none_or(|goal| goal.is_met_by(*value)) {
        true => format!(" {}", rounded(*value)),
        false => format!(" **{}**", rounded(*value)),
    };
    let previous = measurement.previous.get(&number);
    if let Some(previous) = previous.filter(|previous| **previous > 0.0) {
        let _ = write!(text, " (× {:.2})", value / previous);
    }
    text + " |"
}

/// Three significant digits, but no fraction of a large number.
fn rounded(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{small:.2}"),
        medium if medium < 100.0 => format!("{medium:.1}"),
        large => format!("{large:.0}"),
    }
}

/// Writes the figures of a benchmark to a folder.
pub fn write(folder: &Path, benchmark: &str, measurements: &[Measurement]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("failed to create {}", folder.display()))?;
    let file = folder.join(format!("{benchmark}.json"));
    let json = serde_json::to_string_pretty(measurements)? + "\n";
    std::fs::write(&file, json).with_context(|| format!("failed to write {}", file.display()))
}

/// Reads the figures of all benchmarks that were written to a folder.
pub fn read_all(folder: &Path) -> anyhow::Result<Vec<Measurement>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let json = std::fs::read(&file)?;
        let read: Vec<Measurement> = serde_json::from_slice(&json)
            .with_context(|| format!("{} has another format", file.display()))?;
        all.extend(read);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Measurement {
        Measurement {
            figure: "memory, MiB".to_owned(),
            goal: Some(Goal::AtMost(150.0)),
            values: BTreeMap::from([(100, 40.0), (10_000, 160.4)]),
            previous: BTreeMap::from([(100, 80.0)]),
        }
    }

    #[test]
    fn values_that_miss_their_goal_are_bold() {
        let rate = Measurement::of_one("reviews in a second", Some(Goal::AtLeast(1000.0)), 1500.0);
        let time = Measurement::of_one("time, ms", Some(Goal::AtMost(1.0)), 1.234);
        assert_eq!(
            table(&[memory(), rate, time]),
            "| figure | goal | 1 | 100 | 10000 |\n\
             |---|---|---|---|---|\n\
             | memory, MiB | ≤ 150 | | 40.0 (× 0.50) | **160** |\n\
             | reviews in a second | ≥ 1000 | 1500 | | |\n\
             | time, ms | ≤ 1 | **1.23** | | |\n"
        );
    }

    #[test]
    fn written_figures_are_read_again_in_the_order_of_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let none = Measurement::of_one("nothing", None, 0.0);
        write(folder.path(), "b", &[memory()]).unwrap();
        write(folder.path(), "a", std::slice::from_ref(&none)).unwrap();
        assert_eq!(read_all(folder.path()).unwrap(), [none, memory()]);
    }
}
