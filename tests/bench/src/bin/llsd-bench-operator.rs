//! `cargo xtask bench operator`: measures the operator with many resources on a real control plane.
//!
//! Starts the operator as a separate process and creates resources. Counts requests in the API server's
//! audit log, and reads CPU time and memory from /proc. Prints figures and sets no limits.

#![allow(clippy::print_stdout, reason = "the output of a command")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, PartialObjectMeta};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_bench::{
    DEADLINE, Memory, Operator, POLL_INTERVAL, by_verb, requests, settle, until_count,
};
use llsd_testbed::{Namespace, Release, Testbed};
use serde_json::{Value, json};
use tempfile::TempDir;

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
    operator: Operator,
    /// The compile cache.
    _cache: TempDir,
}

/// Fills a compile cache, so that compilation is not measured.
fn compile_plugins(llsd: &Path, cache: &Path) -> anyhow::Result<()> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/minimal.yaml");
    let rendered = Command::new(llsd)
        .args(["render", "-f"])
        .arg(sample)
        .env("XDG_CACHE_HOME", cache)
        .stdout(Stdio::null())
        .status()?;
    ensure!(rendered.success(), "{} render failed", llsd.display());
    Ok(())
}

impl<'a> Bench<'a> {
    async fn new(testbed: &'a Testbed, arguments: &Arguments) -> anyhow::Result<Self> {
        let namespace = testbed.namespace("bench").await?;
        let client = testbed.client("admin").await?;
        let cache = tempfile::tempdir()?;
        compile_plugins(&arguments.llsd, cache.path())?;
        let options = ["--dev", "--operator-namespace", namespace.name()];
        let operator = Operator::start(testbed, &arguments.llsd, cache.path(), &options)?;
        let bench = Self {
            testbed,
            client,
            namespace,
            operator,
            _cache: cache,
        };
        settle(testbed).await?;
        Ok(bench)
    }

    async fn run(&self, arguments: &Arguments) -> anyhow::Result<()> {
        let number = arguments.number;
        let idle = self.operator.memory()?.now;
        println!("{number} resources, plugins from the compile cache, idle RSS {idle:.0} MiB");
        let (mark, cpu, started) = (
            self.testbed.audit().mark()?,
            self.operator.cpu()?,
            Instant::now(),
        );
        self.create_all(arguments).await?;
        let created = started.elapsed();
        self.wait_for_deployments(number).await?;
        let deployed = started.elapsed();
        self.wait_until_ready(number).await?;
        let ready = started.elapsed();
        settle(self.testbed).await?;
        println!("  all created      {created:>10.1?}");
        println!("  all Deployments  {deployed:>10.1?}");
        println!("  all Ready        {ready:>10.1?}");
        println!("  CPU              {:>9.1}s", self.operator.cpu()? - cpu);
        let Memory { now, peak } = self.operator.memory()?;
        println!("  RSS              {now:.0} MiB (peak {peak:.0} MiB)");
        let sent = requests(self.testbed, mark)?;
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        let each = sent.len() as f64 / number as f64;
        println!(
            "  requests         {each:>9.1} per resource: {}",
            by_verb(&sent)
        );

        let (mark, cpu) = (self.testbed.audit().mark()?, self.operator.cpu()?);
        tokio::time::sleep(Duration::from_secs(arguments.rest)).await;
        let sent = requests(self.testbed, mark)?;
        println!(
            "  idle             {:>9} requests in {}s, {:.2}s CPU {}",
            sent.len(),
            arguments.rest,
            self.operator.cpu()? - cpu,
            by_verb(&sent)
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
        let mark = self.testbed.audit().mark()?;
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
        settle(self.testbed).await?;
        let sent = requests(self.testbed, mark)?;
        let texts = sent.iter().map(|one| {
            let resource = match one.subresource.as_str() {
                "" => one.resource.clone(),
                below => format!("{}/{below}", one.resource),
            };
            format!("{} {resource}", one.verb)
        });
        let texts: Vec<_> = texts.collect();
        Ok(format!("{:>9} requests: {}", texts.len(), texts.join(", ")))
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
