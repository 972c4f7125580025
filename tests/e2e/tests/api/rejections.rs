//! Which layer rejects a resource: every invalid example of the table of rules, and errors that only
//! plugins detect.

use kube::core::Status;
use llsd_api::POLICY_NAME;
use llsd_api::rules::{Example, Expression, Layer, Rule, rules};
use serde_json::Value;

use crate::test_cluster::{TestCluster, dry_run, resource};

#[tokio::test(flavor = "multi_thread")]
async fn every_invalid_resource_is_rejected_by_the_expected_layer_on_the_newest_release() {
    reject_all(TestCluster::newest().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_invalid_resource_is_rejected_by_the_expected_layer_on_the_oldest_release() {
    reject_all(TestCluster::oldest().await).await;
}

async fn reject_all(cluster: &TestCluster) {
    let client = cluster.client().await;
    let (mut sent, mut wrong) = (0, Vec::new());
    for rule in rules() {
        for example in rule.examples {
            sent += 1;
            let spec: Value = serde_saphyr::from_str(example.spec).unwrap();
            let document = resource("v1alpha2", example.name, &spec);
            let problem = match dry_run(&client, "default", &document).await.unwrap() {
                Ok(_) => Some("accepted".to_owned()),
                Err(status) => problem_with(rule, example, &status),
            };
            wrong.extend(problem.map(|one| format!("{} {}\n    {one}", rule.id, example.spec)));
        }
    }
    assert!(sent >= 60, "{sent} examples");
    assert!(
        wrong.is_empty(),
        "{} of {sent}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// How a rejection differs from what the rule demands, if it does.
fn problem_with(rule: &Rule, example: &Example, status: &Status) -> Option<String> {
    let message = &status.message;
    let by = if message.contains("admission webhook") {
        Layer::Webhook
    } else if message.contains(&format!("ValidatingAdmissionPolicy '{POLICY_NAME}'")) {
        Layer::Policy
    } else if message.contains(&format!("{}; {}", rule.problem, rule.fix)) {
        Layer::Crd
    } else {
        Layer::Schema
    };
    if by != rule.layer {
        return Some(format!(
            "rejected by {by:?} instead of {:?}: {message}",
            rule.layer
        ));
    }
    let field = expected_field(rule, example);
    let is_named = match by {
        // The API server words these messages itself.
        Layer::Schema => message.contains(&field),
        Layer::Crd => message.contains(&field),
        Layer::Policy => {
            message.contains(&field) && message.contains(rule.problem) && message.contains(rule.fix)
        }
        Layer::Webhook => message.contains(&format!("{field}: ")) && message.contains("; "),
    };
    (!is_named)
        .then(|| format!("the message does not name {field}, the problem and the fix: {message}"))
}

/// The field that the message must name. A CEL rule names the node that it is attached to.
fn expected_field(rule: &Rule, example: &Example) -> String {
    match rule.expression {
        Some(Expression::Policy { field, .. }) => field.to_owned(),
        Some(Expression::PolicyPerApi { suffix, .. }) => {
            let api = example.field.split(['.', '[']).nth(2).unwrap_or_default();
            format!("spec.providers.{api}{suffix}")
        }
        Some(Expression::Crd { at, field_path, .. }) => {
            let node = at
                .iter()
                .filter(|node| example.field.starts_with(**node))
                .max();
            format!(
                "{}{}",
                node.unwrap_or(&"spec"),
                field_path.unwrap_or_default()
            )
        }
        None => example.field.to_owned(),
    }
}

/// Errors that no rule of the table can detect, because they depend on the plugins and distributions.
const DETECTED_BY_PLUGINS: &[(&str, &str)] = &[
    (
        "{distribution: {name: starter}, disabled: [inference]}",
        "spec.disabled[0]: the server does not start without \"inference\"",
    ),
    (
        "{distribution: {name: startr}}",
        "spec.distribution.name: no distribution is called \"startr\"; did you mean \"starter\"?",
    ),
    (
        "{distribution: {name: gpu-farm}}",
        "meta-reference-gpu, ogx-meta-reference-gpu, ogx-postgres-demo, ogx-remote-vllm, ogx-starter, postgres-demo, remote-vllm, starter",
    ),
    (
        "{distribution: {name: starter}, providers: {inference: {provider: vlm, endpoint: 'http://a'}}}",
        "spec.providers.inference.provider: ",
    ),
    (
        "{distribution: {name: starter}, providers: {inference: {provider: vllm, endpoint: 'http://a'}}, resources: {models: [{name: m, provider: nobody}]}}",
        "spec.resources.models[0].provider: ",
    ),
    (
        "{distribution: {name: starter}, disabled: [safety], resources: {shields: [{name: s, model: m}]}}",
        "spec.resources.shields[0]",
    ),
    (
        "{distribution: {name: starter}, disabled: [toolRuntime], resources: {tools: [rag]}}",
        "spec.resources.tools[0]",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_only_plugins_detect_are_rejected_by_the_webhook() {
    let client = TestCluster::newest().await.client().await;
    let mut wrong = Vec::new();
    for (spec, expected) in DETECTED_BY_PLUGINS {
        let document = resource(
            "v1alpha2",
            "my-stack",
            &serde_saphyr::from_str(spec).unwrap(),
        );
        match dry_run(&client, "default", &document).await.unwrap() {
            Ok(_) => wrong.push(format!("{spec}\n    accepted")),
            Err(status)
                if status.message.contains("admission webhook")
                    && status.message.contains(expected) => {}
            Err(status) => wrong.push(format!("{spec}\n    {}", status.message)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
