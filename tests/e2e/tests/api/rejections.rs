//! Who refuses what: each bad example of the table of rules, and what only plugins can know.

use kube::core::Status;
use llsd_api::POLICY_NAME;
use llsd_api::rules::{Example, Expression, Layer, Rule, rules};
use serde_json::Value;

use crate::plane::{Plane, attempt, resource};

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_resource_is_refused_by_its_layer_on_the_newest_release() {
    refuse_all(Plane::newest().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_resource_is_refused_by_its_layer_on_the_oldest_release() {
    refuse_all(Plane::oldest().await).await;
}

async fn refuse_all(plane: &Plane) {
    let client = plane.client().await;
    let (mut sent, mut wrong) = (0, Vec::new());
    for rule in rules() {
        for example in rule.examples {
            sent += 1;
            let spec: Value = serde_saphyr::from_str(example.spec).unwrap();
            let document = resource("v1alpha2", example.name, &spec);
            let complaint = match attempt(&client, "default", &document).await.unwrap() {
                Ok(_) => Some("accepted".to_owned()),
                Err(status) => complaint(rule, example, &status),
            };
            wrong.extend(complaint.map(|one| format!("{} {}\n    {one}", rule.id, example.spec)));
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

/// What is wrong with a refusal, if anything.
fn complaint(rule: &Rule, example: &Example, status: &Status) -> Option<String> {
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
            "refused by {by:?} and not by {:?}: {message}",
            rule.layer
        ));
    }
    let place = place(rule, example);
    let says = match by {
        // The API server's own words: the place, and what is wrong with it.
        Layer::Schema => message.contains(&place),
        Layer::Crd => message.contains(&place),
        Layer::Policy => {
            message.contains(&place) && message.contains(rule.problem) && message.contains(rule.fix)
        }
        Layer::Webhook => message.contains(&format!("{place}: ")) && message.contains("; "),
    };
    (!says).then(|| format!("does not name {place} with problem and fix: {message}"))
}

/// The place that a layer names: rules in CEL name the node that they stand at.
fn place(rule: &Rule, example: &Example) -> String {
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
        // A list's entry that is repeated, and everything else, is named itself.
        None => example.field.to_owned(),
    }
}

/// What no rule of the table can know: it takes the plugins and the list of distributions.
const KNOWN_BY_PLUGINS: &[(&str, &str)] = &[
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
        "meta-reference-gpu, postgres-demo, remote-vllm, starter",
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
async fn what_only_plugins_know_is_refused_by_the_webhook() {
    let client = Plane::newest().await.client().await;
    let mut wrong = Vec::new();
    for (spec, expected) in KNOWN_BY_PLUGINS {
        let document = resource(
            "v1alpha2",
            "my-stack",
            &serde_saphyr::from_str(spec).unwrap(),
        );
        match attempt(&client, "default", &document).await.unwrap() {
            Ok(_) => wrong.push(format!("{spec}\n    accepted")),
            Err(status)
                if status.message.contains("admission webhook")
                    && status.message.contains(expected) => {}
            Err(status) => wrong.push(format!("{spec}\n    {}", status.message)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
