//! A measured operator, and what it asks of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::StreamExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use llsd_testbed::{AuditedRequest, Mark, Testbed};
use serde::de::DeserializeOwned;

/// The user name of all operators.
const USER: &str = "bench-operator";
/// Without a request for this long, an operator has nothing to do.
pub const QUIET: Duration = Duration::from_secs(3);
/// The polling interval, far shorter than the measured times.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Longer than any step takes.
pub const DEADLINE: Duration = Duration::from_secs(1200);

/// A running operator, killed when dropped.
pub struct Operator(Child);

impl Operator {
    /// Starts an operator with options. `cache` is its cache of compiled plugins.
    pub fn start(
        testbed: &Testbed,
        llsd: &Path,
        cache: &Path,
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let kubeconfig = testbed.add_user(USER, Some("system:masters"))?;
        let child = Command::new(llsd)
            .arg("operator")
            .args(options)
            .env("KUBECONFIG", kubeconfig)
            .env("XDG_CACHE_HOME", cache)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("failed to start {}", llsd.display()))?;
        Ok(Self(child))
    }

    /// Asks the operator to stop, and waits until it has.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.signal("TERM")?;
        ensure!(self.0.wait()?.success(), "the operator failed");
        Ok(())
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.0.id().to_string()])
            .status()?;
        ensure!(sent.success(), "failed to send SIG{name}");
        Ok(())
    }

    /// Its memory.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.0.id())
    }

    /// Its CPU time in seconds.
    pub fn cpu(&self) -> anyhow::Result<f64> {
        cpu_seconds(self.0.id())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Memory of a process in MiB.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Now.
    pub now: f64,
    /// The most so far.
    pub peak: f64,
}

impl Memory {
    fn of(process: u32) -> anyhow::Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let value = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key));
            let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
            let kibibytes: f64 = kibibytes.with_context(|| format!("{key} not found"))?;
            anyhow::Ok(kibibytes / 1024.0)
        };
        Ok(Self {
            now: value("VmRSS")?,
            peak: value("VmHWM")?,
        })
    }
}

/// The CPU time of a process, user and system.
pub fn cpu_seconds(process: u32) -> anyhow::Result<f64> {
    /// `USER_HZ`, which is 100 on every Linux architecture that we support.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The process name, in parentheses, may contain spaces.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|one| one.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

/// The requests of all operators since a mark, except watches and those for the Lease.
pub fn requests(testbed: &Testbed, since: Mark) -> anyhow::Result<Vec<AuditedRequest>> {
    let mut requests = testbed.audit().requests(USER, since)?;
    requests.retain(|one| one.verb != "watch" && one.resource != "leases");
    Ok(requests)
}

/// Waits until the operators have sent no request for a while.
pub async fn settle(testbed: &Testbed) -> anyhow::Result<()> {
    let started = Instant::now();
    let (mut mark, mut since) = (testbed.audit().mark()?, started);
    while since.elapsed() < QUIET {
        ensure!(
            started.elapsed() < DEADLINE,
            "the operator still sends requests after {DEADLINE:?}"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
        if !requests(testbed, mark)?.is_empty() {
            (mark, since) = (testbed.audit().mark()?, Instant::now());
        }
    }
    Ok(())
}

/// The number of requests of each kind.
pub fn by_verb(requests: &[AuditedRequest]) -> String {
    let mut verbs: BTreeMap<String, usize> = BTreeMap::new();
    for one in requests {
        let key = format!("{} {}", one.verb, one.resource);
        *verbs.entry(key).or_default() += 1;
    }
    let texts = verbs.iter().map(|(verb, count)| format!("{verb} {count}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Watches until `number` objects satisfy a condition. Repeated lists would load the API server more than
/// the operator does.
pub async fn until_count<K>(
    api: Api<K>,
    state: &str,
    number: usize,
    holds: impl Fn(&K) -> bool,
) -> anyhow::Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut seen = BTreeSet::new();
    let changes = watcher(api, watcher::Config::default()).default_backoff();
    let mut changes = pin!(changes.applied_objects());
    let counting = async {
        while seen.len() < number {
            let object = changes.next().await.context("the watch ended")??;
            if holds(&object) {
                seen.insert(object.name_any());
            }
        }
        anyhow::Ok(())
    };
    let counted = tokio::time::timeout(DEADLINE, counting).await;
    counted.with_context(|| format!("not all {state} after {DEADLINE:?}"))?
}
