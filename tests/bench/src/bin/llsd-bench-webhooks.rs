//! `cargo xtask bench webhooks`: measures the latency of conversion and admission.
//!
//! Starts the operator as a separate process on a real control plane, and calls its webhooks as the API
//! server does: over TLS, on persistent connections. Every resource is different, so that the result cache
//! is not hit. Admission is measured before and after the Secrets and ConfigMaps that the resource refers
//! to exist, one at a time and several at a time. Prints figures and sets no limits.

#![allow(clippy::print_stdout, reason = "the output of a command")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ObjectMeta, PostParams};
use llsd_api::conversion::{Version, convert};
use llsd_api::{CONVERSION_PATH, VALIDATION_PATH, WEBHOOK_NAME};
use llsd_bench::{Goal, Measurement, measurement};
use llsd_testbed::{Namespace, Release, Testbed, eventually};
use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use tokio::process::Command;

/// The number of measured requests of each kind. A tenth of it runs before, to warm up.
const RUNS: usize = 2_000;
/// The number of concurrent admissions.
const CONCURRENCY: usize = 8;
/// The number of measured lists.
const LISTS: usize = 50;
/// The number of resources in a list.
const LIST: usize = 500;
/// The Secrets that `samples/full.yaml` refers to.
const SECRETS: [&str; 3] = ["vllm-creds", "pg-creds", "llama-tls"];
/// The ConfigMap that it refers to.
const CONFIG_MAP: &str = "custom-ca";
/// The number of objects that it refers to.
const REFERENCED: usize = SECRETS.len() + 1;
/// Longer than an operator takes to start.
const DEADLINE: Duration = Duration::from_secs(120);

#[derive(Parser)]
struct Arguments {
    /// Path of the `llsd` binary
    llsd: PathBuf,
    /// Folder for webhooks.json
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { llsd, output } = Arguments::parse();
    let testbed = Testbed::start(Release::Newest).await?;
    let namespace = testbed.namespace("bench").await?;
    let _operator = Command::new(&llsd)
        .args(["operator", "--dev"])
        .args(["--operator-namespace", namespace.name()])
        .env("KUBECONFIG", testbed.kubeconfig("admin")?)
        .env("RUST_LOG", "warn")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("failed to start {}", llsd.display()))?;
    let webhooks = Webhooks::find(&testbed).await?;
    let sample = Sample::read(&namespace)?;

    println!("one review at a time, samples/full.yaml, {RUNS} reviews of each kind");
    for (title, from, to) in [
        ("v1alpha1 as v1alpha2", Version::V1Alpha1, Version::V1Alpha2),
        ("v1alpha2 as v1alpha1", Version::V1Alpha2, Version::V1Alpha1),
    ] {
        let mut times = Vec::new();
        for number in 0..RUNS + RUNS / 10 {
            let review = conversion(&[sample.resource(number, from)?], to);
            times.push(webhooks.convert(&review, 1).await?);
        }
        print(title, &sorted(times.split_off(RUNS / 10)));
    }
    print(
        "admission, all missing",
        &admissions(&webhooks, &sample, 0, REFERENCED).await?,
    );
    create_referenced(&testbed, &namespace).await?;
    let times = admissions(&webhooks, &sample, RUNS * 2, 0).await?;
    let p99 = percentile(&times, 99);
    print("admission", &times);
    let rate = admission_rate(&webhooks, &sample, RUNS * 4).await?;
    println!("{CONCURRENCY} admissions at a time: {rate:.0} in a second");

    println!("lists of {LIST} resources, {LISTS} of them");
    let mut times = Vec::new();
    for list in 0..LISTS {
        let numbers = list * LIST..(list + 1) * LIST;
        let resources = numbers.map(|number| sample.resource(number, Version::V1Alpha2));
        let resources = resources.collect::<anyhow::Result<Vec<_>>>()?;
        let review = conversion(&resources, Version::V1Alpha1);
        times.push(webhooks.convert(&review, LIST).await?);
    }
    print("v1alpha2 as v1alpha1", &sorted(times));
    let measurements = [
        Measurement::of_one(
            "admissions in a second, 8 at a time",
            Some(Goal::AtLeast(1000.0)),
            rate,
        ),
        Measurement::of_one(
            "admission, p99, ms",
            Some(Goal::AtMost(5.0)),
            p99.as_secs_f64() * 1000.0,
        ),
    ];
    println!("\n{}", measurement::table(&measurements));
    if let Some(folder) = output {
        measurement::write(&folder, "webhooks", &measurements)?;
    }
    Ok(())
}

/// The times to admit resources numbered from `first`, each with `missing` referenced objects that do not
/// exist.
async fn admissions(
    webhooks: &Webhooks,
    sample: &Sample,
    first: usize,
    missing: usize,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for number in first..first + RUNS + RUNS / 10 {
        times.push(webhooks.admit(&sample.creation(number)?, missing).await?);
    }
    Ok(sorted(times.split_off(RUNS / 10)))
}

