//! A secret value shows up nowhere: not in the log, not in any object, not in metrics, and no plugin
//! is told of it.

use std::fs::File;
use std::net::TcpListener;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, Process, Stage, named};
use llsd_testbed::eventually;
use serde_json::{Value, json};

/// Every kind that an operator writes, or that is made of what it writes.
const KINDS: &str = "llamastackdistributions,deployments,replicasets,pods,services,serviceaccounts,\
    configmaps,events,networkpolicies,poddisruptionbudgets,horizontalpodautoscalers,ingresses,\
    persistentvolumeclaims,leases";

/// Values that are the same in nothing but their being secret.
fn secrets(generation: &str) -> [Value; 2] {
    let secret = |name: &str, key: &str, value: String| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name}, "stringData": {key: value},
        })
    };
    let password = format!("canary-password-{generation}");
    [
        secret("vllm", "token", format!("canary-token-{generation}")),
        secret(
            "postgres",
            "dsn",
            format!("postgresql://canary-user:{password}@postgres:5432/stack"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_value_appears_nowhere() {
    let stage = Stage::set("canary").await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let metrics_at = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let kubeconfig = stage.testbed.kubeconfig(&stage.user).unwrap();
    let process = Process::start_with(&stage, &kubeconfig, |command| {
        command
            .args(["--metrics", &metrics_at.to_string(), "--log-json"])
            // Everything that our own code says; of the client, what it says in trouble.
            .env(
                "RUST_LOG",
                "debug,llsd_controller=trace,llsd_plugin=trace,llsd_registry=trace",
            )
            .stderr(File::create(&log).unwrap())
    });

    apply_secrets(&stage, &secrets("first")).await;
    let mut resource = named("canary");
    resource["spec"]["providers"]["inference"]["apiKey"] = json!({"name": "vllm", "key": "token"});
    resource["spec"]["storage"] = json!({"sql": {
        "type": "postgres",
        "connectionString": {"secretKeyRef": {"name": "postgres", "key": "dsn"}},
    }});
    stage.create(&resource).await;
    let first = stage.wait_until_ready("canary").await;
    apply_secrets(&stage, &secrets("second")).await;
    let deployments: Api<Deployment> = stage.api();
    let is_replaced =
        |one: Option<&Deployment>| one.and_then(|one| one.metadata.generation) >= Some(2);
    eventually(&deployments, "canary", DEADLINE, "replaced", is_replaced)
        .await
        .unwrap();
    let second = stage.wait_until_ready("canary").await;
    // Some messages are written only where something is wrong.
    apply_secrets(
        &stage,
        &[json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "postgres"}, "stringData": {"dsn": "canary-no-connection-string"},
        })],
    )
    .await;
    let is_refused = |cr: &Distribution| {
        llsd_e2e::condition(cr, "SecretsResolved").is_some_and(|(status, ..)| status == "False")
    };
    stage.wait_for("canary", "refused", is_refused).await;

    // The receipt holds a digest of all that the plugin was given: with another value it is the same.
    assert_eq!(receipt(&first), receipt(&second));
    assert_clean("objects", &objects(&stage).await);
    assert_clean("metrics", &metrics(&stage, metrics_at).await);
    drop(process);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("canary"),
        "the log must speak of the resource:\n{log}"
    );
    assert_clean("log", &log);

    // The derived Secret is where the parts of the connection string belong, and they are there.
    let derived = stage.api::<Secret>().get("canary-derived").await.unwrap();
    let values = derived.data.unwrap().into_values();
    let has_password = |value: k8s_openapi::ByteString| value.0.starts_with(b"canary-password-");
    assert!(values.into_iter().any(has_password));
}

fn receipt(cr: &Distribution) -> String {
    let generation = cr.status.as_ref().unwrap().config_generation.as_ref();
    generation.unwrap().receipt.clone().unwrap()
}

/// Whether a text holds a value, as it is or as Secrets write it.
fn assert_clean(place: &str, text: &str) {
    const VALUES: [&str; 5] = [
        "canary-token-",
        "canary-password-",
        "canary-user",
        "canary-no-connection-string",
        // The beginning of "canary-token-" and "canary-password-" in base64.
        "Y2FuYXJ5L",
    ];
    for value in VALUES {
        let at = text.find(value);
        let around = at.map(|at| {
            let from = text.floor_char_boundary(at.saturating_sub(200));
            let to = text.ceil_char_boundary((at + 200).min(text.len()));
            &text[from..to]
        });
        assert_eq!(around, None, "{place} holds {value}");
    }
}

/// Every object of the namespace but the Secrets, with managed fields and annotations.
async fn objects(stage: &Stage) -> String {
    let all = stage.objects(KINDS, &[]).await;
    let kinds: Vec<_> = all.iter().map(|one| &one["kind"]).collect();
    for kind in [
        "LlamaStackDistribution",
        "Deployment",
        "ConfigMap",
        "Event",
        "Pod",
    ] {
        assert!(
            kinds.contains(&&json!(kind)),
            "no {kind} to look at: {kinds:?}"
        );
    }
    json!(all).to_string()
}

/// What a monitoring system reads.
async fn metrics(stage: &Stage, at: std::net::SocketAddr) -> String {
    stage.admit_to_metrics().await;
    let token = stage.token().await;
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    llsd_testbed::until("metrics are read", Duration::from_secs(30), || async {
        let asked = client
            .get(format!("https://{at}/metrics"))
            .bearer_auth(&token);
        let text = asked.send().await?.error_for_status()?.text().await?;
        anyhow::ensure!(text.contains("llsd_reconciles_total"), "{text}");
        Ok(text)
    })
    .await
    .unwrap()
}

/// Writes Secrets without the annotation in which `kubectl apply` would repeat them.
async fn apply_secrets(stage: &Stage, secrets: &[Value]) {
    use kube::api::{Patch, PatchParams};
    let api: Api<Secret> = stage.api();
    for secret in secrets {
        let name = secret["metadata"]["name"].as_str().unwrap();
        let parameters = PatchParams::apply("tests").force();
        api.patch(name, &parameters, &Patch::Apply(secret))
            .await
            .unwrap();
    }
}
