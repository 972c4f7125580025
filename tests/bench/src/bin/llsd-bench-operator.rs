//! `cargo xtask bench operator`: what a fleet of resources costs, on a real control plane.
//!
//! Starts the operator as a process of its own, creates resources, and reads the API server's audit
//! log and the kernel's account of the process. Prints figures and judges nothing.

#![allow(clippy::print_stdout, reason = "figures are what this program is for")]

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

/// Who the operator is to the API server.
const USER: &str = "bench-operator";
/// Longer than anything here should take.
const DEADLINE: Duration = Duration::from_secs(600);
/// How often something is looked at: far below what is measured.
const GLANCE: Duration = Duration::from_millis(50);
/// Creates under way at the same time, as from a script that is in a hurry.
const CREATORS: usize = 16;

#[derive(Parser)]
struct Arguments {
    /// The binary `llsd`
    llsd: PathBuf,
    /// Resources to create
    #[arg(short, default_value_t = 200)]
    number: usize,
    /// Let each be a v1alpha2 resource with a generated configuration, instead of a v1alpha1 resource
    /// with its distribution's own
    #[arg(long)]
    generated: bool,
    /// Seconds to watch the operator at rest
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
    operator: Operator,
}

/// The operator's process, which ends with this.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has the compile cache filled: what a start without it takes is not what resources take.
fn compile_plugins(llsd: &Path) -> anyhow::Result<()> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/minimal.yaml");
    let rendered = Command::new(llsd)
        .args(["render", "-f"])
        .arg(sample)
        .stdout(Stdio::null())
        .status()?;
    ensure!(rendered.success(), "{} cannot render", llsd.display());
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
            .with_context(|| format!("cannot start {}", arguments.llsd.display()))?;
        let bench = Self {
            testbed,
            client,
            namespace,
            operator: Operator(process),
        };
        bench.settle().await?;
        Ok(bench)
    }

    async fn run(&self, arguments: &Arguments) -> anyhow::Result<()> {
        let number = arguments.number;
        let idle = self.memory("VmRSS")?;
        println!("{number} resources, plugins from the compile cache, idle RSS {idle}");
        let (mark, cpu, begun) = (self.mark()?, self.cpu_seconds()?, Instant::now());
        self.create_all(arguments).await?;
        let created = begun.elapsed();
        self.wait_for_deployments(number).await?;
        let deployed = begun.elapsed();
        self.wait_until_ready(number).await?;
        let ready = begun.elapsed();
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
            "  at rest          {:>9} requests in {}s, {:.2}s CPU {}",
            requests.len(),
            arguments.rest,
            self.cpu_seconds()? - cpu,
            by_verb(&requests)
        );
        let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
        println!("  a touch          {}", self.cost_of(touch).await?);
        let change = json!({"spec": {
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://other:8000"}},
        }});
        println!("  a change         {}", self.cost_of(change).await?);
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
                let types = resource.types.as_ref().context("a resource has a type")?;
                let of_type = ApiResource::from_gvk(&types.try_into()?);
                let namespace = self.namespace.name();
                let api =
                    Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &of_type);
                api.create(&PostParams::default(), &resource).await?;
                anyhow::Ok(())
            }
        });
        let mut done = futures::stream::iter(creates).buffer_unordered(CREATORS);
        while let Some(created) = done.next().await {
            created?;
        }
        Ok(())
    }

    async fn wait_for_deployments(&self, number: usize) -> anyhow::Result<()> {
        let api: Api<PartialObjectMeta<Deployment>> = self.namespace.api(&self.client);
        until_so_many(api, "Deployments", number, |_| true).await
    }

    async fn wait_until_ready(&self, number: usize) -> anyhow::Result<()> {
        let api: Api<Distribution> = self.namespace.api(&self.client);
        until_so_many(api, "Ready", number, |cr| {
            cr.status.as_ref().and_then(|status| status.phase) == Some(Phase::Ready)
        })
        .await
    }

    /// What one change of the first resource makes the operator ask.
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

    /// Waits until the operator has asked nothing for a while.
    async fn settle(&self) -> anyhow::Result<()> {
        const QUIET: Duration = Duration::from_secs(3);
        let mut mark = self.mark()?;
        let mut since = Instant::now();
        let begun = Instant::now();
        while since.elapsed() < QUIET {
            if begun.elapsed() > DEADLINE {
                bail!("the operator does not come to rest");
            }
            tokio::time::sleep(GLANCE).await;
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

    /// Requests of the operator, apart from watches and the Lease.
    fn requests(&self, since: Mark) -> anyhow::Result<Vec<AuditedRequest>> {
        let mut requests = self.testbed.audit().requests(USER, since)?;
        requests.retain(|one| one.verb != "watch" && one.resource != "leases");
        Ok(requests)
    }

    /// What the kernel says about the operator's memory.
    fn memory(&self, key: &str) -> anyhow::Result<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.operator.0.id()))?;
        let line = status.lines().find(|line| line.starts_with(key));
        let kibibytes: u64 = line
            .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .with_context(|| format!("the kernel does not tell {key}"))?;
        Ok(format!("{} MiB", kibibytes / 1024))
    }

    /// Seconds that the operator has computed, in both modes.
    fn cpu_seconds(&self) -> anyhow::Result<f64> {
        /// What Linux counts in, everywhere.
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.operator.0.id()))?;
        // The name, in parentheses, may hold anything.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|one| one.parse::<f64>().ok()).sum();
        Ok(ticks / TICKS_PER_SECOND)
    }
}

/// What was measured of the first operator.
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

/// Watches until so many objects satisfy a condition. A list again and again would keep the API server
/// busier than the operator does.
async fn until_so_many<K>(
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
    let begun = Instant::now();
    while !holds().await? {
        if begun.elapsed() > DEADLINE {
            bail!("not {state} after {DEADLINE:?}");
        }
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}
