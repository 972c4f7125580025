//! A fixed computation beside a measurement, which shows how fast the processor is at that time.
//!
//! Other machines share the processor, and other programs its caches, so the CPU time of the same work
//! differs by half between two minutes.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

/// What is computed: JSON is parsed and written, as an operator does most of the time.
const TEXT: &str =
    include_str!("../../../plugins/llama-stack-0.7/tests/golden/0.7-full/request.json");
/// How often the text is parsed and written in one computation.
const REPETITIONS: usize = 50;
/// The time between two computations, a hundred times as long as one.
const INTERVAL: Duration = Duration::from_millis(500);

/// A thread that repeats the computation.
pub struct ReferenceWorkload {
    stop: Sender<()>,
    thread: JoinHandle<anyhow::Result<Vec<Duration>>>,
}

impl ReferenceWorkload {
    /// Starts the thread.
    pub fn start() -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut times = Vec::new();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                times.push(compute()?);
            }
            Ok(times)
        });
        Self { stop, thread }
    }

    /// Stops the thread. Returns the median of the CPU times, in milliseconds.
    pub fn stop(self) -> anyhow::Result<f64> {
        drop(self.stop);
        let joined = self.thread.join();
        let mut times = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        times.sort();
        let median = times.get(times.len() / 2);
        let median = median.context("the measurement was too short for the reference workload")?;
        Ok(median.as_secs_f64() * 1000.0)
    }
}

/// The CPU time of one computation.
fn compute() -> anyhow::Result<Duration> {
    let before = thread_cpu_time()?;
    let mut length = 0;
    for _ in 0..REPETITIONS {
        let value: Value = serde_json::from_str(std::hint::black_box(TEXT))?;
        length += serde_json::to_string(&value)?.len();
    }
    std::hint::black_box(length);
    Ok(thread_cpu_time()? - before)
}

/// The CPU time of this thread so far.
fn thread_cpu_time() -> anyhow::Result<Duration> {
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {path}"))?;
    let nanoseconds = text.split(' ').next().unwrap_or_default().parse();
    Ok(Duration::from_nanos(nanoseconds.with_context(|| {
        format!("{path} has no CPU time: {text:?}")
    })?))
}
