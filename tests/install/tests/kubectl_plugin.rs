//! `kubectl llsd`: what it shows of a real cluster, and that looking changes nothing.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::fs::symlink;
use std::path::Path;

use llsd_install::{Cluster, checkout, program};
use llsd_testbed::{Finished, Release, Testbed};

const READY: &str = "--for=jsonpath={.status.phase}=Ready";

async fn kubectl_llsd(cluster: &Cluster, bin: &Path, arguments: &[&str]) -> Finished {
    let kubectl = cluster.kubectl_with(bin).unwrap().arg("llsd");
    kubectl.args(arguments).run().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_and_why_tell_what_is_and_what_would_be_and_change_nothing() {
    let bin = tempfile::tempdir().unwrap();
    symlink(
        program("LLSD_BIN").unwrap(),
        bin.path().join("kubectl-llsd"),
    )
    .unwrap();
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let cluster = Cluster::around(testbed, "").await.unwrap();
    let sample = checkout().join("samples/minimal.yaml");
    let file = sample.to_str().unwrap();

    let new = kubectl_llsd(&cluster, bin.path(), &["preview", "-f", file]).await;
    assert_eq!(new.code, Some(1), "{}", new.stderr);
    assert!(
        new.stdout.contains("Deployment minimal: would be created"),
        "{}",
        new.stdout
    );
    let llsds = cluster.run(&["get", "llsd"]).await.unwrap();
    assert_eq!(llsds, "", "a preview stores nothing");

    cluster.run(&["apply", "--filename", file]).await.unwrap();
    cluster
        .run(&["wait", READY, "llsd/minimal", "--timeout=120s"])
        .await
        .unwrap();
    let version = [
        "get",
        "deployment",
        "minimal",
        "--output=jsonpath={.metadata.resourceVersion}",
    ];
    let before = cluster.run(&version).await.unwrap();
    let settled = kubectl_llsd(&cluster, bin.path(), &["preview", "minimal"]).await;
    assert_eq!(
        (settled.code, settled.stdout.as_str()),
        (Some(0), ""),
        "{}",
        settled.stderr
    );
    assert!(
        settled.stderr.contains("nothing would change"),
        "{}",
        settled.stderr
    );

    let edited = std::fs::read_to_string(&sample)
        .unwrap()
        .replace("llama3.2-8b", "another-model");
    let edited_file = bin.path().join("edited.yaml");
    std::fs::write(&edited_file, edited).unwrap();
    let arguments = ["preview", "-f", edited_file.to_str().unwrap()];
    let changed = kubectl_llsd(&cluster, bin.path(), &arguments).await;
    assert_eq!(changed.code, Some(1), "{}", changed.stderr);
    for expected in [
        "ConfigMap minimal-config-",
        "would be created",
        "another-model",
        "Deployment minimal: would change",
    ] {
        assert!(
            changed.stdout.contains(expected),
            "{expected}: {}",
            changed.stdout
        );
    }
    assert_eq!(cluster.run(&version).await.unwrap(), before);

    let why = kubectl_llsd(&cluster, bin.path(), &["why", "minimal"])
        .await
        .success()
        .unwrap();
    for expected in [
        "default/minimal Ready",
        "llama-stack/0.7",
        "ConfigGenerated",
        "+      base_url: http://vllm:8000/v1",
    ] {
        assert!(why.contains(expected), "{expected}: {why}");
    }

    let troubled =
        r#"{"spec": {"providers": {"inference": {"apiKey": {"name": "absent", "key": "k"}}}}}"#;
    cluster
        .run(&[
            "patch",
            "llsd",
            "minimal",
            "--type=merge",
            "--patch",
            troubled,
        ])
        .await
        .unwrap();
    let unresolved = "--for=condition=SecretsResolved=False";
    cluster
        .run(&["wait", unresolved, "llsd/minimal", "--timeout=60s"])
        .await
        .unwrap();
    let why = kubectl_llsd(&cluster, bin.path(), &["why", "minimal"])
        .await
        .success()
        .unwrap();
    assert!(why.contains("Secret not found: absent"), "{why}");

    let nobody = kubectl_llsd(&cluster, bin.path(), &["why", "nobody"]).await;
    assert_eq!(nobody.code, Some(2));
    assert!(
        nobody.stderr.contains("has no LlamaStackDistribution"),
        "{}",
        nobody.stderr
    );
}
