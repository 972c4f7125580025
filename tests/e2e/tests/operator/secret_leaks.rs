//! Secret values appear in no log, object or metric, and are not passed to plugins.

use std::fs::File;
use std::net::TcpListener;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use llsd_api::Distribution;
use llsd_e2e::{OperatorProcess, TestEnv, has_condition, named};
use serde_json::json;

/// Every kind that the operator or a built-in controller writes, except Secrets.
const KINDS: &str = "llamastackdistributions,deployments,replicasets,pods,services,serviceaccounts,\
    configmaps,events,networkpolicies,poddisruptionbudgets,horizontalpodautoscalers,ingresses,\
    persistentvolumeclaims,leases";

/// Applies two Secrets with recognisable values that contain `generation`.
async fn apply_secrets(env: &TestEnv, generation: &str) {
    let token = format!("canary-token-{generation}");
    env.apply_secret("vllm", &[("token", &token)]).await;
    let password = format!("canary-password-{generation}");
    let dsn = format!("postgresql://canary-user:{password}@postgres:5432/stack");
    env.apply_secret("postgres", &[("dsn", &dsn)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_value_appears_in_no_log_object_or_metric() {
    let env = TestEnv::new("canary").await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let metrics_at = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let kubeconfig = env.testbed.kubeconfig(&env.user).unwrap();
    let process = OperatorProcess::start_with(&env, &kubeconfig, |command| {
        command
            .args(["--metrics", &metrics_at.to_string(), "--log-json"])
            // Everything that our own crates log, and `debug` of the others.
            .env(
                "RUST_LOG",
                "debug,llsd_controller=trace,llsd_plugin=trace,llsd_registry=trace",
            )
            .stderr(File::create(&log).unwrap())
    });

    apply_secrets(&env, "first").await;
    let mut resource = named("canary");
    resource["spec"]["providers"]["inference"]["apiKey"] = json!({"name": "vllm", "key": "token"});
    resource["spec"]["storage"] = json!({"sql": {
        "type": "postgres",
        "connectionString": {"secretKeyRef": {"name": "postgres", "key": "dsn"}},
    }});
    env.create(&resource).await;
    let first = env.wait_until_ready("canary").await;
    apply_secrets(&env, "second").await;
    let is_replaced = |one: &Deployment| one.metadata.generation >= Some(2);
    env.wait_for_deployment("canary", "replaced", is_replaced)
        .await;
    let second = env.wait_until_ready("canary").await;
    // Some messages are written only on errors, so cause one.
    env.apply_secret("postgres", &[("dsn", "canary-no-connection-string")])
        .await;
    let is_rejected = |cr: &Distribution| has_condition(cr, "SecretsResolved", "False");
    env.wait_for("canary", "rejected", is_rejected).await;

    // The receipt is a digest of the plugin's input. It must not change with a secret value.
    assert_eq!(receipt(&first), receipt(&second));
    assert_clean("objects", &objects(&env).await);
    assert_clean("metrics", &metrics(&env, metrics_at).await);
    drop(process);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("canary"),
        "the log does not mention the resource:\n{log}"
    );
    assert_clean("log", &log);

    // The derived Secret, however, must hold the parts of the connection string.
    let derived = env.api::<Secret>().get("canary-derived").await.unwrap();
    let values = derived.data.unwrap().into_values();
    let has_password = |value: k8s_openapi::ByteString| value.0.starts_with(b"canary-password-");
    assert!(values.into_iter().any(has_password));
}

fn receipt(cr: &Distribution) -> String {
    let generation = cr.status.as_ref().unwrap().config_generation.as_ref();
    generation.unwrap().receipt.clone().unwrap()
}

/// Asserts that a string contains no secret value, neither plain nor in base64.
fn assert_clean(source: &str, text: &str) {
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
        assert_eq!(around, None, "{source} contains {value}");
    }
}

/// Every object of the namespace except Secrets, with managed fields and annotations.
async fn objects(env: &TestEnv) -> String {
    let all = env.objects(KINDS, &[]).await;
    let kinds: Vec<_> = all.iter().map(|one| &one["kind"]).collect();
    for kind in [
        "LlamaStackDistribution",
        "Deployment",
        "ConfigMap",
        "Event",
        "Pod",
    ] {
        assert!(kinds.contains(&&json!(kind)), "no {kind} among {kinds:?}");
    }
    json!(all).to_string()
}

/// The metrics of the operator.
async fn metrics(env: &TestEnv, at: std::net::SocketAddr) -> String {
    env.allow_reading_metrics().await;
    let token = env.token().await;
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    llsd_testbed::until("metrics are read", llsd_e2e::DEADLINE, || async {
        let request = client
            .get(format!("https://{at}/metrics"))
            .bearer_auth(&token);
        let text = request.send().await?.error_for_status()?.text().await?;
        anyhow::ensure!(text.contains("llsd_reconciles_total"), "{text}");
        Ok(text)
    })
    .await
    .unwrap()
}
