//! Converts a thousand resources in both directions through the running webhook.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::Value;

use crate::generated;
use crate::test_cluster::{Target, TestCluster, create, list, replace, resource};

/// The number of resources of each version.
const COUNT: usize = 500;
/// The number of concurrent requests.
const CONCURRENCY: usize = 4;
/// How long the API server waits for a conversion webhook. `cargo xtask bench` measures the real time.
const LIST_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_v1alpha1_resources_survive_a_write_as_v1alpha2() {
    let cluster = TestCluster::newest().await;
    let (client, namespace) = (
        cluster.client().await,
        cluster.testbed.namespace("old").await.unwrap(),
    );
    let mut rng = Rng::with_seed(1);
    let specs = specs(|| generated::v1alpha1(&mut rng));
    let [old, new] = targets(namespace.name());
    create_all(&client, &old, &specs).await;

    assert_same(&specs, &list_within_limit(&client, &old).await);

    // Write them back unchanged as v1alpha2; as v1alpha1 they must look the same as before.
    let seen = list(&client, &new).await.unwrap();
    write_back(&client, &new, seen).await;
    assert_same(&specs, &list(&client, &old).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_v1alpha2_resources_survive_a_write_as_v1alpha1() {
    let cluster = TestCluster::newest().await;
    let (client, namespace) = (
        cluster.client().await,
        cluster.testbed.namespace("new").await.unwrap(),
    );
    let mut rng = Rng::with_seed(2);
    let specs = specs(|| generated::v1alpha2(&mut rng));
    let [old, new] = targets(namespace.name());
    create_all(&client, &new, &specs).await;
    assert_same(&specs, &list(&client, &new).await.unwrap());

    let seen = list_within_limit(&client, &old).await;
    write_back(&client, &old, seen).await;
    assert_same(&specs, &list(&client, &new).await.unwrap());
}

fn targets(namespace: &str) -> [Target<'_>; 2] {
    ["v1alpha1", "v1alpha2"].map(|version| Target { namespace, version })
}

fn specs(mut generate: impl FnMut() -> Value) -> BTreeMap<String, Value> {
    (0..COUNT)
        .map(|index| (format!("r-{index}"), generate()))
        .collect()
}

/// Lists with a time limit. The first list is not timed, because the API server then fills its cache
/// of converted objects.
async fn list_within_limit(client: &Client, target: &Target<'_>) -> BTreeMap<String, Value> {
    list(client, target).await.unwrap();
    let begin = Instant::now();
    let listed = list(client, target).await.unwrap();
    let took = begin.elapsed();
    assert!(took < LIST_WITHIN, "a list of {COUNT} took {took:?}");
    listed
}

async fn create_all(client: &Client, target: &Target<'_>, specs: &BTreeMap<String, Value>) {
    let requests = specs.iter().map(|(name, spec)| async move {
        let document = resource(target.version, name, spec);
        create(client, target, &document)
            .await
            .map_err(|error| format!("{document}: {error}"))
    });
    stream::iter(requests)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
}

async fn write_back(client: &Client, target: &Target<'_>, seen: BTreeMap<String, Value>) {
    let requests = seen.into_values().map(|document| async move {
        replace(client, target, &document)
            .await
            .map_err(|error| format!("{document}: {error}"))
    });
    stream::iter(requests)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
}

fn assert_same(sent: &BTreeMap<String, Value>, shown: &BTreeMap<String, Value>) {
    assert_eq!(sent.len(), shown.len());
    for (name, spec) in sent {
        assert_eq!(&shown[name]["spec"], spec, "{name}");
    }
}
