//! Runs the installation guides on empty control planes.
//!
//! No pod runs in the testbed, so the operator is a process with the identity of the pod's service account.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::PathBuf;
use std::process::Stdio;

use llsd_install::{Block, Environment, GuideRunner, blocks_of, checkout, pages, program};
use llsd_testbed::{Release, Testbed};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const HOME: &str = "llsd-system";

/// Helm cannot take over objects that kubectl created, nor the other way round, so the tests run them on
/// separate control planes.
fn uses_helm(block: &Block) -> bool {
    block.commands.iter().any(|one| one.starts_with("helm "))
}

fn installations(is_wanted: impl Fn(&Block) -> bool) -> Vec<(PathBuf, Vec<Block>)> {
    let of_page = |page: PathBuf| {
        let mut blocks =
            blocks_of(&page, |environment| environment == Environment::Install).unwrap();
        blocks.retain(&is_wanted);
        (page, blocks)
    };
    let all = pages().unwrap().into_iter().map(of_page);
    all.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

async fn run_guides(testbed: &Testbed, installations: &[(PathBuf, Vec<Block>)]) {
    assert!(!installations.is_empty());
    let kubeconfig = testbed.kubeconfig("admin").unwrap();
    let runner = GuideRunner::new().await.unwrap().with_cluster(&kubeconfig);
    for (page, blocks) in installations {
        runner.run_blocks(page, blocks).await.unwrap();
    }
}

async fn kubectl(testbed: &Testbed, line: &str) -> String {
    let kubectl = testbed.kubectl("admin").unwrap().args(line.split(' '));
    kubectl.run().await.unwrap().success().unwrap()
}

async fn create(testbed: &Testbed, objects: &[Value]) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let kubectl = testbed.kubectl("admin").unwrap();
    let kubectl = kubectl.args(["create", "--filename=-"]);
    let created = kubectl.input(list.to_string()).run().await.unwrap();
    created.success().unwrap();
}

/// The namespace and Deployment of llama-stack-k8s-operator.
fn upstream_operator() -> [Value; 2] {
    let home = "llama-stack-k8s-operator-system";
    let labels = json!({ "control-plane": "controller-manager" });
    [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": home } }),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "llama-stack-k8s-operator-controller-manager", "namespace": home },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "manager", "image": "llama-stack-k8s-operator:0.9" }] },
                },
            },
        }),
    ]
}

/// A CRD of another project, with a schema that accepts everything.
fn permissive_crd(group: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

/// Runs the operator of the installed Deployment as a process: with its arguments and service account, but
/// with ports and folders of this machine.
async fn run_operator(testbed: &Testbed) -> Child {
    let arguments = "{.spec.template.spec.containers[0].args}";
    let deployment =
        format!("get deployment llsd-operator --namespace {HOME} --output=jsonpath={arguments}");
    let arguments = kubectl(testbed, &deployment).await;
    let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
    let cache = testbed.state().folder.join("operator-cache");
    let adapt = |argument: String| match argument.split_once('=') {
        Some((name @ ("--probes" | "--metrics"), _)) => format!("{name}=127.0.0.1:0"),
        Some((name @ "--cache-dir", _)) => format!("{name}={}", cache.display()),
        _ => argument,
    };
    let account = format!("system:serviceaccount:{HOME}:llsd-operator");
    // KUBECONFIG is split at colons, and the name of the account contains some.
    let kubeconfig = testbed.state().folder.join("account.kubeconfig");
    std::fs::copy(testbed.add_user(&account, None).unwrap(), &kubeconfig).unwrap();
    Command::new(program("LLSD_BIN").unwrap())
        .args(arguments.into_iter().map(adapt))
        // Services do not work in the testbed, and no server runs.
        .args(["--webhook-listen", "127.0.0.1:0", "--poll-servers", "0"])
        .env("KUBECONFIG", kubeconfig)
        .env("POD_NAME", "llsd-operator-0")
        .env("POD_NAMESPACE", HOME)
        .env("RUST_LOG", "warn")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_install_an_operator_with_sufficient_permissions() {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    create(&testbed, &upstream_operator()).await;
    run_guides(&testbed, &installations(|block| !uses_helm(block))).await;

    // The guides end by removing the operator, so install it again.
    kubectl(
        &testbed,
        &format!("apply --server-side --kustomize {}", folder("default")),
    )
    .await;
    let _operator = run_operator(&testbed).await;
    let name = "validatingwebhookconfiguration/llamastackdistributions.llamastack.io";
    let has_ca_bundle = "--for=jsonpath={.webhooks[0].clientConfig.caBundle}";
    kubectl(
        &testbed,
        &format!("wait {name} {has_ca_bundle} --timeout=60s"),
    )
    .await;
    // The API server cannot reach the webhook's Service in the testbed.
    kubectl(&testbed, &format!("delete {name}")).await;
    let sample = checkout().join("samples/minimal.yaml");
    kubectl(&testbed, &format!("apply --filename {}", sample.display())).await;
    let ready = "wait llsd/minimal --for=jsonpath={.status.phase}=Ready --timeout=120s";
    kubectl(&testbed, ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_install_every_object_with_helm() {
    let testbed = Testbed::start(Release::Oldest).await.unwrap();
    run_guides(&testbed, &installations(uses_helm)).await;
    kubectl(
        &testbed,
        &format!("get deployment llsd-operator --namespace {HOME}"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_overlay_can_be_installed_and_changed_to_the_next() {
    let testbed = Testbed::start(Release::Oldest).await.unwrap();
    let served =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "llama-stack" } });
    create(
        &testbed,
        &[
            permissive_crd("cert-manager.io", "Certificate"),
            permissive_crd("cert-manager.io", "Issuer"),
            permissive_crd("monitoring.coreos.com", "ServiceMonitor"),
            permissive_crd("monitoring.coreos.com", "PrometheusRule"),
            served,
        ],
    )
    .await;
    kubectl(
        &testbed,
        "wait --for=condition=Established crd --all --timeout=60s",
    )
    .await;
    for entry in std::fs::read_dir(folder("overlays")).unwrap() {
        let overlay = entry.unwrap().path();
        kubectl(
            &testbed,
            &format!("apply --server-side --kustomize {}", overlay.display()),
        )
        .await;
    }
}

fn folder(name: &str) -> String {
    let folder = checkout().join("deploy/kustomize").join(name);
    folder.display().to_string()
}
