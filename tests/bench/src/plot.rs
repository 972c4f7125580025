//! A plot of the cost of each new resource against the number of resources.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::prelude::*;

use crate::Measurement;

/// The end of the names of figures that are drawn.
const DRAWN: &str = " CPU for each new resource, ms";
/// The colours of the lines.
const COLOURS: [RGBColor; 3] = [BLUE, RED, BLACK];

/// Draws `plot.svg` in a folder.
pub fn write(folder: &Path, measurements: &[Measurement]) -> anyhow::Result<()> {
    let file = folder.join("plot.svg");
    std::fs::write(&file, draw(measurements)?)
        .with_context(|| format!("failed to write {}", file.display()))
}

fn draw(measurements: &[Measurement]) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw_to(&mut svg, measurements).map_err(|error| anyhow!("failed to draw the plot: {error}"))?;
    Ok(svg)
}

#[allow(clippy::cast_precision_loss, reason = "at most some ten thousand")]
fn draw_to(
    svg: &mut String,
    measurements: &[Measurement],
) -> Result<(), Box<dyn std::error::Error>> {
    let lines = measurements.iter().filter_map(|one| {
        let name = one.figure.strip_suffix(DRAWN)?;
        let points = one.values.iter();
        let points: Vec<_> = points
            .map(|(number, value)| (*number as f64, *value))
            .collect();
        Some((name.to_owned(), points))
    });
    let lines: Vec<_> = lines.collect();
    let numbers = measurements.iter().flat_map(|one| one.values.keys());
    let numbers: BTreeSet<usize> = numbers.copied().filter(|number| *number > 1).collect();
    let first = numbers.first().copied().unwrap_or(1) as f64;
    let last = numbers.last().copied().unwrap_or(10) as f64;
    let values = lines.iter().flat_map(|(_, points)| points);
    let highest = values.map(|(_, value)| *value).fold(1.0, f64::max);
    let root = SVGBackend::with_string(svg, (640, 360)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("CPU time for each new resource", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d((first..last).log_scale(), 0.0..highest * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("resources")
        .y_desc("milliseconds")
        .draw()?;
    for ((name, points), colour) in lines.into_iter().zip(COLOURS) {
        chart
            .draw_series(LineSeries::new(points, colour).point_size(3))?
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_cost_is_a_line_with_its_name() {
        let operator = Measurement {
            figure: format!("operator{DRAWN}"),
            goal: None,
            values: BTreeMap::from([(100, 9.0), (10_000, 8.0)]),
            previous: BTreeMap::new(),
        };
        let other = Measurement::of_one("memory, MiB", None, 7.0);
        let svg = draw(&[operator, other]).unwrap();
        assert!(svg.contains("operator") && !svg.contains("memory"), "{svg}");
    }
}
