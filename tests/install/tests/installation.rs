//! Installing: what the guides say, typed on control planes that know nothing of us.
//!
//! No pod runs here, so the operator is a process, with the identity and the rights of the pods.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::PathBuf;
use std::process::Stdio;

use llsd_install::{Block, Place, Reader, blocks_of, checkout, pages, program};
use llsd_testbed::{Release, Testbed};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const HOME: &str = "llsd-system";

/// What is installed with Helm cannot be installed over what kubectl made, nor the other way round.
fn uses_helm(block: &Block) -> bool {
    block.commands.iter().any(|one| one.starts_with("helm "))
}

fn installations(is_wanted: impl Fn(&Block) -> bool) -> Vec<(PathBuf, Vec<Block>)> {
    let of_page = |page: PathBuf| {
        let mut blocks = blocks_of(&page, |place| place == Place::Install).unwrap();
        blocks.retain(&is_wanted);
        (page, blocks)
    };
    let all = pages().unwrap().into_iter().map(of_page);
    all.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

async fn type_in(testbed: &Testbed, installations: &[(PathBuf, Vec<Block>)]) {
    assert!(!installations.is_empty());
    let kubeconfig = testbed.kubeconfig("admin").unwrap();
    let reader = Reader::new().await.unwrap().at(&kubeconfig);
    for (page, blocks) in installations {
        reader.type_in(page, blocks).await.unwrap();
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

/// The first operator, as its release manifest leaves it: a namespace with a Deployment in it.
fn first_operator() -> [Value; 2] {
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
                    "spec": { "containers": [{ "name": "manager", "image": "first-operator:0.9" }] },
                },
            },
        }),
    ]
}

/// A definition with the names of somebody else's, which takes everything.
fn stand_in(group: &str, kind: &str) -> Value {
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

/// The operator of the installed Deployment: its arguments and its account, on ports of this machine.
async fn run_operator(testbed: &Testbed) -> Child {
    let arguments = "{.spec.template.spec.containers[0].args}";
    let deployment =
        format!("get deployment llsd-operator --namespace {HOME} --output=jsonpath={arguments}");
    let arguments = kubectl(testbed, &deployment).await;
    let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
    let cache = testbed.state().folder.join("operator-cache");
    let here = |argument: String| match argument.split_once('=') {
        Some((name @ ("--probes" | "--metrics"), _)) => format!("{name}=127.0.0.1:0"),
        Some((name @ "--cache-dir", _)) => format!("{name}={}", cache.display()),
        _ => argument,
    };
    let account = format!("system:serviceaccount:{HOME}:llsd-operator");
    // KUBECONFIG takes a colon for the end of a path.
    let kubeconfig = testbed.state().folder.join("account.kubeconfig");
    std::fs::copy(testbed.add_user(&account, None).unwrap(), &kubeconfig).unwrap();
    Command::new(program("LLSD_BIN").unwrap())
        .args(arguments.into_iter().map(here))
        // No Service leads anywhere here, and no server runs.
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
async fn what_the_guides_install_serves_resources_with_the_rights_that_it_has() {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    create(&testbed, &first_operator()).await;
    type_in(&testbed, &installations(|block| !uses_helm(block))).await;

    // The guides end with the operator's removal.
    kubectl(
        &testbed,
        &format!("apply --server-side --kustomize {}", folder("default")),
    )
    .await;
    let _operator = run_operator(&testbed).await;
    let name = "validatingwebhookconfiguration/llamastackdistributions.llamastack.io";
    let authority = "--for=jsonpath={.webhooks[0].clientConfig.caBundle}";
    kubectl(&testbed, &format!("wait {name} {authority} --timeout=60s")).await;
    // The API server would look for it at an address outside of this machine.
    kubectl(&testbed, &format!("delete {name}")).await;
    let sample = checkout().join("samples/minimal.yaml");
    kubectl(&testbed, &format!("apply --filename {}", sample.display())).await;
    let ready = "wait llsd/minimal --for=jsonpath={.status.phase}=Ready --timeout=120s";
    kubectl(&testbed, ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_guides_install_with_helm_is_there() {
    let testbed = Testbed::start(Release::Oldest).await.unwrap();
    type_in(&testbed, &installations(uses_helm)).await;
    kubectl(
        &testbed,
        &format!("get deployment llsd-operator --namespace {HOME}"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_overlay_can_be_installed_and_changed_into_the_next() {
    let testbed = Testbed::start(Release::Oldest).await.unwrap();
    let served =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "llama-stack" } });
    create(
        &testbed,
        &[
            stand_in("cert-manager.io", "Certificate"),
            stand_in("cert-manager.io", "Issuer"),
            stand_in("monitoring.coreos.com", "ServiceMonitor"),
            stand_in("monitoring.coreos.com", "PrometheusRule"),
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