/// The number of admissions in a second, of resources numbered from `first`, several at a time.
async fn admission_rate(webhooks: &Webhooks, sample: &Sample, first: usize) -> anyhow::Result<f64> {
    let creations = (first..first + RUNS).map(|number| sample.creation(number));
    let creations = creations.collect::<anyhow::Result<Vec<_>>>()?;
    let started = Instant::now();
    let reviews = creations.iter().map(|creation| webhooks.admit(creation, 0));
    let mut reviews = futures::stream::iter(reviews).buffer_unordered(CONCURRENCY);
    while reviews.try_next().await?.is_some() {}
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let reviewed = RUNS as f64;
    Ok(reviewed / started.elapsed().as_secs_f64())
}

/// Creates the objects that the sample refers to.
async fn create_referenced(testbed: &Testbed, namespace: &Namespace) -> anyhow::Result<()> {
    let client = testbed.client("admin").await?;
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let parameters = PostParams::default();
    for name in SECRETS {
        let secret = Secret {
            metadata: named(name),
            ..Secret::default()
        };
        namespace.api(&client).create(&parameters, &secret).await?;
    }
    let bundle = ConfigMap {
        metadata: named(CONFIG_MAP),
        ..ConfigMap::default()
    };
    namespace.api(&client).create(&parameters, &bundle).await?;
    Ok(())
}

/// The webhooks of a running operator.
struct Webhooks {
    client: Client,
    address: String,
}

impl Webhooks {
    /// Reads their address and CA bundle from the API server.
    async fn find(testbed: &Testbed) -> anyhow::Result<Self> {
        let api = Api::<ValidatingWebhookConfiguration>::all(testbed.client("admin").await?);
        let found = eventually(&api, WEBHOOK_NAME, DEADLINE, "installed", |one| {
            one.is_some()
        });
        let mut webhooks = found.await?.and_then(|one| one.webhooks);
        let webhook = webhooks.as_mut().and_then(Vec::pop);
        let config = webhook
            .context("the configuration has no webhook")?
            .client_config;
        let url = config.url.context("the webhook has no URL")?;
        let bundle = config.ca_bundle.context("the webhook has no CA bundle")?;
        let certificates = Certificate::from_pem_bundle(&bundle.0)?;
        Ok(Self {
            client: Client::builder().tls_certs_only(certificates).build()?,
            address: url.trim_end_matches(VALIDATION_PATH).to_owned(),
        })
    }

    async fn convert(&self, review: &Value, count: usize) -> anyhow::Result<Duration> {
        let (review_response, elapsed) = self.call(CONVERSION_PATH, review).await?;
        let converted = review_response["response"]["convertedObjects"].as_array();
        ensure!(converted.map(Vec::len) == Some(count), "{review_response}");
        Ok(elapsed)
    }

    /// Admits a resource, and checks that as many warnings report missing objects.
    async fn admit(&self, review: &Value, missing: usize) -> anyhow::Result<Duration> {
        let (review_response, elapsed) = self.call(VALIDATION_PATH, review).await?;
        let response = &review_response["response"];
        ensure!(response["allowed"] == true, "{review_response}");
        let warnings = response["warnings"].as_array().into_iter().flatten();
        let texts = warnings.filter_map(Value::as_str);
        let reported = texts.filter(|text| text.contains("; create it or correct the name"));
        ensure!(reported.count() == missing, "{review_response}");
        Ok(elapsed)
    }

    /// Calls a webhook. The time is that from sending the request to the end of the response.
    async fn call(&self, path: &str, review: &Value) -> anyhow::Result<(Value, Duration)> {
        let body = serde_json::to_vec(review)?;
        let request = self
            .client
            .post(format!("{}{path}", self.address))
            .header("content-type", "application/json")
            .body(body);
        let begin = Instant::now();
        let body = request.send().await?.error_for_status()?.bytes().await?;
        let elapsed = begin.elapsed();
        Ok((serde_json::from_slice(&body)?, elapsed))
    }
}

/// The resource that is sent.
struct Sample {
    resource: Value,
    namespace: String,
}

impl Sample {
    fn read(namespace: &Namespace) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("samples/full.yaml"))?;
        Ok(Self {
            resource: serde_saphyr::from_str(&text)?,
            namespace: namespace.name().to_owned(),
        })
    }

    /// The resource with a number, in a version.
    fn resource(&self, number: usize, version: Version) -> anyhow::Result<Value> {
        let mut resource = self.resource.clone();
        resource["metadata"]["name"] = format!("bench-{number}").into();
        resource["metadata"]["namespace"] = self.namespace.as_str().into();
        let models = resource["spec"]["resources"]["models"].as_array_mut();
        let models = models.context("the sample has no models")?;
        models.push(format!("model-{number}").into());
        Ok(convert(resource, version)?)
    }

    fn creation(&self, number: usize) -> anyhow::Result<Value> {
        Ok(json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": format!("{number}"),
                "operation": "CREATE",
                "namespace": self.namespace,
                "object": self.resource(number, Version::V1Alpha2)?,
            },
        }))
    }
}

fn conversion(resources: &[Value], to: Version) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": { "uid": "1", "desiredAPIVersion": to.api_version(), "objects": resources },
    })
}

/// The times are sorted.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() - 1) * percent / 100]
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort();
    times
}

fn print(title: &str, times: &[Duration]) {
    println!(
        "  {title:<22} p50 {:>8.2?}  p99 {:>8.2?}  worst {:>8.2?}",
        percentile(times, 50),
        percentile(times, 99),
        percentile(times, 100)
    );
}
