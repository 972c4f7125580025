//! `cargo xtask bench fleet`: measures how the cost of the operator grows with the number of resources.
//!
//! For each number of resources, a new control plane without controllers, so that only the operator's own
//! work counts. Prints a table with the goals, and writes it as JSON with a plot. Sets no limits.

#![allow(clippy::print_stdout, reason = "the output of a command")]

mod scraper;
mod shadow;
mod soak;
mod table;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListMeta, ListParams, Patch, PatchParams, PostParams};
use kube::core::{PartialObjectMeta, Request};
use kube::{Client, ResourceExt};
use llsd_api::Distribution;
use llsd_bench::{
    DEADLINE, Operator, QUIET, ReferenceWorkload, by_verb, cpu_seconds, measurement, plot,
    requests, settle, until_count,
};
use llsd_testbed::{AuditedRequest, Mark, Namespace, Testbed};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use scraper::Scraper;
use shadow::NewVersion;
use table::{Figure, Figures, Table};

/// The number of concurrent create requests.
const CONCURRENCY: usize = 16;
/// Resources that an author creates one after the other.
const AUTHORED: usize = 100;
/// Deployments that are created without an operator.
const BARE: usize = 500;
/// Resources in one page of a list, as kubectl asks for them.
const PAGE: u32 = 500;

#[derive(Parser)]
struct Arguments {
    /// Path of the `llsd` binary
    llsd: PathBuf,
    /// Path of the component of the adapter for llama-stack 0.7
    adapter: PathBuf,
    /// Path of the `llsd` binary of the previous release, which is measured, too
    #[arg(long, value_name = "FILE")]
    previous: Option<PathBuf>,
    /// Numbers of resources
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    sizes: Vec<usize>,
    /// Seconds to measure the idle operator
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// Instead, change the resources at random for this many minutes
    #[arg(long, value_name = "MINUTES")]
    soak: Option<u64>,
    /// Folder for fleet.json and plot.svg
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(minutes) = arguments.soak {
        for size in &arguments.sizes {
            let testbed = Testbed::start_api_server().await?;
            let fleet = Fleet::new(&testbed, &arguments, &arguments.llsd, *size).await?;
            let length = Duration::from_secs(minutes * 60);
            println!("{}", soak::soak(&fleet, length).await?);
        }
        return Ok(());
    }
    let mut table = Table::default();
    for size in &arguments.sizes {
        let now = measure(&arguments, &arguments.llsd, *size).await?;
        let previous = match &arguments.previous {
            Some(llsd) => Some(measure(&arguments, llsd, *size).await?),
            None => None,
        };
        table.add(*size, now, previous);
    }
    let measurements = table.measurements();
    println!("{}", measurement::table(&measurements));
    if let Some(folder) = &arguments.output {
        measurement::write(folder, "fleet", &measurements)?;
        plot::write(folder, &measurements)?;
    }
    Ok(())
}

/// Measures one binary with one number of resources.
async fn measure(arguments: &Arguments, llsd: &Path, size: usize) -> anyhow::Result<Figures> {
    println!("==> {size} resources, {}", llsd.display());
    let testbed = Testbed::start_api_server().await?;
    let fleet = Fleet::new(&testbed, arguments, llsd, size).await?;
    fleet.measure().await
}

/// A control plane with many resources.
struct Fleet<'a> {
    testbed: &'a Testbed,
    llsd: &'a Path,
    adapter: &'a Path,
    /// The compile cache.
    cache: TempDir,
    client: Client,
    namespace: Namespace,
    /// Without resources.
    empty: Namespace,
    /// Where an operator serves the webhooks.
    webhooks: SocketAddr,
    size: usize,
    rest: Duration,
}

/// What a start costs without a resource: CPU seconds, and requests.
struct StartCost {
    operator: f64,
    api_server: f64,
    requests: usize,
}

