//! `llsd doctor`, which is also what `helm test` runs: with the rights of the chart's test, and on
//! installations that do not work.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;
use std::time::Duration;

use llsd_install::{Cluster, chart_test, program};
use llsd_testbed::{Finished, Invocation, Registry, RegistryOptions, until};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";
const DEADLINE: Duration = Duration::from_secs(60);
const DOCTOR: &str = "doctor";

async fn doctor(kubeconfig: &Path) -> Finished {
    let doctor = Invocation::new(&program("LLSD_BIN").unwrap()).arg("doctor");
    doctor.env("KUBECONFIG", kubeconfig).run().await.unwrap()
}

/// Makes what the chart makes for its test, and gives a user the rights of it.
async fn admit(cluster: &Cluster) {
    let objects = chart_test(NAMESPACE).await.unwrap().into_values();
    let (pods, rights): (Vec<_>, Vec<_>) = objects.partition(|object| object["kind"] == "Pod");
    assert_eq!((pods.len(), rights.len()), (1, 3));
    for mut object in rights.into_iter().chain(pods) {
        if object["kind"] == "RoleBinding" {
            object["subjects"] = json!([{
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "User",
                "name": DOCTOR,
            }]);
        }
        cluster.create(&object).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_an_installation_healthy_and_names_what_is_not() {
    let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let mut cluster = Cluster::start(&registry).await.unwrap();
    let kubeconfig = cluster.testbed().add_user(DOCTOR, None).unwrap();

    let stranger = doctor(&kubeconfig).await;
    assert_eq!(stranger.code, Some(2), "{}", stranger.stdout);
    assert!(
        stranger.stderr.contains("may not create resources here"),
        "{}",
        stranger.stderr
    );

    admit(&cluster).await;
    let healthy = doctor(&kubeconfig).await;
    assert_eq!(
        healthy.code,
        Some(0),
        "{}{}",
        healthy.stdout,
        healthy.stderr
    );
    assert_eq!(healthy.stdout.matches("ok    ").count(), 4);

    cluster
        .run(&["delete", "validatingadmissionpolicybinding", "--all"])
        .await
        .unwrap();
    // The API server goes on with what it knows of the policy for a moment.
    let without_policy = until("the doctor misses the policy", DEADLINE, || async {
        {
            let found = doctor(&kubeconfig).await;
            anyhow::ensure!(found.code == Some(1), "{}", found.stdout);
            Ok(found.stdout)
        }
    })
    .await
    .unwrap();
    assert!(
        without_policy.contains("FAIL  the admission policy")
            && without_policy.contains("ok    resources are accepted"),
        "{without_policy}"
    );

    cluster.stop_operator().await.unwrap();
    let without_operator = doctor(&kubeconfig).await;
    assert_eq!(without_operator.code, Some(1));
    for failed in [
        "FAIL  resources of the older version",
        "FAIL  the webhook",
        "see whether the pods of llsd-operator are ready",
    ] {
        assert!(
            without_operator.stdout.contains(failed),
            "{failed}: {}",
            without_operator.stdout
        );
    }
    let stored: Value = serde_json::from_str(
        &cluster
            .run(&["get", "deployments", "--all-namespaces", "--output=json"])
            .await
            .unwrap(),
    )
    .unwrap();
    assert_eq!(stored["items"], json!([]), "the doctor stores nothing");
}
