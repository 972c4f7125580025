//! `llsd doctor`, which `helm test` runs: with the permissions that the chart grants, and on broken
//! installations.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::Path;
use std::time::Duration;

use llsd_install::{Cluster, chart_test, program};
use llsd_testbed::{Finished, Invocation, Registry, RegistryOptions, until};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";
const DEADLINE: Duration = Duration::from_secs(240);
const DOCTOR: &str = "doctor";

async fn doctor(kubeconfig: &Path) -> Finished {
    let doctor = Invocation::new(&program("LLSD_BIN").unwrap()).arg("doctor");
    doctor.env("KUBECONFIG", kubeconfig).run().await.unwrap()
}

/// Creates the objects of the chart's test, and grants its permissions to a user.
async fn create_test_objects(cluster: &Cluster) {
    let objects = chart_test(NAMESPACE).await.unwrap().into_values();
    let (pods, rbac): (Vec<_>, Vec<_>) = objects.partition(|object| object["kind"] == "Pod");
    assert_eq!((pods.len(), rbac.len()), (1, 3));
    for mut object in rbac.into_iter().chain(pods) {
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
async fn doctor_passes_on_a_healthy_installation_and_names_what_is_broken() {
    let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let mut cluster = Cluster::start(&registry).await.unwrap();
    let kubeconfig = cluster.testbed().add_user(DOCTOR, None).unwrap();

    let unprivileged = doctor(&kubeconfig).await;
    assert_eq!(unprivileged.code, Some(2), "{}", unprivileged.stdout);
    assert!(
        unprivileged
            .stderr
            .contains("doctor needs the permission to create"),
        "{}",
        unprivileged.stderr
    );

    create_test_objects(&cluster).await;
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
    // The API server keeps enforcing a deleted policy for a moment.
    let without_policy = until("doctor reports the missing policy", DEADLINE, || async {
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
            && without_policy.contains("ok    v1alpha2 resources are accepted"),
        "{without_policy}"
    );

    cluster.stop_operator().await.unwrap();
    let without_operator = doctor(&kubeconfig).await;
    assert_eq!(without_operator.code, Some(1));
    for failed in [
        "FAIL  v1alpha1 resources are converted",
        "FAIL  the webhook",
        "check that the pods of llsd-operator are ready",
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
    assert_eq!(stored["items"], json!([]), "doctor must not store anything");
}
