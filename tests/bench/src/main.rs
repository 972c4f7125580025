//! `cargo xtask bench`: compares generation in the sandbox with the same adapter compiled natively.
//!
//! Measures everything in one run on one machine, so that the figures are comparable. Prints figures and
//! sets no limits.

#![allow(clippy::print_stdout, reason = "the output of a command")]

// Shared with the tests of `llsd-render`, which must not depend on this crate.
#[path = "../../../host/render/tests/native/mod.rs"]
mod native;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::Checked;
use llsd_bench::{Goal, Measurement, measurement};
use llsd_plugin::{CompileCache, Host, HostConfig, Origin, ResultCacheCapacity};
use llsd_render::adapter::Adapter;
use llsd_render::{Inputs, PodContext, digest, generate, yaml};
use native::Native;
use serde_json::Value;

/// The number of measured runs. A tenth of it runs before, to warm up.
const RUNS: usize = 2_000;

#[derive(Parser)]
struct Arguments {
    /// Path of the component of the adapter for llama-stack 0.7
    component: PathBuf,
    /// Path of the `llsd` binary
    llsd: PathBuf,
    /// Folder for generation.json
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    if let Some(code) = llsd_plugin::child_main() {
        std::process::exit(if code == std::process::ExitCode::SUCCESS {
            0
        } else {
            1
        });
    }
    let Arguments {
        component,
        llsd,
        output,
    } = Arguments::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workload = Workload::new(&root)?;
    let bytes = std::fs::read(&component)?;

    let uncached = Host::new(HostConfig {
        result_cache: ResultCacheCapacity {
            entries: 0,
            bytes: 0,
        },
        ..HostConfig::default()
    })?;
    let sandboxed = uncached.load(&bytes, Origin::BuiltIn)?;
    let (native, sandbox) = compare(&workload, &Native::new(), &sandboxed)?;
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
    let ratio = sandbox.p50.as_secs_f64() / native.p50.as_secs_f64();
    println!("  sandbox / native: {ratio:.2}");

    let with_result_cache = Host::new(HostConfig::default())?.load(&bytes, Origin::BuiltIn)?;
    workload.generate(&with_result_cache)?;
    let cache_hits = measure(RUNS, || workload.generate(&with_result_cache))?;
    println!("  result cache hits: p50 {:.1?}", cache_hits.p50);

    let folder = tempfile::tempdir()?;
    let cached = || -> anyhow::Result<Host> {
        Ok(Host::new(HostConfig {
            compile_cache: Some(CompileCache::open(folder.path())?),
            ..HostConfig::default()
        })?)
    };
    let begin = Instant::now();
    cached()?.load(&bytes, Origin::BuiltIn)?;
    println!("compiling the component: {:.1?}", begin.elapsed());
    let (host, digest) = (cached()?, digest::of(&bytes));
    let ready = measure(RUNS / 2, || {
        Ok(host.load_built_in(&bytes, &digest).map(drop)?)
    })?;
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
    let measurements = [
        Measurement::of_one(
            "generation of samples/full.yaml in the sandbox, p99, ms",
            Some(Goal::AtMost(1.0)),
            milliseconds(sandbox.p99),
        ),
        Measurement::of_one(
            "the same beside native code, ratio of p50",
            Some(Goal::AtMost(1.2)),
            ratio,
        ),
        Measurement::of_one(
            "adapter ready from the compile cache, p99, ms",
            Some(Goal::AtMost(3.0)),
            milliseconds(ready.p99),
        ),
    ];
    println!("\n{}", measurement::table(&measurements));
    if let Some(folder) = output {
        measurement::write(&folder, "generation", &measurements)?;
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The full example of the specification, on the built-in base configuration.
struct Workload {
    checked: Checked,
    base: Value,
    pod_context: PodContext,
}

impl Workload {
    fn new(root: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(root.join("samples/full.yaml"))?;
        let document: Value = serde_saphyr::from_str(&text)?;
        let base = std::fs::read_to_string(root.join("host/render/distributions/starter.yaml"))?;
        let mut base: Value = yaml::read(&base)?;
        // An API that no release of ogx has, so that the dialect is certain.
        if let Some(apis) = base["apis"].as_array_mut() {
            apis.push("scoring".into());
        }
        Ok(Self {
            checked: llsd_api::check_document(document).result?,
            base,
            pod_context: PodContext::default(),
        })
    }

    fn generate(&self, adapter: &dyn Adapter) -> anyhow::Result<()> {
        // Without a schema, so that the plugin must detect it.
        let inputs = Inputs {
            checked: &self.checked,
            base: &self.base,
            hints: &Hints::default(),
            running_release: None,
            pod_context: &self.pod_context,
        };
        generate(&[adapter], &inputs)?;
        Ok(())
    }
}

struct Percentiles {
    p50: Duration,
    p99: Duration,
}

/// Measures two adapters in alternation, so that other load on the machine affects both.
fn compare(
    workload: &Workload,
    a: &dyn Adapter,
    b: &dyn Adapter,
) -> anyhow::Result<(Percentiles, Percentiles)> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for run in 0..RUNS + RUNS / 10 {
        for (adapter, times) in [(a, &mut first), (b, &mut second)] {
            let begin = Instant::now();
            workload.generate(adapter)?;
            if run >= RUNS / 10 {
                times.push(begin.elapsed());
            }
        }
    }
    Ok((percentiles(first), percentiles(second)))
}

fn measure(
    runs: usize,
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Percentiles> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begin = Instant::now();
        work()?;
        times.push(begin.elapsed());
    }
    Ok(percentiles(times))
}

fn percentiles(mut times: Vec<Duration>) -> Percentiles {
    times.sort();
    let at = |fraction: f64| times[((times.len() - 1) as f64 * fraction) as usize];
    Percentiles {
        p50: at(0.5),
        p99: at(0.99),
    }
}
