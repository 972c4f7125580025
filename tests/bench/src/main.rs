//! `cargo xtask bench`: generation in the sandbox beside the same adapter compiled natively.
//!
//! Everything is measured in one run on one machine, so that the ratios mean something. Prints
//! figures and judges nothing: benches are no timed tests.

#![allow(clippy::print_stdout, reason = "figures are what this program is for")]

// Shared with the tests of the core, which cannot use a crate of the shell.
#[path = "../../../host/render/tests/native/mod.rs"]
mod native;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::Checked;
use llsd_plugin::{CompileCache, Host, HostConfig, Memory, Origin};
use llsd_render::adapter::Adapter;
use llsd_render::{Inputs, Surroundings, generate, yaml};
use native::Native;
use serde_json::Value;

/// Generations measured of each kind, after a tenth of it to warm up.
const RUNS: usize = 2_000;

fn main() -> anyhow::Result<()> {
    if let Some(code) = llsd_plugin::child_main() {
        std::process::exit(if code == std::process::ExitCode::SUCCESS {
            0
        } else {
            1
        });
    }
    let component = PathBuf::from(
        std::env::args()
            .nth(1)
            .context("usage: llsd-bench COMPONENT LLSD")?,
    );
    let llsd = PathBuf::from(
        std::env::args()
            .nth(2)
            .context("usage: llsd-bench COMPONENT LLSD")?,
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let work = Work::new(&root)?;
    let bytes = std::fs::read(&component)?;

    let forgetful = Host::new(HostConfig {
        memory: Memory {
            entries: 0,
            bytes: 0,
        },
        ..HostConfig::default()
    })?;
    let sandboxed = forgetful.load(&bytes, Origin::BuiltIn)?;
    let (native, sandbox) = side_by_side(&work, &Native::new(), &sandboxed)?;
    println!(
        "full generation (detect, expand, assemble) of samples/full.yaml, {RUNS} runs each, alternating"
    );
    println!(
        "  native    p50 {:>8.1?}  p99 {:>8.1?}",
        native.p50, native.p99
    );
    println!(
        "  sandbox   p50 {:>8.1?}  p99 {:>8.1?}",
        sandbox.p50, sandbox.p99
    );
    println!(
        "  sandbox / native: {:.2}",
        sandbox.p50.as_secs_f64() / native.p50.as_secs_f64()
    );

    let remembering = Host::new(HostConfig::default())?.load(&bytes, Origin::BuiltIn)?;
    work.generate(&remembering)?;
    let recalled = measure(RUNS, || work.generate(&remembering))?;
    println!("  remembered answers: p50 {:.1?}", recalled.p50);

    let folder = tempfile::tempdir()?;
    let cached = || -> anyhow::Result<Host> {
        Ok(Host::new(HostConfig {
            cache: Some(CompileCache::open(folder.path())?),
            ..HostConfig::default()
        })?)
    };
    let begin = Instant::now();
    cached()?.load(&bytes, Origin::BuiltIn)?;
    println!("compiling the component: {:.1?}", begin.elapsed());
    let host = cached()?;
    let ready = measure(100, || Ok(host.load(&bytes, Origin::BuiltIn).map(drop)?))?;
    println!(
        "ready from the compile cache: p50 {:.2?}  p99 {:.2?}",
        ready.p50, ready.p99
    );

    let resource = root.join("samples/full.yaml");
    let render = || -> anyhow::Result<()> {
        let output = std::process::Command::new(&llsd)
            .args(["render", "-f"])
            .arg(&resource)
            .output()?;
        anyhow::ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    };
    render()?;
    let whole = measure(50, render)?;
    println!(
        "llsd render from a warm cache, end to end: p50 {:.1?}  p99 {:.1?}",
        whole.p50, whole.p99
    );
    Ok(())
}

/// The specification's full example on the base built in for its distribution.
struct Work {
    checked: Checked,
    base: Value,
    surroundings: Surroundings,
}

impl Work {
    fn new(root: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(root.join("samples/full.yaml"))?;
        let document: Value = serde_saphyr::from_str(&text)?;
        let base = std::fs::read_to_string(root.join("host/render/distributions/starter.yaml"))?;
        Ok(Self {
            checked: llsd_api::review(document).result?,
            base: yaml::read(&base)?,
            surroundings: Surroundings::default(),
        })
    }

    fn generate(&self, adapter: &dyn Adapter) -> anyhow::Result<()> {
        // No schema is stated, so that the plugin has to recognise the base.
        let inputs = Inputs {
            checked: &self.checked,
            base: &self.base,
            hints: &Hints::default(),
            surroundings: &self.surroundings,
        };
        generate(&[adapter], &inputs)?;
        Ok(())
    }
}

struct Spread {
    p50: Duration,
    p99: Duration,
}

/// Alternates, so that whatever else the machine does meets both.
fn side_by_side(work: &Work, a: &dyn Adapter, b: &dyn Adapter) -> anyhow::Result<(Spread, Spread)> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for run in 0..RUNS + RUNS / 10 {
        for (adapter, times) in [(a, &mut first), (b, &mut second)] {
            let begin = Instant::now();
            work.generate(adapter)?;
            if run >= RUNS / 10 {
                times.push(begin.elapsed());
            }
        }
    }
    Ok((spread(first), spread(second)))
}

fn measure(runs: usize, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Spread> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begin = Instant::now();
        work()?;
        times.push(begin.elapsed());
    }
    Ok(spread(times))
}

fn spread(mut times: Vec<Duration>) -> Spread {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Spread {
        p50: at(0.5),
        p99: at(0.99),
    }
}
