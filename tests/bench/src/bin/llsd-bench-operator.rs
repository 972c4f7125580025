//! `cargo xtask bench operator`: measures the operator with many resources on a real control plane.
//!
//! Starts the operator as a separate process and creates resources. Counts requests in the API server's
//! audit log, and reads CPU time and memory from /proc. Prints figures and sets no limits.

#![allow(clippy::print_stdout, reason = "the output of a command")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_testbed::{AuditedRequest, Mark, Namespace, Release, Testbed};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The user name of the operator.
const USER: &str = "bench-operator";
/// Longer than any step takes.
const DEADLINE: Duration = Duration::from_secs(600);
/// The polling interval, far shorter than the measured times.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The number of concurrent create requests.
const CONCURRENCY: usize = 16;

#[derive(Parser)]
struct Arguments {
    /// Path of the `llsd` binary
    llsd: PathBuf,
    /// Number of resources to create
    #[arg(short, default_value_t = 200)]
    number: usize,
    /// Create v1alpha2 resources with a generated configuration, instead of v1alpha1 resources with the
    /// configuration of their image
    #[arg(long)]
    generated: bool,
    /// Seconds to measure the idle operator
    #[arg(long, default_value_t = 60)]
    rest: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let testbed = Testbed::start(Release::Newest).await?;
    let bench = Bench::new(&testbed, &arguments).await?;
    bench.run(&arguments).await
}

struct Bench<'a> {
    testbed: &'a Testbed,
    client: Client,
    namespace: Namespace,
    operator: OperatorProcess,
}

/// The process of the operator, killed when dropped.
struct OperatorProcess(Child);

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills the compile cache, so that compilation is not measured.
fn compile_plugins(llsd: &Path) -> anyhow::Result<()> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/minimal.yaml");
    let rendered = Command::new(llsd)
        .args(["render", "-f"])
        .arg(sample)
        .stdout(Stdio::null())
        .status()?;
    ensure!(rendered.success(), "{} render failed", llsd.display());
    Ok(())
}

