//! Pods that start in every namespace, and a status that says why they do not. Nodes are simulated, so
//! the tests write what a kubelet would report.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{Operator, condition, minimal, phase};
use serde_json::{Value, json};

fn message(cr: &Distribution, kind: &str) -> String {
    condition(cr, kind).map_or(String::new(), |(_, _, message)| message)
}

/// A resource without a generated configuration.
fn plain(name: &str, workload: Value) -> Value {
    json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
        "metadata": {"name": name},
        "spec": {"distribution": {"name": "starter"}, "workload": workload},
    })
}

/// The API server enforces the level when a pod is created, also on simulated nodes.
#[tokio::test(flavor = "multi_thread")]
async fn servers_of_every_mode_start_in_a_restricted_namespace_if_their_user_is_known() {
    let operator = Operator::start("restricted").await;
    let namespaces: Api<Namespace> = Api::all(operator.client.clone());
    let level =
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let name = operator.namespace.name();
    namespaces
        .patch(name, &PatchParams::default(), &Patch::Merge(level))
        .await
        .unwrap();
    operator
        .apply_config_map("mine", json!({"config.yaml": "version: 2"}))
        .await;
    let user = json!({"overrides": {"runAsUser": 1001, "terminationGracePeriodSeconds": 0}});
    let mut overriding = plain("overriding", user.clone());
    overriding["spec"]["overrideConfig"] = json!({"configMapName": "mine"});
    let mut generated = plain("generated", user.clone());
    generated["spec"]["providers"] = minimal()["spec"]["providers"].clone();
    operator.create(&plain("named", user)).await;
    operator.create(&overriding).await;
    operator.create(&generated).await;
    for name in ["named", "overriding", "generated"] {
        operator.wait_until_ready(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_reported_with_exit_code_and_log_until_the_server_has_started() {
    let operator = Operator::start("crash").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let end = json!({"terminated": {
        "exitCode": 1, "reason": "Error", "message": "Traceback\n\u{1b}[31mValueError: no such model\n",
    }});
    let back_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
    set_container(&operator, back_off, end.clone()).await;
    let expected = "crashed (exit code 1): Traceback | ValueError: no such model";
    let is_reported = |cr: &Distribution| {
        let available = condition(cr, "Available");
        available.is_some_and(|(status, reason, message)| {
            status == "False" && reason == "PodsFailing" && message.contains(expected)
        })
    };
    operator.wait_for("minimal", "reported", is_reported).await;

    // While it runs again, the only change is that of the exit code.
    let running = json!({"running": {"startedAt": "2026-11-16T02:00:00Z"}});
    set_container(&operator, running.clone(), end).await;
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    set_container(&operator, running.clone(), killed).await;
    let is_killed = |cr: &Distribution| message(cr, "Available").contains("OOMKilled");
    operator.wait_for("minimal", "killed", is_killed).await;

    set_container(&operator, running, json!({})).await;
    let is_probed = |cr: &Distribution| {
        message(cr, "Available").contains("the startup probe GET http://:8321/v1/health")
    };
    let cr = operator.wait_for("minimal", "probed", is_probed).await;
    assert!(!message(&cr, "Available").contains("OOMKilled"));
}

/// Writes the state of the only container of the only pod, which is not ready.
async fn set_container(operator: &Operator, state: Value, last_state: Value) {
    let pods: Api<Pod> = operator.api();
    let pod = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    let condition = |kind: &str| json!({"type": kind, "status": "False"});
    let container = json!({
        "name": "llama-stack", "image": "i", "imageID": "i", "ready": false, "started": false,
        "restartCount": 1, "state": state, "lastState": last_state,
    });
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("ContainersReady")],
        "containerStatuses": [container],
    }});
    let parameters = PatchParams::default();
    pods.patch_status(&pod.name_any(), &parameters, &Patch::Strategic(status))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serving_certificate_that_the_override_config_does_not_use_is_rejected_by_field() {
    let operator = Operator::start("override-tls").await;
    operator
        .apply_secret("cert", &[("tls.crt", "c"), ("tls.key", "k")])
        .await;
    operator
        .apply_config_map("mine", json!({"config.yaml": "version: 2"}))
        .await;
    let mut resource = plain("minimal", json!({}));
    resource["spec"]["overrideConfig"] = json!({"configMapName": "mine"});
    resource["spec"]["networking"] = json!({"tls": {"secretName": "cert"}});
    operator.create(&resource).await;
    let is_rejected = |cr: &Distribution| phase(cr) == Some(Phase::Failed);
    let cr = operator.wait_for("minimal", "rejected", is_rejected).await;
    let problem = message(&cr, "ConfigGenerated");
    assert!(
        problem.contains("spec.networking.tls.secretName: ")
            && problem.contains("server.tls_certfile"),
        "{problem}"
    );
    let tls = "version: 2\nserver: {tls_certfile: /etc/llama-stack-tls/tls.crt, tls_keyfile: /etc/llama-stack-tls/tls.key}";
    operator
        .apply_config_map("mine", json!({"config.yaml": tls}))
        .await;
    operator.wait_until_ready("minimal").await;
}