impl<'a> Fleet<'a> {
    async fn new(
        testbed: &'a Testbed,
        arguments: &'a Arguments,
        llsd: &'a Path,
        size: usize,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            testbed,
            llsd,
            adapter: &arguments.adapter,
            cache: tempfile::tempdir()?,
            client: testbed.client("admin").await?,
            namespace: testbed.namespace("fleet").await?,
            empty: testbed.namespace("empty").await?,
            webhooks: any_port()?,
            size,
            rest: Duration::from_secs(arguments.rest),
        })
    }

    async fn measure(&self) -> anyhow::Result<Figures> {
        let mut figures = Figures::new();
        // Installs the definitions, and compiles the plugins.
        let first = self.start("first", Some(self.webhooks), &[])?;
        self.installed().await?;
        figures.insert(Figure::FirstStartPeak, first.memory()?.peak);
        first.stop()?;
        let version = NewVersion::push(self.llsd, self.adapter).await?;
        let scraper = Scraper::create(&self.client, &self.namespace).await?;
        let start = self.start_cost(&version).await?;
        self.bare_deployments(&mut figures).await?;
        self.create(self.size).await?;
        // In a cluster as full as beside the operator, because each create takes longer in a full one.
        tokio::time::sleep(QUIET).await;
        let alone = self.author("alone").await?;

        let address = scraper.address();
        let options = [&version.options()[..], &["--metrics", &address]].concat();
        let conversions = scraper::conversions(&self.client).await?;
        let leader = self.start("a", Some(self.webhooks), &options)?;
        self.reconcile_all(&leader, &start, alone, &mut figures)
            .await?;
        let converted = scraper::conversions(&self.client).await? - conversions;
        let all = self.size + 2 * AUTHORED;
        let passes = scraper.reconciles().await? / count(all);
        figures.insert(Figure::ReconcilesEach, passes);
        figures.insert(Figure::ConversionsEach, converted / count(all));
        figures.insert(Figure::LeaderMemory, leader.memory()?.now);
        self.rest(&mut figures).await?;
        let beside = self.author("idle").await?;
        figures.insert(Figure::AuthorBesideIdle, beside / alone);
        settle(self.testbed).await?;
        let all = all + AUTHORED;
        let compared = version.compare(&self.client, &leader, all).await?;
        figures.insert(Figure::ShadowSeconds, compared);
        settle(self.testbed).await?;
        let webhooks = self.fail_over(leader, &version, &mut figures).await?;
        self.restart(&version, &scraper, &mut figures).await?;
        webhooks.stop()?;
        // Last: with another address of the webhooks, the API server fills its cache of the older version again,
        // for which it converts every resource, one after the other.
        let last = self.start("last", Some(any_port()?), &version.options())?;
        settle(self.testbed).await?;
        self.list(&last, &mut figures).await?;
        last.stop()?;
        Ok(figures)
    }

    /// What a start costs without a resource.
    async fn start_cost(&self, version: &NewVersion) -> anyhow::Result<StartCost> {
        let (mark, api_server) = (self.testbed.audit().mark()?, self.api_server_cpu()?);
        let operator = self.start("empty", Some(self.webhooks), &version.options())?;
        self.first_request(mark, |_| true).await?;
        settle(self.testbed).await?;
        let cost = StartCost {
            operator: operator.cpu()?,
            api_server: self.api_server_cpu()? - api_server,
            requests: requests(self.testbed, mark)?.len(),
        };
        operator.stop()?;
        Ok(cost)
    }

    /// Stops the leader, and kills the next one. Returns the process that serves the webhooks.
    async fn fail_over(
        &self,
        leader: Operator,
        version: &NewVersion,
        figures: &mut Figures,
    ) -> anyhow::Result<Operator> {
        let standby = self.start("b", None, &version.options())?;
        tokio::time::sleep(QUIET).await;
        settle(self.testbed).await?;
        figures.insert(Figure::StandbyMemory, standby.memory()?.now);
        let stopped = Instant::now();
        leader.stop()?;
        let webhooks = self.serve_webhooks().await?;
        figures.insert(Figure::FailOverStopped, self.next_write(stopped, 1).await?);
        let third = self.start("c", None, &version.options())?;
        tokio::time::sleep(QUIET).await;
        settle(self.testbed).await?;
        let killed = Instant::now();
        standby.signal("KILL")?;
        figures.insert(Figure::FailOverKilled, self.next_write(killed, 2).await?);
        drop(standby);
        settle(self.testbed).await?;
        third.stop()?;
        Ok(webhooks)
    }

    /// Starts an operator while nothing has changed.
    async fn restart(
        &self,
        version: &NewVersion,
        scraper: &Scraper,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        let read = version.requests().await?;
        let (mark, started) = (self.testbed.audit().mark()?, Instant::now());
        let address = scraper.address();
        let options = [&version.options()[..], &["--metrics", &address]].concat();
        let restarted = self.start("d", None, &options)?;
        // The first request comes when it is the leader.
        self.first_request(mark, |_| true).await?;
        settle(self.testbed).await?;
        let took = (started.elapsed() - QUIET).as_secs_f64();
        figures.insert(Figure::RestartSeconds, took);
        let requests = requests(self.testbed, mark)?;
        let writes = requests.iter().filter(|one| is_write_of_resource(one));
        figures.insert(Figure::RestartWrites, count(writes.count()));
        figures.insert(Figure::RestartCalls, scraper.guest_calls().await?);
        let read = version.requests().await? - read;
        figures.insert(Figure::RestartReads, count(read));
        restarted.stop()
    }

    /// Starts a process that serves the webhooks and has no resources to reconcile. In a cluster, a replica that
    /// stops leaves another one that serves them, and the API server converts nothing again.
    async fn serve_webhooks(&self) -> anyhow::Result<Operator> {
        let (address, empty) = (self.webhooks.to_string(), self.empty.name());
        let namespace = ["--operator-namespace", self.namespace.name()];
        let only = ["--namespace", empty, "--poll-servers", "0", "--drain", "0"];
        let webhooks = ["--dev", "--webhook-listen", &address];
        let options = [&namespace, &only[..], &webhooks].concat();
        let webhooks = Operator::start(self.testbed, self.llsd, self.cache.path(), &options)?;
        let started = Instant::now();
        while TcpStream::connect(self.webhooks).await.is_err() {
            ensure!(started.elapsed() < DEADLINE, "the webhooks are not served");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(webhooks)
    }

    /// Starts an operator. Only one can serve webhooks, because all are on this machine.
    fn start(
        &self,
        identity: &str,
        webhooks: Option<SocketAddr>,
        more: &[&str],
    ) -> anyhow::Result<Operator> {
        let address = webhooks.map(|address| address.to_string());
        let webhooks = match &address {
            Some(address) => &["--dev", "--webhook-listen", address][..],
            None => &["--no-webhooks"],
        };
        let namespace = ["--operator-namespace", self.namespace.name()];
        let options = [
            "--leader-elect",
            identity,
            "--poll-servers",
            "0",
            "--drain",
            "0",
        ];
        let options = [&namespace, &options[..], webhooks, more].concat();
        Operator::start(self.testbed, self.llsd, self.cache.path(), &options)
    }

    async fn installed(&self) -> anyhow::Result<()> {
        let api: Api<Distribution> = self.namespace.api(&self.client);
        let started = Instant::now();
        while api.list(&ListParams::default().limit(1)).await.is_err() {
            ensure!(
                started.elapsed() < DEADLINE,
                "the definitions are not served"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        settle(self.testbed).await
    }

    /// The seconds in which an author creates some resources, one after the other.
    async fn author(&self, prefix: &str) -> anyhow::Result<f64> {
        let api: Api<Distribution> = self.namespace.api(&self.client);
        let started = Instant::now();
        for number in 0..AUTHORED {
            let resource = serde_json::from_value(resource(&format!("{prefix}-{number}")))?;
            api.create(&PostParams::default(), &resource).await?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// What Deployments like ours cost the API server without an operator.
    async fn bare_deployments(&self, figures: &mut Figures) -> anyhow::Result<()> {
        let api: Api<Deployment> = self.namespace.api(&self.client);
        let before = self.api_server_cpu()?;
        let creates = (0..BARE).map(|number| {
            let api = api.clone();
            async move {
                let deployment = serde_json::from_value(deployment(&format!("bare-{number}")))?;
                api.create(&PostParams::default(), &deployment).await?;
                anyhow::Ok(())
            }
        });
        run_all(creates).await?;
        let cpu = self.api_server_cpu()? - before;
        figures.insert(Figure::BareDeploymentCpu, cpu * 1000.0 / count(BARE));
        Ok(())
    }

    async fn create(&self, number: usize) -> anyhow::Result<()> {
        let api: Api<Distribution> = self.namespace.api(&self.client);
        let creates = (0..number).map(|number| {
            let api = api.clone();
            async move {
                let resource = serde_json::from_value(resource(&format!("fleet-{number}")))?;
                api.create(&PostParams::default(), &resource).await?;
                anyhow::Ok(())
            }
        });
        run_all(creates).await
    }

    /// Waits until the leader has reconciled everything, while an author creates more.
    async fn reconcile_all(
        &self,
        leader: &Operator,
        start: &StartCost,
        alone: f64,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        let (mark, started) = (self.testbed.audit().mark()?, Instant::now());
        let (api_server, reference) = (self.api_server_cpu()?, ReferenceWorkload::start());
        // Before, it starts and is not busy with resources.
        self.first_request(mark, is_write_of_resource).await?;
        let beside = self.author("beside").await?;
        figures.insert(Figure::AuthorSlowdown, beside / alone);
        println!(
            "an author creates {AUTHORED} in {alone:.2} s alone, in {beside:.2} s beside the operator"
        );
        let all = self.size + 2 * AUTHORED;
        self.wait_for_deployments(all).await?;
        figures.insert(Figure::DeployedSeconds, started.elapsed().as_secs_f64());
        let resources: Api<Distribution> = self.namespace.api(&self.client);
        let has_status = |one: &Distribution| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.observed_generation == one.metadata.generation)
        };
        until_count(resources, "statuses", all, has_status).await?;
        figures.insert(Figure::ReportedSeconds, started.elapsed().as_secs_f64());
        settle(self.testbed).await?;
        let each = 1000.0 / count(all);
        let cpu = leader.cpu()? - start.operator;
        figures.insert(Figure::OperatorCpuEach, cpu * each);
        let reference = reference.stop()?;
        figures.insert(Figure::ReferenceCpu, reference);
        figures.insert(Figure::OperatorWorkEach, cpu * each / reference);
        let cpu = self.api_server_cpu()? - api_server - start.api_server;
        figures.insert(Figure::ApiServerCpuEach, cpu * each);
        let sent = requests(self.testbed, mark)?;
        let for_resources = sent.len() - start.requests;
        figures.insert(Figure::RequestsEach, count(for_resources) / count(all));
        println!("requests: {}", by_verb(&sent));
        Ok(())
    }

    async fn wait_for_deployments(&self, number: usize) -> anyhow::Result<()> {
        let api: Api<PartialObjectMeta<Deployment>> = self.namespace.api(&self.client);
        let ours = |one: &PartialObjectMeta<Deployment>| !one.name_any().starts_with("bare-");
        until_count(api, "Deployments", number, ours).await
    }

    /// Requests while nothing changes, and for a change that is none.
    async fn rest(&self, figures: &mut Figures) -> anyhow::Result<()> {
        let mark = self.testbed.audit().mark()?;
        tokio::time::sleep(self.rest).await;
        let minutes = self.rest.as_secs_f64() / 60.0;
        let at_rest = count(requests(self.testbed, mark)?.len()) / minutes;
        figures.insert(Figure::RequestsAtRest, at_rest);
        let mark = self.testbed.audit().mark()?;
        let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
        self.patch("fleet-0", touch).await?;
        settle(self.testbed).await?;
        let requests = requests(self.testbed, mark)?.len();
        figures.insert(Figure::RequestsForTouch, count(requests));
        Ok(())
    }

    /// Lists all resources: twice in the older version, and in the one that is stored.
    async fn list(&self, leader: &Operator, figures: &mut Figures) -> anyhow::Result<()> {
        let lists = [
            (Figure::ListSeconds, "v1alpha1"),
            // The API server answers from its cache.
            (Figure::ListAgainSeconds, "v1alpha1"),
            (Figure::ListStoredSeconds, "v1alpha2"),
        ];
        for (figure, version) in lists {
            let namespace = self.namespace.name();
            let url = format!(
                "/apis/llamastack.io/{version}/namespaces/{namespace}/llamastackdistributions"
            );
            let started = Instant::now();
            let listed = list(&self.client, &url).await?;
            figures.insert(figure, started.elapsed().as_secs_f64());
            ensure!(
                listed >= self.size,
                "{listed} of {} resources are listed",
                self.size
            );
        }
        figures.insert(Figure::ListPeak, leader.memory()?.peak);
        Ok(())
    }

    /// The seconds after `since` until an operator has written a change of the first resource.
    async fn next_write(&self, since: Instant, value: u32) -> anyhow::Result<f64> {
        let change = json!({"spec": {"workload": {"overrides": {"env": [
            {"name": "CHANGED", "value": value.to_string()},
        ]}}}});
        self.patch("fleet-0", change).await?;
        let api: Api<Deployment> = self.namespace.api(&self.client);
        let wanted = json!({"name": "CHANGED", "value": value.to_string()}).to_string();
        loop {
            let deployment = json!(api.get("fleet-0").await?.spec).to_string();
            if deployment.contains(&wanted) {
                return Ok(since.elapsed().as_secs_f64());
            }
            ensure!(since.elapsed() < DEADLINE, "no operator has taken over");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn patch(&self, name: &str, change: Value) -> anyhow::Result<()> {
        let api: Api<Distribution> = self.namespace.api(&self.client);
        api.patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await?;
        Ok(())
    }

    /// Waits until an operator has sent a request for which a condition holds.
    async fn first_request(
        &self,
        since: Mark,
        holds: impl Fn(&AuditedRequest) -> bool,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        while !requests(self.testbed, since)?.iter().any(&holds) {
            ensure!(
                started.elapsed() < DEADLINE,
                "the operator sends no request"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn api_server_cpu(&self) -> anyhow::Result<f64> {
        let process = self.testbed.state().process_id("kube-apiserver");
        cpu_seconds(process.context("the API server is not running")?)
    }
}

/// Whether a request writes a resource or one of its objects. A start also renews the definitions.
fn is_write_of_resource(request: &AuditedRequest) -> bool {
    let reads = ["get", "list", "watch"];
    let own = [
        "customresourcedefinitions",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "secrets",
    ];
    !reads.contains(&request.verb.as_str()) && !own.contains(&request.resource.as_str())
}

/// A free port on the loopback address.
fn any_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A page of a list. What is in the resources is not parsed, so that only the list is measured.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    items: Vec<IgnoredAny>,
}

/// Lists all objects in pages, and returns their number.
async fn list(client: &Client, url: &str) -> anyhow::Result<usize> {
    let mut parameters = ListParams::default().limit(PAGE);
    let mut number = 0;
    loop {
        let request = Request::new(url).list(&parameters)?;
        let Page { metadata, items } = client.request(request).await?;
        number += items.len();
        match metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(number),
        }
    }
}

/// Runs requests, some of them at the same time.
async fn run_all(
    requests: impl Iterator<Item = impl Future<Output = anyhow::Result<()>>>,
) -> anyhow::Result<()> {
    let mut done = futures::stream::iter(requests).buffer_unordered(CONCURRENCY);
    while done.try_next().await?.is_some() {}
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "at most some hundred thousand")]
fn count(number: usize) -> f64 {
    number as f64
}

/// A resource with a generated configuration.
fn resource(name: &str) -> Value {
    json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": name},
        "spec": {
            "distribution": {"name": "starter"},
            "providers": {"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}},
            "resources": {"models": [format!("model-of-{name}")]},
        },
    })
}

/// A Deployment with about as much content as ours.
fn deployment(name: &str) -> Value {
    let labels = json!({"app": "bare", "app.kubernetes.io/instance": name});
    let probe = json!({"httpGet": {"path": "/v1/health", "port": 8321}, "periodSeconds": 10});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "server",
                        "image": "docker.io/llamastack/distribution-starter:0.7.1",
                        "ports": [{"containerPort": 8321}],
                        "env": [{"name": "HF_HOME", "value": "/.llama"}],
                        "readinessProbe": probe, "startupProbe": probe,
                        "volumeMounts": [{"name": "config", "mountPath": "/etc/llama-stack"}],
                    }],
                    "volumes": [{"name": "config", "configMap": {"name": name}}],
                },
            },
        },
    })
}