impl<'a> Bench<'a> {
    async fn new(testbed: &'a Testbed, arguments: &Arguments) -> anyhow::Result<Self> {
        let namespace = testbed.namespace("bench").await?;
        let client = testbed.client("admin").await?;
        compile_plugins(&arguments.llsd)?;
        let process = Command::new(&arguments.llsd)
            .args(["operator", "--dev"])
            .args(["--operator-namespace", namespace.name()])
            .env(
                "KUBECONFIG",
                testbed.add_user(USER, Some("system:masters"))?,
            )
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("failed to start {}", arguments.llsd.display()))?;
        let bench = Self {
            testbed,
            client,
            namespace,
            operator: OperatorProcess(process),
        };
        bench.settle().await?;
        Ok(bench)
    }

    async fn run(&self, arguments: &Arguments) -> anyhow::Result<()> {
        let number = arguments.number;
        let idle = self.memory("VmRSS")?;
        println!("{number} resources, plugins from the compile cache, idle RSS {idle}");
        let (mark, cpu, started) = (self.mark()?, self.cpu_seconds()?, Instant::now());
        self.create_all(arguments).await?;
        let created = started.elapsed();
        self.wait_for_deployments(number).await?;
        let deployed = started.elapsed();
        self.wait_until_ready(number).await?;
        let ready = started.elapsed();
        self.settle().await?;
        println!("  all created      {created:>10.1?}");
        println!("  all Deployments  {deployed:>10.1?}");
        println!("  all Ready        {ready:>10.1?}");
        println!("  CPU              {:>9.1}s", self.cpu_seconds()? - cpu);
        println!(
            "  RSS              {} (peak {})",
            self.memory("VmRSS")?,
            self.memory("VmHWM")?
        );
        let requests = self.requests(mark)?;
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        let each = requests.len() as f64 / number as f64;
        println!(
            "  requests         {each:>9.1} per resource: {}",
            by_verb(&requests)
        );

        let (mark, cpu) = (self.mark()?, self.cpu_seconds()?);
        tokio::time::sleep(Duration::from_secs(arguments.rest)).await;
        let requests = self.requests(mark)?;
        println!(
            "  idle             {:>9} requests in {}s, {:.2}s CPU {}",
            requests.len(),
            arguments.rest,
            self.cpu_seconds()? - cpu,
            by_verb(&requests)
        );
        let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
        println!("  a label change   {}", self.cost_of(touch).await?);
        let change = json!({"spec": {
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://other:8000"}},
        }});
        println!("  a spec change    {}", self.cost_of(change).await?);
        Ok(())
    }

    async fn create_all(&self, arguments: &Arguments) -> anyhow::Result<()> {
        let creates = (0..arguments.number).map(|number| {
            let make = if arguments.generated {
                v1alpha2
            } else {
                v1alpha1
            };
            async move {
                let resource: DynamicObject = serde_json::from_value(make(number))?;
                let types = resource
                    .types
                    .as_ref()
                    .context("the resource has no type")?;
                let of_type = ApiResource::from_gvk(&types.try_into()?);
                let namespace = self.namespace.name();
                let api =
                    Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &of_type);
                api.create(&PostParams::default(), &resource).await?;
                anyhow::Ok(())
            }
        });
        let mut done = futures::stream::iter(creates).buffer_unordered(CONCURRENCY);
        while let Some(created) = done.next().await {
            created?;
        }
        Ok(())
    }

    async fn wait_for_deployments(&self, number: usize) -> anyhow::Result<()> {
        let api: Api<PartialObjectMeta<Deployment>> = self.namespace.api(&self.client);
        until_count(api, "Deployments", number, |_| true).await
    }

    async fn wait_until_ready(&self, number: usize) -> anyhow::Result<()> {
        let api: Api<Distribution> = self.namespace.api(&self.client);
        until_count(api, "Ready", number, |cr| {
            cr.status.as_ref().and_then(|status| status.phase) == Some(Phase::Ready)
        })
        .await
    }

    /// The requests that one change of the first resource causes.
    async fn cost_of(&self, change: Value) -> anyhow::Result<String> {
        const NAME: &str = "bench-0";
        let mark = self.mark()?;
        let api: Api<Distribution> = self.namespace.api(&self.client);
        let changed = api
            .patch(NAME, &PatchParams::default(), &Patch::Merge(change))
            .await?;
        let generation = changed.metadata.generation;
        until("ready again", async || {
            let status = api.get(NAME).await?.status.unwrap_or_default();
            Ok(status.observed_generation == generation && status.phase == Some(Phase::Ready))
        })
        .await?;
        self.settle().await?;
        let requests = self.requests(mark)?;
        let texts = requests.iter().map(|one| {
            let resource = match one.subresource.as_str() {
                "" => one.resource.clone(),
                below => format!("{}/{below}", one.resource),
            };
            format!("{} {resource}", one.verb)
        });
        let texts: Vec<_> = texts.collect();
        Ok(format!("{:>9} requests: {}", texts.len(), texts.join(", ")))
    }

    /// Waits until the operator has sent no request for a while.
    async fn settle(&self) -> anyhow::Result<()> {
        const QUIET: Duration = Duration::from_secs(3);
        let mut mark = self.mark()?;
        let mut since = Instant::now();
        let started = Instant::now();
        while since.elapsed() < QUIET {
            if started.elapsed() > DEADLINE {
                bail!("the operator still sends requests after {DEADLINE:?}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            if !self.requests(mark)?.is_empty() {
                mark = self.mark()?;
                since = Instant::now();
            }
        }
        Ok(())
    }

    fn mark(&self) -> anyhow::Result<Mark> {
        self.testbed.audit().mark()
    }

    /// The requests of the operator, except watches and those for the Lease.
    fn requests(&self, since: Mark) -> anyhow::Result<Vec<AuditedRequest>> {
        let mut requests = self.testbed.audit().requests(USER, since)?;
        requests.retain(|one| one.verb != "watch" && one.resource != "leases");
        Ok(requests)
    }

    /// A memory figure of the operator from /proc, such as `VmRSS`.
    fn memory(&self, key: &str) -> anyhow::Result<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.operator.0.id()))?;
        let line = status.lines().find(|line| line.starts_with(key));
        let kibibytes: u64 = line
            .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .with_context(|| format!("{key} not found in /proc/<pid>/status"))?;
        Ok(format!("{} MiB", kibibytes / 1024))
    }

    /// The CPU time of the operator, user and system.
    fn cpu_seconds(&self) -> anyhow::Result<f64> {
        /// `USER_HZ`, which is 100 on every Linux architecture that we support.
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.operator.0.id()))?;
        // The process name, in parentheses, may contain spaces.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|one| one.parse::<f64>().ok()).sum();
        Ok(ticks / TICKS_PER_SECOND)
    }
}

/// The resource with which llama-stack-k8s-operator was measured.
fn v1alpha1(number: usize) -> Value {
    json!({
        "apiVersion": "llamastack.io/v1alpha1",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": format!("bench-{number}")},
        "spec": {"server": {"distribution": {"name": "starter"}, "containerSpec": {"port": 8321}}},
    })
}

fn v1alpha2(number: usize) -> Value {
    json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": format!("bench-{number}")},
        "spec": {
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
            "resources": {"models": [format!("model-{number}")]},
        },
    })
}

fn by_verb(requests: &[AuditedRequest]) -> String {
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
async fn until_count<K>(
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

async fn until(state: &str, holds: impl AsyncFn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let started = Instant::now();
    while !holds().await? {
        if started.elapsed() > DEADLINE {
            bail!("not {state} after {DEADLINE:?}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
