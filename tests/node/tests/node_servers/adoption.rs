//! Servers of llama-stack-k8s-operator.

use std::time::Duration;

use anyhow::{Context as _, Result};
use llsd_node::{Cluster, Lab, Load, Server, answers_always, chat};
use llsd_testbed::until;
use serde_json::{Value, json};

/// What llama-stack-k8s-operator 0.9 left in a cluster for its smallest resource.
const UPSTREAM: &str = include_str!("../../../e2e/fixtures/upstream/minimal.yaml");
const NAME: &str = "minimal";

const RUNS_WITHIN: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_server_keeps_its_pod_until_its_first_change_and_always_answers() {
    let cluster = Cluster::shared().await.unwrap();
    let lab = cluster.lab_alone("adopted").await.unwrap();
    let server = run_upstream_server(&lab).await.unwrap();
    let before = lab.pod_uids(NAME).await.unwrap();

    let load = Load::start(&server).await.unwrap();
    let variables = [variable()];
    let container = json!({
        "port": 8321,
        "env": variables,
        "resources": {"requests": {"cpu": "50m", "memory": "200Mi"}},
    });
    let resource = json!({
        "apiVersion": "llamastack.io/v1alpha1",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "server": {"distribution": {"name": "starter"}, "containerSpec": container},
        },
    });
    lab.apply(&resource.to_string()).await.unwrap();
    lab.ready(NAME).await.unwrap();
    load.stop(200).await.unwrap();
    assert_eq!(lab.pod_uids(NAME).await.unwrap(), before);

    // The old template has no `preStop`, so that a request may meet a pod that has just ended.
    let change = lab.replace_pods(NAME, "1");
    tokio::select! {
        changed = change => changed.unwrap(),
        error = answers_always(&server) => panic!("{error:#}"),
    }
    assert_ne!(lab.pod_uids(NAME).await.unwrap(), before);
    chat(&server).await.unwrap();
}

/// Runs the server as llama-stack-k8s-operator left it, without a resource.
async fn run_upstream_server(lab: &Lab) -> Result<Server> {
    for document in UPSTREAM.split("\n---\n") {
        let mut object = llsd_render::yaml::read(document)?;
        let kind = object["kind"].as_str().context("no kind")?.to_owned();
        if kind == "LlamaStackDistribution" {
            continue;
        }
        let metadata = &object["metadata"];
        object["metadata"] = json!({"name": metadata["name"], "labels": metadata["labels"]});
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        if kind == "Service" {
            let spec = &object["spec"];
            object["spec"] = json!({"selector": spec["selector"], "ports": spec["ports"]});
        }
        if kind == "Deployment" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            container["resources"] = json!({"requests": {"cpu": "50m", "memory": "200Mi"}});
            let variables = container["env"].as_array_mut().context("no variables")?;
            variables.push(variable());
        }
        let apply = ["apply", "--server-side", "--field-manager=manager", "-f-"];
        let apply = lab.kubectl(apply)?.input(object.to_string());
        apply.run().await?.success()?;
    }
    let server = lab.server(NAME).await?;
    until("the server runs", RUNS_WITHIN, || chat(&server)).await?;
    Ok(server)
}

fn variable() -> Value {
    json!({"name": "VLLM_URL", "value": "http://vllm:8000/v1"})
}
