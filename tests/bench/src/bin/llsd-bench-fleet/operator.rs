//! The measured processes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use llsd_testbed::{AuditedRequest, Mark, Testbed};

/// The user name of all operators.
const USER: &str = "bench-operator";
/// Without a request for this long, an operator has nothing to do.
pub(crate) const QUIET: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running operator, killed when dropped.
pub(crate) struct Operator(Child);

impl Operator {
    /// Starts an operator. Only the first one serves webhooks, because both are on this machine.
    pub(crate) fn start(
        testbed: &Testbed,
        llsd: &Path,
        namespace: &str,
        identity: &str,
        serves_webhooks: bool,
    ) -> anyhow::Result<Self> {
        let kubeconfig = testbed.add_user(USER, Some("system:masters"))?;
        let mut command = Command::new(llsd);
        command
            .args(["operator", "--operator-namespace", namespace])
            .args(["--leader-elect", identity])
            .args(["--poll-servers", "0", "--drain", "0"])
            .arg(if serves_webhooks {
                "--dev"
            } else {
                "--no-webhooks"
            })
            .env("KUBECONFIG", kubeconfig)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("failed to start {}", llsd.display()))?;
        Ok(Self(child))
    }

    /// Asks the operator to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.signal("TERM")?;
        ensure!(self.0.wait()?.success(), "the operator failed");
        Ok(())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.0.id().to_string()])
            .status()?;
        ensure!(sent.success(), "failed to send SIG{name}");
        Ok(())
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.0.id())
    }

    /// Its CPU time in seconds.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
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
pub(crate) struct Memory {
    pub(crate) now: f64,
    pub(crate) peak: f64,
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
pub(crate) fn cpu_seconds(process: u32) -> anyhow::Result<f64> {
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
pub(crate) fn requests(testbed: &Testbed, since: Mark) -> anyhow::Result<Vec<AuditedRequest>> {
    let mut requests = testbed.audit().requests(USER, since)?;
    requests.retain(|one| one.verb != "watch" && one.resource != "leases");
    Ok(requests)
}

/// Waits until the operators have sent no request for a while, and at most this long.
pub(crate) async fn settle(testbed: &Testbed, within: Duration) -> anyhow::Result<()> {
    let started = std::time::Instant::now();
    let (mut mark, mut since) = (testbed.audit().mark()?, started);
    while since.elapsed() < QUIET {
        ensure!(
            started.elapsed() < within,
            "the operator still sends requests after {within:?}"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
        if !requests(testbed, mark)?.is_empty() {
            (mark, since) = (testbed.audit().mark()?, std::time::Instant::now());
        }
    }
    Ok(())
}
