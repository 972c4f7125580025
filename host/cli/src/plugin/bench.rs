//! `llsd plugin bench`: measures latency and fuel of recorded requests, and compares them with a
//! baseline.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use llsd_plugin::{Plugin, Request};
use serde::{Deserialize, Serialize};

use crate::{Exit, files, output, plugin_loader};

/// Arguments of `plugin bench`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// File with the component
    file: PathBuf,
    /// Directory with recorded requests, as for `llsd plugin test --fixtures`
    #[arg(long, value_name = "FOLDER")]
    fixtures: PathBuf,
    /// Number of times to repeat each request
    #[arg(long, default_value_t = 200)]
    runs: u32,
    /// Baseline to compare with; created if the file does not exist
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    limits: plugin_loader::LimitOptions,
}

/// The cost of one recorded request.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cost {
    fuel: u64,
    p50_us: u64,
    p99_us: u64,
}

/// Rejects if a request uses more fuel than in the baseline. Time is not compared, because it
/// depends on the machine.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let plugin = plugin_loader::load_file(&arguments.limits.host()?, &arguments.file)?;
    let mut costs = BTreeMap::new();
    for fixture in llsd_conformance::read_fixtures(&arguments.fixtures)? {
        costs.insert(
            fixture.name.clone(),
            measure(&plugin, &fixture.request, arguments.runs.max(1))?,
        );
    }
    let baseline: Option<BTreeMap<String, Cost>> = match &arguments.baseline {
        Some(path) if path.exists() => Some(
            serde_json::from_str(&files::text(path)?)
                .with_context(|| format!("{} is not a valid baseline", path.display()))?,
        ),
        Some(path) => {
            files::write(path, serde_json::to_string_pretty(&costs)?)?;
            output::print_note(&format!("wrote the baseline {}", path.display()));
            None
        }
        None => None,
    };
    let mut exit = Exit::Success;
    for (name, cost) in &costs {
        let before = baseline.as_ref().and_then(|all| all.get(name));
        let change = before.map_or_else(String::new, |before| {
            format!(
                "  fuel ×{:.3}, p50 ×{:.2}",
                ratio(cost.fuel, before.fuel),
                ratio(cost.p50_us, before.p50_us)
            )
        });
        if before.is_some_and(|before| cost.fuel > before.fuel) {
            exit = Exit::Rejected;
        }
        output::print(&format!(
            "{name}: fuel {}, p50 {} µs, p99 {} µs{change}",
            cost.fuel, cost.p50_us, cost.p99_us
        ));
    }
    Ok(exit)
}

fn measure(plugin: &Plugin, request: &Request, runs: u32) -> anyhow::Result<Cost> {
    let mut durations = Vec::new();
    let mut fuel = 0;
    for _ in 0..runs {
        let response = plugin.call_uncached(request)?;
        fuel = response.fuel;
        durations.push(response.duration);
    }
    durations.sort();
    let at = |share: f64| micros(durations[((durations.len() - 1) as f64 * share) as usize]);
    Ok(Cost {
        fuel,
        p50_us: at(0.5),
        p99_us: at(0.99),
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn ratio(now: u64, before: u64) -> f64 {
    now as f64 / before.max(1) as f64
}
