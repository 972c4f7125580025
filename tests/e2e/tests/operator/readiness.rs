//! Whether tools that wait for a resource wait for the right thing: kstatus, Helm and Argo CD with their
//! own code.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::PostParams;
use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use llsd_e2e::{
    DEADLINE, Operator, RolloutState, STARTER, TestRegistry, argocd_health, condition,
    has_condition, kstatus, minimal, named, on_image, phase,
};
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use llsd_testbed::{Access, Finished, Invocation, until};
use serde_json::{Value, json};

async fn judgements(cr: &Distribution) -> (String, String) {
    (kstatus(cr).await, argocd_health(cr).await)
}

fn both(kstatus: &str, argocd: &str) -> (String, String) {
    (kstatus.to_owned(), argocd.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_that_is_not_applied_is_never_reported_as_current() {
    let mut registry = TestRegistry::start(Access::Anyone).await;
    let image = registry
        .push_labelled("acme/stack", "1", STARTER, "llama-stack/0.7", None)
        .await;
    let operator = Operator::start_with_registry("judged", registry.settings()).await;
    let created = operator.create(&on_image("judged", &image)).await;
    assert_eq!(
        judgements(&created).await,
        both("InProgress", "Progressing")
    );
    let ready = operator.wait_until_ready("judged").await;
    assert_eq!(judgements(&ready).await, both("Current", "Healthy"));
    let running = RolloutState::of(&operator, "judged").await;

    // The author must act.
    let unknown = json!({"spec": {"providers": {"inference": {"provider": "no-such-provider"}}}});
    let edited = operator.edit("judged", unknown).await;
    assert_eq!(judgements(&edited).await, both("InProgress", "Progressing"));
    let is_stalled = |cr: &Distribution| has_condition(cr, "Stalled", "True");
    let stalled = operator.wait_for("judged", "stalled", is_stalled).await;
    assert_eq!(judgements(&stalled).await, both("Failed", "Degraded"));
    assert_eq!(phase(&stalled), Some(Phase::Failed));

    // A failure that may pass: the registry of a new image does not answer.
    registry.server.stop();
    let other = registry.reference("acme/stack:2");
    let valid = minimal()["spec"]["providers"].clone();
    let change = json!({"spec": {"distribution": {"image": other}, "providers": valid}});
    operator.edit("judged", change).await;
    let is_retrying = |cr: &Distribution| has_condition(cr, "Reconciling", "True");
    let retrying = operator.wait_for("judged", "retrying", is_retrying).await;
    assert_eq!(
        judgements(&retrying).await,
        both("InProgress", "Progressing")
    );
    assert!(has_condition(&retrying, "Ready", "False"));
    assert!(condition(&retrying, "Stalled").is_none());
    assert_ne!(phase(&retrying), Some(Phase::Ready));
    assert_eq!(RolloutState::of(&operator, "judged").await, running);

    // Back to what runs.
    operator
        .edit(
            "judged",
            json!({"spec": {"distribution": {"image": image}}}),
        )
        .await;
    let ready = operator.wait_until_ready("judged").await;
    assert_eq!(judgements(&ready).await, both("Current", "Healthy"));
    assert!(condition(&ready, "Reconciling").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_waits_until_the_current_spec_is_applied() {
    let operator = Operator::start("helm-wait").await;
    let chart = tempfile::tempdir().unwrap();
    let helm = ensure_built(&cache_dir().unwrap(), &[Tool::Helm])
        .unwrap()
        .remove(0);
    std::fs::create_dir(chart.path().join("templates")).unwrap();
    let metadata = "apiVersion: v2\nname: demo\nversion: 0.1.0\n";
    std::fs::write(chart.path().join("Chart.yaml"), metadata).unwrap();
    let write = |resource: &Value| {
        let file = chart.path().join("templates/resource.yaml");
        std::fs::write(file, resource.to_string()).unwrap();
    };
    let kubeconfig = operator.testbed.kubeconfig("admin").unwrap();
    let upgrade = async |timeout: &str| -> Finished {
        Invocation::new(&helm)
            .args([
                "upgrade",
                "--install",
                "demo",
                "--wait",
                "--timeout",
                timeout,
            ])
            .arg(chart.path())
            .namespace(operator.namespace.name())
            .env("KUBECONFIG", &kubeconfig)
            // Helm writes nothing into the user's folders.
            .env("HELM_CACHE_HOME", chart.path())
            .run()
            .await
            .unwrap()
    };
    let mut resource = named("helm");
    write(&resource);
    upgrade("60s").await.success().unwrap();
    let cr = operator.api::<Distribution>().get("helm").await.unwrap();
    assert_eq!(phase(&cr), Some(Phase::Ready));

    resource["spec"]["providers"]["inference"]["provider"] = json!("no-such-provider");
    write(&resource);
    let error = upgrade("5s").await.failure().unwrap();
    assert!(
        error.contains("helm") && error.contains("not ready"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_quota_forbids_are_reported_at_once_in_the_words_of_the_api_server() {
    let operator = Operator::start("quota").await;
    let quota = json!({
        "metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}},
    });
    let quotas = operator.api::<ResourceQuota>();
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    until("the quota is enforced", DEADLINE, || async {
        let quota = quotas.get("no-pods").await?;
        let hard = quota.status.and_then(|status| status.hard);
        anyhow::ensure!(hard.is_some(), "no status yet");
        Ok(())
    })
    .await
    .unwrap();
    operator.create(&minimal()).await;
    let started = std::time::Instant::now();
    let is_stalled = |cr: &Distribution| has_condition(cr, "Stalled", "True");
    let cr = operator.wait_for("minimal", "stalled", is_stalled).await;
    // The progress deadline of a Deployment is ten minutes.
    assert!(started.elapsed() < Duration::from_secs(300));
    for kind in ["Stalled", "Ready", "Available"] {
        let (_, reason, message) = condition(&cr, kind).unwrap();
        assert_eq!(reason, "ReplicaFailure", "{kind}: {message}");
        assert!(message.contains("exceeded quota: no-pods"), "{message}");
    }
    assert_eq!(phase(&cr), Some(Phase::Failed));
    assert_eq!(kstatus(&cr).await, "Failed");
}
