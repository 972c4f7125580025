//! A thousand resources through the live webhook, both ways.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::Value;

use crate::generated;
use crate::plane::{Plane, Target, create, list, replace, resource};

/// Of each version.
const COUNT: usize = 500;
/// Requests at the same time.
const AT_ONCE: usize = 4;
/// What matters is measured by `cargo xtask bench`; this is a test build on a busy machine.
const LIST_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_old_resources_are_seen_by_the_new_version_and_come_back_the_same() {
    let plane = Plane::newest().await;
    let (client, namespace) = (
        plane.client().await,
        plane.testbed.namespace("old").await.unwrap(),
    );
    let mut rng = Rng::with_seed(1);
    let specs = specs(|| generated::v1alpha1(&mut rng));
    let [old, new] = targets(namespace.name());
    create_all(&client, &old, &specs).await;

    assert_same(&specs, &list_quickly(&client, &old).await);

    // Written back unchanged through the new version, the old one still shows the same.
    let seen = list(&client, &new).await.unwrap();
    write_back(&client, &new, seen).await;
    assert_same(&specs, &list(&client, &old).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_new_resources_survive_a_write_through_the_old_version() {
    let plane = Plane::newest().await;
    let (client, namespace) = (
        plane.client().await,
        plane.testbed.namespace("new").await.unwrap(),
    );
    let mut rng = Rng::with_seed(2);
    let specs = specs(|| generated::v1alpha2(&mut rng));
    let [old, new] = targets(namespace.name());
    create_all(&client, &new, &specs).await;
    assert_same(&specs, &list(&client, &new).await.unwrap());

    let seen = list_quickly(&client, &old).await;
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

/// Lists twice: the API server keeps a converted copy of everything, and has to catch up first.
async fn list_quickly(client: &Client, target: &Target<'_>) -> BTreeMap<String, Value> {
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
        .buffer_unordered(AT_ONCE)
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
        .buffer_unordered(AT_ONCE)
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
