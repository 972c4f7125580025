//! The built operator as a process, with the memory limit of the shipped Deployment.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use llsd_testbed::Testbed;

use crate::MemoryLimit;
use crate::memory_limit::SHIPPED_BYTES;

const START: Duration = Duration::from_secs(120);

/// A running `llsd operator`, killed when dropped.
pub struct Operator {
    process: Child,
    probes: SocketAddr,
    /// Where the API server reaches the webhooks.
    pub(crate) webhooks: SocketAddr,
    limit: MemoryLimit,
    http: reqwest::Client,
    _cache: tempfile::TempDir,
}

impl Operator {
    /// Starts the operator for all namespaces of a control plane, and waits until it is ready.
    pub async fn start(testbed: &Testbed, operator_namespace: &str) -> Result<Self> {
        let program = std::env::var("LLSD_BIN")
            .context("LLSD_BIN is not set; run the tests with `cargo xtask test`")?;
        let cache = tempfile::tempdir()?;
        let (probes, webhooks) = (free_address()?, free_address()?);
        let limit = MemoryLimit::create();
        // The shell moves itself into the control group and then becomes the operator.
        let enter = match limit.processes() {
            Some(file) => format!("echo $$ > {} && ", file.display()),
            None => String::new(),
        };
        let process = Command::new("sh")
            .args(["-c", &format!("{enter}exec \"$@\""), "sh", &program])
            .args(["operator", "--dev"])
            .args(["--operator-namespace", operator_namespace])
            .args(["--probes", &probes.to_string()])
            .args(["--webhook-listen", &webhooks.to_string()])
            .args(["--plain-http", "127.0.0.1", "--allow-address", "127.0.0.1"])
            .arg("--cache-dir")
            .arg(cache.path().join("cache"))
            .env(
                "KUBECONFIG",
                testbed.add_user("hostile-operator", Some("system:masters"))?,
            )
            .env("RUST_LOG", "error")
            // The shipped binary uses the allocator of musl, which returns free memory. That of glibc
            // keeps it, unless it is told not to.
            .env("MALLOC_ARENA_MAX", "1")
            .env("MALLOC_MMAP_THRESHOLD_", "65536")
            .env("MALLOC_TRIM_THRESHOLD_", "131072")
            .stdin(Stdio::null())
            .spawn()
            .context("failed to start the operator")?;
        let mut operator = Self {
            process,
            probes,
            webhooks,
            limit,
            http: reqwest::Client::new(),
            _cache: cache,
        };
        let ready = format!("http://{probes}/readyz");
        let is_ready = async || {
            let response = operator.http.get(&ready).send().await?;
            ensure!(response.status() == 200, "readyz: {}", response.status());
            anyhow::Ok(())
        };
        let started = Instant::now();
        while let Err(error) = is_ready().await {
            ensure!(
                started.elapsed() < START,
                "the operator is not ready: {error}"
            );
            if let Some(status) = operator.process.try_wait()? {
                bail!("the operator ended: {status}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(operator)
    }

    /// How the memory limit is enforced.
    pub fn limit(&self) -> &'static str {
        self.limit.describe()
    }

    /// Fails if the operator was killed, exceeded its memory, or is not alive.
    pub async fn check(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()? {
            bail!("the operator ended: {status}");
        }
        self.limit.check()?;
        let peak = self.memory("VmHWM")?;
        ensure!(peak < SHIPPED_BYTES, "the operator used {} MiB", peak >> 20);
        let url = format!("http://{}/healthz", self.probes);
        let response = self
            .http
            .get(url)
            .timeout(Duration::from_secs(5))
            .send()
            .await
            .context("the liveness probe got no response")?;
        ensure!(response.status() == 200, "healthz: {}", response.status());
        Ok(())
    }

    /// The memory that belongs to the process alone, in bytes.
    pub fn private_memory(&self) -> Result<u64> {
        self.memory("RssAnon")
    }

    /// The peak of its resident memory, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        self.memory("VmHWM")
    }

    /// Measures the peak from now on.
    pub fn reset_peak(&self) -> Result<()> {
        Ok(std::fs::write(
            format!("/proc/{}/clear_refs", self.process.id()),
            "5",
        )?)
    }

    fn memory(&self, field: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .with_context(|| format!("/proc has no {field}"))?;
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kibibytes << 10)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
